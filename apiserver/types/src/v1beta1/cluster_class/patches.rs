//! What variables of a ClusterClass change in its templates, in v1beta1.

use std::collections::BTreeMap;

use crate::cluster_class::JsonPatchOperation;
use crate::object::wire;
use crate::shared::Any;

wire! {
    /// What changes in templates, for one reason.
    ClusterClassPatch {
        required {
            /// Its name.
            #[schemars(length(min = 1, max = 256))]
            name: String,
        }
        optional {
            /// Changes written down here.
            #[schemars(length(max = 100))]
            definitions: Vec<PatchDefinition>,
            /// For people.
            #[schemars(length(min = 1, max = 1024))]
            description: String,
            /// Go template; the patch is made when it says `true`.
            #[schemars(length(min = 1, max = 256))]
            enabled_if: String,
            /// Changes made by extensions.
            external: ExternalPatchDefinition,
        }
    }

    /// Changes of some templates.
    PatchDefinition {
        required {
            /// The changes, in order.
            #[schemars(length(max = 100))]
            json_patches: Vec<JsonPatch>,
            /// The templates.
            selector: PatchSelector,
        }
    }

    /// One operation of a JSON patch.
    JsonPatch {
        required {
            /// What to do.
            op: JsonPatchOperation,
            /// Where.
            #[schemars(length(min = 1, max = 512))]
            path: String,
        }
        optional {
            /// A value as it stands.
            value: Any,
            /// A value made from variables.
            value_from: JsonPatchValue,
        }
    }

    /// A value made from variables: in one of the two ways.
    JsonPatchValue {
        optional {
            /// Go template of the value.
            #[schemars(length(min = 1, max = 10240))]
            template: String,
            /// The variable whose value it is.
            #[schemars(length(min = 1, max = 256))]
            variable: String,
        }
    }

    /// Some templates.
    PatchSelector {
        required {
            /// Their group and version.
            #[schemars(length(min = 1, max = 512))]
            api_version: String,
            /// Their kind.
            #[schemars(length(min = 1, max = 256))]
            kind: String,
            /// What they are for.
            match_resources: PatchSelectorMatch,
        }
    }

    /// What a template is for: any of these.
    PatchSelectorMatch {
        optional {
            /// The control plane.
            control_plane: bool,
            /// The infrastructure.
            infrastructure_cluster: bool,
            /// Pools of Machines.
            machine_deployment_class: PatchSelectorClasses,
            /// Pools that the cloud manages.
            machine_pool_class: PatchSelectorClasses,
        }
    }

    /// Some classes of workers.
    PatchSelectorClasses {
        optional {
            /// Their names; `*` stands for anything at the beginning or the end.
            #[schemars(length(max = 100), inner(length(min = 1, max = 256)))]
            names: Vec<String>,
        }
    }

    /// Changes made by extensions.
    ExternalPatchDefinition {
        optional {
            /// The extension that declares variables.
            #[schemars(length(min = 1, max = 512))]
            discover_variables_extension: String,
            /// The extension that makes patches.
            #[schemars(length(min = 1, max = 512))]
            generate_extension: String,
            /// What the extensions are given along.
            settings: BTreeMap<String, String>,
            /// The extension that judges the result.
            #[schemars(length(min = 1, max = 512))]
            validate_extension: String,
        }
    }
}
