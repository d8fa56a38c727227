//! MachineDeployment: group of equal Machines with rolling updates.

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
    column("Cluster", "string", ".spec.clusterName", "Cluster that the deployment belongs to."),
    column(
        "Available",
        "string",
        ".status.conditions[?(@.type==\"Available\")].status",
        "The deployment has as many available Machines as it needs.",
    ),
    column("Desired", "integer", ".spec.replicas", "Machines of the deployment that are desired."),
    column("Current", "integer", ".status.replicas", "Machines of the deployment that exist."),
    column("Ready", "integer", ".status.readyReplicas", "Machines of the deployment that are ready."),
    column(
        "Available",
        "integer",
        ".status.availableReplicas",
        "Machines of the deployment that are available.",
    ),
    column(
        "Up-to-date",
        "integer",
        ".status.upToDateReplicas",
        "Machines of the deployment that match the current specification of their owner.",
    ),
    wide(
        "Paused",
        "string",
        ".status.conditions[?(@.type==\"Paused\")].status",
        "Reconciliation is paused: True while the object or its Cluster is paused.",
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
    let mut status = structural::<MachineDeploymentStatus>();
    status["minProperties"] = 1.into();
    object(description, Some(structural::<MachineDeploymentSpec>()), Some(status), true)
}

kind! {
    /// Group of equal Machines that are replaced step by step after a change of the template.
    MachineDeployment, MachineDeploymentSpec, MachineDeploymentStatus, schema, Descriptor {
        group: "cluster.x-k8s.io", version: "v1beta2", kind: "MachineDeployment", plural: "machinedeployments", singular: "machinedeployment",
        short_names: &["md"], categories: &["cluster-api"], namespaced: true, status_subresource: true,
        scale: Some(Scale { spec_replicas: ".spec.replicas", status_replicas: ".status.replicas", selector: Some(".status.selector") }),
        deprecation: None,
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
            /// Order in which Machines are deleted at scale-down.
            #[schemars(extend("minProperties" = 1))]
            deletion: ReplicaDeletion,
            /// Naming rule of the Machines.
            #[schemars(extend("minProperties" = 1))]
            machine_naming: MachineNaming,
            /// Pauses the MachineDeployment. If true, its controller leaves it unchanged. Default: false.
            paused: bool,
            /// Limits on the remediation of unhealthy Machines.
            #[schemars(extend("minProperties" = 1))]
            remediation: ReplicaRemediation,
            /// Desired number of Machines. Default: 1, or within the limits of the autoscaler annotations.
            replicas: i32,
            /// Rollout settings.
            #[schemars(extend("minProperties" = 1))]
            rollout: MachineDeploymentRollout,
        }
    }

    /// Limits on the remediation of unhealthy Machines.
    ReplicaRemediation {
        optional {
            /// Maximum number of remediations in flight, as a number or a percentage of the replicas.
            /// Default: no limit.
            max_in_flight: IntOrString,
        }
    }

    /// Observed state of a MachineDeployment.
    MachineDeploymentStatus {
        optional {
            /// Number of Machines whose Available condition is True.
            available_replicas: i32,
            /// Conditions, at most one per type.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
            conditions: Vec<Condition>,
            /// Status in the form of v1beta1, for clients of that version.
            deprecated: Deprecated<MachineDeploymentDeprecatedStatus>,
            /// Value of `metadata.generation` that the controller last processed.
            #[schemars(range(min = 1))]
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
            /// Number of Machines whose UpToDate condition is True.
            up_to_date_replicas: i32,
            /// Number of Machines per Kubernetes version.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["version"]))]
            versions: Vec<StatusVersion>,
        }
    }

    /// Status of a MachineDeployment in the form of v1beta1.
    MachineDeploymentDeprecatedStatus {
        optional {
            /// Number of available Machines, by the counting rules of v1beta1.
            available_replicas: i32,
            /// Conditions in the form of v1beta1, at most one per type.
            conditions: Vec<DeprecatedCondition>,
            /// Number of ready Machines, by the counting rules of v1beta1.
            ready_replicas: i32,
            /// Number of desired Machines that are not available.
            unavailable_replicas: i32,
            /// Number of Machines that match the current template.
            updated_replicas: i32,
        }
    }
}

words! {
    /// Phase of a MachineDeployment.
    MachineDeploymentPhase {
        /// The number of Machines is below the desired number.
        #[default]
        ScalingUp,
        /// The number of Machines is above the desired number.
        ScalingDown,
        /// The number of Machines equals the desired number.
        Running,
        /// A terminal error occurred. It needs a manual change.
        Failed,
        /// The phase cannot be determined.
        Unknown,
    }
}
