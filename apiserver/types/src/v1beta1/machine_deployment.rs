//! MachineDeployment in v1beta1.

use serde_json::Value;

use super::shared::{MachineTemplateSpec, V1Beta2Replicas};
use crate::cluster::{DeletionOrder, RolloutStrategyType};
use crate::deprecated::DeprecatedCondition;
use crate::descriptor::{AGE, Column, Descriptor, Scale, column, wide};
use crate::label_selector::LabelSelector;
use crate::machine_deployment::MachineDeploymentPhase;
use crate::machine_set::MachineNaming;
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::{IntOrString, StatusVersion, Time};

const COLUMNS: &[Column] = &[
    column("Cluster", "string", ".spec.clusterName"),
    wide("Desired", "integer", ".spec.replicas"),
    column("Replicas", "integer", ".status.replicas"),
    column("Ready", "integer", ".status.readyReplicas"),
    column("Updated", "integer", ".status.updatedReplicas"),
    column("Unavailable", "integer", ".status.unavailableReplicas"),
    column("Phase", "string", ".status.phase"),
    AGE,
    column("Version", "string", ".spec.template.spec.version"),
];

fn schema() -> Value {
    let description =
        "A number of Machines made from one template, exchanged little by little when it changes.";
    object(
        description,
        Some(structural::<MachineDeploymentSpec>()),
        Some(structural::<MachineDeploymentStatus>()),
        false,
    )
}

kind! {
    /// A number of Machines made from one template, exchanged little by little when it changes.
    bare MachineDeployment, MachineDeploymentSpec, MachineDeploymentStatus, schema, Descriptor {
        group: "cluster.x-k8s.io", version: "v1beta1", kind: "MachineDeployment", plural: "machinedeployments", singular: "machinedeployment",
        short_names: &["md"], categories: &["cluster-api"], namespaced: true, status_subresource: true,
        scale: Some(Scale { spec_replicas: ".spec.replicas", status_replicas: ".status.replicas", selector: Some(".status.selector") }),
        deprecation: Some("cluster.x-k8s.io/v1beta1 MachineDeployment is deprecated; use cluster.x-k8s.io/v1beta2 MachineDeployment"),
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
            /// What Machines are called.
            machine_naming_strategy: MachineNaming,
            /// Ready for so long before it counts as available. Unit: seconds.
            min_ready_seconds: i32,
            /// Leave it alone.
            paused: bool,
            /// Nothing reads it. Unit: seconds.
            progress_deadline_seconds: i32,
            /// How many.
            replicas: i32,
            /// How many old MachineSets are kept; nothing reads it any more.
            revision_history_limit: i32,
            /// Replace Machines made before this.
            rollout_after: Time,
            /// How to roll out.
            strategy: MachineDeploymentStrategy,
        }
    }

    /// How Machines are exchanged.
    MachineDeploymentStrategy {
        optional {
            /// How unhealthy ones are replaced.
            remediation: RemediationStrategy,
            /// For a rolling update.
            rolling_update: RollingUpdate,
            /// In which way.
            #[serde(rename = "type")]
            kind: RolloutStrategyType,
        }
    }

    /// How unhealthy Machines are replaced.
    RemediationStrategy {
        optional {
            /// At most so many at once.
            max_in_flight: IntOrString,
        }
    }

    /// Bounds of a rolling update.
    RollingUpdate {
        optional {
            /// Who goes first when there are too many.
            delete_policy: DeletionOrder,
            /// So many more than wanted.
            max_surge: IntOrString,
            /// So many fewer than wanted.
            max_unavailable: IntOrString,
        }
    }

    /// What was observed of a MachineDeployment.
    MachineDeploymentStatus {
        optional {
            /// Available ones.
            available_replicas: i32,
            /// Conditions.
            conditions: Vec<DeprecatedCondition>,
            /// The generation that was last acted on.
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
            /// Those still missing.
            unavailable_replicas: i32,
            /// Those made from the current template.
            updated_replicas: i32,
            /// What v1beta2 reports.
            v1beta2: V1Beta2Replicas,
            /// How many run which version.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["version"]))]
            versions: Vec<StatusVersion>,
        }
    }
}
