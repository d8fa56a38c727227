//! What variables of a ClusterClass change in its templates.

use std::collections::BTreeMap;

use crate::object::wire;
use crate::shared::{Any, words};

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
            #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "atomic"))]
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
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
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
            #[schemars(length(min = 1, max = 317), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[a-z]([-a-z0-9]*[a-z0-9])?$"))]
            api_version: String,
            /// Their kind.
            #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$"))]
            kind: String,
            /// What they are for.
            #[schemars(extend("minProperties" = 1))]
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
            #[schemars(length(max = 100), inner(length(min = 1, max = 256)), extend("x-kubernetes-list-type" = "atomic"))]
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
            generate_patches_extension: String,
            /// What the extensions are given along.
            settings: BTreeMap<String, String>,
            /// The extension that judges the result.
            #[schemars(length(min = 1, max = 512))]
            validate_topology_extension: String,
        }
    }
}

words! {
    /// What a JSON patch does at a place.
    JsonPatchOperation {
        /// Put something there.
        #[default]
        #[serde(rename = "add")]
        Add,
        /// Put something else there.
        #[serde(rename = "replace")]
        Replace,
        /// Take it away.
        #[serde(rename = "remove")]
        Remove,
    }
}
