//! kubeadm: environment variables of the components.

use crate::object::wire;
use crate::scalar::Quantity;

wire! {
    /// An environment variable of a component.
    EnvVar {
        required {
            /// Name of the variable.
            name: String,
        }
        optional {
            /// Its value.
            value: String,
            /// Where its value comes from.
            value_from: EnvVarSource,
        }
    }

    /// Where a value comes from.
    EnvVarSource {
        optional {
            /// ConfigMap key.
            #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
            config_map_key_ref: SecretOrConfigMapKeySelector,
            /// Downward API field.
            #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
            field_ref: ObjectFieldSelector,
            /// Key in a file.
            #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
            file_key_ref: FileKeySelector,
            /// Resource field.
            #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
            resource_field_ref: ResourceFieldSelector,
            /// Secret key.
            #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
            secret_key_ref: SecretOrConfigMapKeySelector,
        }
    }

    /// A key of a ConfigMap or Secret.
    SecretOrConfigMapKeySelector {
        required {
            /// The key.
            key: String,
        }
        optional {
            /// The object.
            #[schemars(extend("default" = ""))]
            name: String,
            /// Whether the object or the key may be missing.
            optional: bool,
        }
    }

    /// A field of the pod.
    ObjectFieldSelector {
        required {
            /// Path of the field.
            field_path: String,
        }
        optional {
            /// Version that the path is written in.
            api_version: String,
        }
    }

    /// A key in a file of variables.
    FileKeySelector {
        required {
            /// Name of the variable in the file.
            key: String,
            /// Path of the file in the volume.
            path: String,
            /// Volume with the file.
            volume_name: String,
        }
        optional {
            /// Whether the file or the variable may be missing.
            #[schemars(extend("default" = false))]
            optional: bool,
        }
    }

    /// A resource of a container.
    ResourceFieldSelector {
        required {
            /// The resource.
            resource: String,
        }
        optional {
            /// The container.
            container_name: String,
            /// Unit of the value.
            divisor: Quantity,
        }
    }
}
