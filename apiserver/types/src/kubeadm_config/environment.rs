//! Environment variables of control plane components, as kubeadm sets them.

use crate::object::wire;
use crate::scalar::Quantity;

wire! {
    /// Environment variable of a component.
    EnvVar {
        required {
            /// Name of the variable.
            name: String,
        }
        optional {
            /// Value of the variable. Mutually exclusive with `valueFrom`. Default: empty.
            value: String,
            /// Source of the value. Mutually exclusive with `value`.
            value_from: EnvVarSource,
        }
    }

    /// Source of an environment variable's value. Exactly one field is set.
    EnvVarSource {
        optional {
            /// Key of a ConfigMap.
            #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
            config_map_key_ref: SecretOrConfigMapKeySelector,
            /// Field of the pod.
            #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
            field_ref: ObjectFieldSelector,
            /// Key in a file of variables in a volume.
            #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
            file_key_ref: FileKeySelector,
            /// Resource request or limit of a container.
            #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
            resource_field_ref: ResourceFieldSelector,
            /// Key of a Secret.
            #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
            secret_key_ref: SecretOrConfigMapKeySelector,
        }
    }

    /// Key of a ConfigMap or Secret.
    SecretOrConfigMapKeySelector {
        required {
            /// Key in the ConfigMap or Secret.
            key: String,
        }
        optional {
            /// Name of the ConfigMap or Secret. Default: empty.
            #[schemars(extend("default" = ""))]
            name: String,
            /// Handling of a missing object or key. If true, the variable stays unset. Default: false.
            optional: bool,
        }
    }

    /// Field of the pod.
    ObjectFieldSelector {
        required {
            /// Path of the field, e.g. `metadata.name`.
            field_path: String,
        }
        optional {
            /// API version of the pod schema that the path refers to. Default: `v1`.
            api_version: String,
        }
    }

    /// Key in a file of variables in a volume.
    FileKeySelector {
        required {
            /// Name of the variable in the file.
            key: String,
            /// Path of the file, relative to the root of the volume.
            path: String,
            /// Name of the volume that contains the file.
            volume_name: String,
        }
        optional {
            /// Handling of a missing file or key. If true, the variable stays unset. Default: false.
            #[schemars(extend("default" = false))]
            optional: bool,
        }
    }

    /// Resource request or limit of a container.
    ResourceFieldSelector {
        required {
            /// Resource, e.g. `limits.cpu`.
            resource: String,
        }
        optional {
            /// Name of the container. Default: the container with the variable.
            container_name: String,
            /// Quantity that the value is divided by. Default: 1.
            divisor: Quantity,
        }
    }
}
