//! MachineDeployment in v1beta1: group of equal Machines with rolling updates.

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
    column("Cluster", "string", ".spec.clusterName", "Cluster that the deployment belongs to."),
    wide("Desired", "integer", ".spec.replicas", "Machines of the deployment that are desired."),
    column("Replicas", "integer", ".status.replicas", "Machines of the deployment that exist."),
    column("Ready", "integer", ".status.readyReplicas", "Machines of the deployment that are ready."),
    column(
        "Updated",
        "integer",
        ".status.updatedReplicas",
        "Machines of the deployment that match the current specification of their owner.",
    ),
    column(
        "Unavailable",
        "integer",
        ".status.unavailableReplicas",
        "Machines of the deployment that are not available yet, or not any more.",
    ),
    column("Phase", "string", ".status.phase", "Running, ScalingUp, ScalingDown, Failed or Unknown."),
    AGE,
    column(
        "Version",
        "string",
        ".spec.template.spec.version",
        "Kubernetes version that the Machines of the deployment are to run.",
    ),
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
    /// Group of equal Machines that are replaced step by step after a change of the template.
    bare MachineDeployment, MachineDeploymentSpec, MachineDeploymentStatus, schema, Descriptor {
        group: "cluster.x-k8s.io", version: "v1beta1", kind: "MachineDeployment", plural: "machinedeployments", singular: "machinedeployment",
        short_names: &["md"], categories: &["cluster-api"], namespaced: true, status_subresource: true,
        scale: Some(Scale { spec_replicas: ".spec.replicas", status_replicas: ".status.replicas", selector: Some(".status.selector") }),
        deprecation: Some("cluster.x-k8s.io/v1beta1 MachineDeployment is deprecated; use cluster.x-k8s.io/v1beta2 MachineDeployment"),
        columns: COLUMNS,
    }
}

wire! {
    /// Desired state of a MachineDeployment.
    MachineDeploymentSpec {
        required {
            /// Name of the Cluster that the object belongs to, in the same namespace. Immutable.
            #[schemars(length(min = 1, max = 63))]
            cluster_name: String,
            /// Label selector of the Machines. It matches the labels of the template.
            selector: LabelSelector,
            /// Template of the Machines.
            template: MachineTemplateSpec,
        }
        optional {
            /// Naming rule of the Machines.
            machine_naming_strategy: MachineNaming,
            /// Minimum time that a Machine is ready before it counts as available. Unit: seconds. Default: 0.
            min_ready_seconds: i32,
            /// Pauses the MachineDeployment. If true, its controller leaves it unchanged. Default: false.
            paused: bool,
            /// Deprecated field without effect. Unit: seconds.
            progress_deadline_seconds: i32,
            /// Desired number of Machines. Default: 1, or within the limits of the autoscaler annotations.
            replicas: i32,
            /// Number of old MachineSets that are kept. Deprecated, without effect.
            revision_history_limit: i32,
            /// Time of a requested rollout. Machines that were created before this time are replaced after it
            /// passes.
            rollout_after: Time,
            /// Rollout strategy.
            strategy: MachineDeploymentStrategy,
        }
    }

    /// Rollout strategy of a MachineDeployment.
    MachineDeploymentStrategy {
        optional {
            /// Limits on the remediation of unhealthy Machines.
            remediation: RemediationStrategy,
            /// Limits of a rolling update. Used only if the type is RollingUpdate.
            rolling_update: RollingUpdate,
            /// Type of rollout: RollingUpdate or OnDelete. Default: RollingUpdate.
            #[serde(rename = "type")]
            kind: RolloutStrategyType,
        }
    }

    /// Limits on the remediation of unhealthy Machines.
    RemediationStrategy {
        optional {
            /// Maximum number of remediations in flight, as a number or a percentage of the replicas.
            /// Default: no limit.
            max_in_flight: IntOrString,
        }
    }

    /// Limits of a rolling update.
    RollingUpdate {
        optional {
            /// Order in which Machines are deleted at scale-down: Random, Newest or Oldest. Default: Random.
            delete_policy: DeletionOrder,
            /// Maximum number of Machines above the desired number, as a number or a percentage. Default: 1.
            max_surge: IntOrString,
            /// Maximum number of unavailable Machines during the update, as a number or a percentage.
            /// Default: 0.
            max_unavailable: IntOrString,
        }
    }

    /// Observed state of a MachineDeployment.
    MachineDeploymentStatus {
        optional {
            /// Number of Machines whose Available condition is True.
            available_replicas: i32,
            /// Conditions in the form of v1beta1, at most one per type.
            conditions: Vec<DeprecatedCondition>,
            /// Value of `metadata.generation` that the controller last processed.
            observed_generation: i64,
            /// Phase of the MachineDeployment: ScalingUp, ScalingDown, Running, Failed or Unknown.
            phase: MachineDeploymentPhase,
            /// Number of Machines whose Ready condition is True.
            ready_replicas: i32,
            /// Number of Machines, in any state.
            replicas: i32,
            /// Label selector in its text form, for the `scale` subresource and for autoscalers.
            #[schemars(length(min = 1, max = 4096))]
            selector: String,
            /// Number of desired Machines that are not available.
            unavailable_replicas: i32,
            /// Number of Machines that match the current template.
            updated_replicas: i32,
            /// Status in the form of v1beta2.
            v1beta2: V1Beta2Replicas,
            /// Number of Machines per Kubernetes version.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["version"]))]
            versions: Vec<StatusVersion>,
        }
    }
}
