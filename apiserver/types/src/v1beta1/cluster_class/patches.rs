//! Patches of a ClusterClass in v1beta1: changes of its templates by variables.

use std::collections::BTreeMap;

use crate::cluster_class::JsonPatchOperation;
use crate::object::wire;
use crate::shared::Any;

wire! {
    /// Set of changes to the templates of a ClusterClass.
    ClusterClassPatch {
        required {
            /// Name of the patch. It is unique within the ClusterClass.
            #[schemars(length(min = 1, max = 256))]
            name: String,
        }
        optional {
            /// Inline definitions of the patch. Mutually exclusive with `external`.
            #[schemars(length(max = 100))]
            definitions: Vec<PatchDefinition>,
            /// Human-readable description of the patch.
            #[schemars(length(min = 1, max = 1024))]
            description: String,
            /// Go template that enables the patch. The patch is applied if the result is `true`. If unset,
            /// the patch is always applied.
            #[schemars(length(min = 1, max = 256))]
            enabled_if: String,
            /// Runtime extensions that generate the patch. Mutually exclusive with `definitions`.
            external: ExternalPatchDefinition,
        }
    }

    /// Inline JSON patches for a selection of templates.
    PatchDefinition {
        required {
            /// JSON patches, applied in order.
            #[schemars(length(max = 100))]
            json_patches: Vec<JsonPatch>,
            /// Selection of the templates that are patched.
            selector: PatchSelector,
        }
    }

    /// One operation of a JSON patch (RFC 6902).
    JsonPatch {
        required {
            /// Operation: `add`, `replace` or `remove`.
            op: JsonPatchOperation,
            /// JSON pointer of the changed field. It starts with `/spec`.
            #[schemars(length(min = 1, max = 512))]
            path: String,
        }
        optional {
            /// Literal value. Mutually exclusive with `valueFrom`.
            value: Any,
            /// Value that is computed from variables. Mutually exclusive with `value`.
            value_from: JsonPatchValue,
        }
    }

    /// Value that is computed from variables. Exactly one field is set.
    JsonPatchValue {
        optional {
            /// Go template that generates the value in YAML or JSON.
            #[schemars(length(min = 1, max = 10240))]
            template: String,
            /// Name or path of the variable that supplies the value.
            #[schemars(length(min = 1, max = 256))]
            variable: String,
        }
    }

    /// Selection of templates by kind and by use.
    PatchSelector {
        required {
            /// API group and version of the templates, in the form `group/version`.
            #[schemars(length(min = 1, max = 512))]
            api_version: String,
            /// Kind of the templates.
            #[schemars(length(min = 1, max = 256))]
            kind: String,
            /// Selection of the templates by their use in the ClusterClass.
            match_resources: PatchSelectorMatch,
        }
    }

    /// Selection of templates by their use in the ClusterClass. One matching criterion is enough.
    PatchSelectorMatch {
        optional {
            /// Selects the templates of the control plane if true.
            control_plane: bool,
            /// Selects the template of the cluster infrastructure if true.
            infrastructure_cluster: bool,
            /// Selects templates of MachineDeployment classes.
            machine_deployment_class: PatchSelectorClasses,
            /// Selects templates of MachinePool classes.
            machine_pool_class: PatchSelectorClasses,
        }
    }

    /// Selection of worker classes by name.
    PatchSelectorClasses {
        optional {
            /// Names of worker classes. A `*` at the beginning or at the end matches any text.
            #[schemars(length(max = 100), inner(length(min = 1, max = 256)))]
            names: Vec<String>,
        }
    }

    /// Runtime extensions that generate a patch.
    ExternalPatchDefinition {
        optional {
            /// Name of the runtime extension that declares variables.
            #[schemars(length(min = 1, max = 512))]
            discover_variables_extension: String,
            /// Name of the runtime extension that generates patches.
            #[schemars(length(min = 1, max = 512))]
            generate_extension: String,
            /// Settings that are sent with each call of the runtime extensions. They override those of the
            /// ExtensionConfig.
            settings: BTreeMap<String, String>,
            /// Name of the runtime extension that validates the patched topology.
            #[schemars(length(min = 1, max = 512))]
            validate_extension: String,
        }
    }
}
