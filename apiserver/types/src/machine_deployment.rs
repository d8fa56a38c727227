//! MachineDeployment: Machines all alike, exchanged little by little when what is wanted changes.

use serde_json::Value;

use crate::cluster::MachineDeploymentRollout;
use crate::deprecated::{Deprecated, DeprecatedCondition};
use crate::descriptor::{AGE, Column, Descriptor, Scale, column, wide};
use crate::label_selector::LabelSelector;
use crate::machine_set::{MachineNaming, MachineTemplateSpec, ReplicaDeletion};
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::{Condition, IntOrString, StatusVersion, words};

const COLUMNS: &[Column] = &[
    column("Cluster", "string", ".spec.clusterName"),
    column("Available", "string", ".status.conditions[?(@.type==\"Available\")].status"),
    column("Desired", "integer", ".spec.replicas"),
    column("Current", "integer", ".status.replicas"),
    column("Ready", "integer", ".status.readyReplicas"),
    column("Available", "integer", ".status.availableReplicas"),
    column("Up-to-date", "integer", ".status.upToDateReplicas"),
    wide("Paused", "string", ".status.conditions[?(@.type==\"Paused\")].status"),
    column("Phase", "string", ".status.phase"),
    AGE,
    column("Version", "string", ".spec.template.spec.version"),
];

fn schema() -> Value {
    let description =
        "A number of Machines made from one template, exchanged little by little when it changes.";
    let mut status = structural::<MachineDeploymentStatus>();
    status["minProperties"] = 1.into();
    object(description, Some(structural::<MachineDeploymentSpec>()), Some(status), true)
}

kind! {
    /// A number of Machines made from one template, exchanged little by little when it changes.
    MachineDeployment, MachineDeploymentSpec, MachineDeploymentStatus, schema, Descriptor {
        group: "cluster.x-k8s.io", version: "v1beta2", kind: "MachineDeployment", plural: "machinedeployments", singular: "machinedeployment",
        short_names: &["md"], categories: &["cluster-api"], namespaced: true, status_subresource: true,
        scale: Some(Scale { spec_replicas: ".spec.replicas", status_replicas: ".status.replicas", selector: Some(".status.selector") }),
        deprecation: None,
        columns: COLUMNS,
    }
}

wire! {
    /// What is wanted of a MachineDeployment.
    MachineDeploymentSpec {
        required {
            /// The Cluster it belongs to. Immutable.
            #[schemars(length(min = 1, max = 63))]
            cluster_name: String,
            /// Which Machines are its own; the template's labels must match.
            selector: LabelSelector,
            /// What Machines are made from.
            template: MachineTemplateSpec,
        }
        optional {
            /// Who goes when there are too many.
            #[schemars(extend("minProperties" = 1))]
            deletion: ReplicaDeletion,
            /// What Machines are called.
            #[schemars(extend("minProperties" = 1))]
            machine_naming: MachineNaming,
            /// Leave it alone.
            paused: bool,
            /// How unhealthy Machines are replaced.
            #[schemars(extend("minProperties" = 1))]
            remediation: ReplicaRemediation,
            /// How many.
            replicas: i32,
            /// How to roll out.
            #[schemars(extend("minProperties" = 1))]
            rollout: MachineDeploymentRollout,
        }
    }

    /// How unhealthy Machines are replaced.
    ReplicaRemediation {
        optional {
            /// At most so many at once.
            max_in_flight: IntOrString,
        }
    }

    /// What was observed of a MachineDeployment.
    MachineDeploymentStatus {
        optional {
            /// Available ones.
            available_replicas: i32,
            /// Conditions.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
            conditions: Vec<Condition>,
            /// Data that older clients read.
            deprecated: Deprecated<MachineDeploymentDeprecatedStatus>,
            /// The generation that was last acted on.
            #[schemars(range(min = 1))]
            observed_generation: i64,
            /// Where it is in its life.
            phase: MachineDeploymentPhase,
            /// Ready ones.
            ready_replicas: i32,
            /// All.
            replicas: i32,
            /// The selector in its text form, for the subresource `scale`.
            #[schemars(length(min = 1, max = 4096))]
            selector: String,
            /// Those that are as wanted.
            up_to_date_replicas: i32,
            /// How many run which version.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["version"]))]
            versions: Vec<StatusVersion>,
        }
    }

    /// Status in the words of v1beta1.
    MachineDeploymentDeprecatedStatus {
        optional {
            /// Available ones, as v1beta1 counts.
            available_replicas: i32,
            /// Conditions.
            conditions: Vec<DeprecatedCondition>,
            /// Ready ones, as v1beta1 counts.
            ready_replicas: i32,
            /// Those still missing.
            unavailable_replicas: i32,
            /// Those made from the current template.
            updated_replicas: i32,
        }
    }
}

words! {
    /// Where a MachineDeployment is in its life.
    MachineDeploymentPhase {
        /// Becoming more.
        #[default]
        ScalingUp,
        /// Becoming fewer.
        ScalingDown,
        /// As many as wanted.
        Running,
        /// It cannot be mended.
        Failed,
        /// Not known.
        Unknown,
    }
}
