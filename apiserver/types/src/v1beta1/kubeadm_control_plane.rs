//! KubeadmControlPlane in v1beta1: control plane Machines of a cluster, created by kubeadm.

use serde_json::Value;

use crate::deprecated::DeprecatedCondition;
use crate::descriptor::{AGE, Column, Descriptor, Scale, column, wide};
use crate::kubeadm_control_plane::{
    KubeadmControlPlaneRollingUpdate, KubeadmControlPlaneRolloutStrategyType,
};
use crate::machine_set::MachineNaming;
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::{Gate, MachineTaint, StatusVersion, TemplateMeta, Time};
use crate::v1beta1::kubeadm_config::KubeadmConfigSpec;
use crate::v1beta1::shared::{ObjectReference, V1Beta2Replicas};

const COLUMNS: &[Column] = &[
    column(
        "Cluster",
        "string",
        ".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",
        "Cluster that the control plane belongs to.",
    ),
    column(
        "Initialized",
        "boolean",
        ".status.initialized",
        "The first control plane machine has been initialized.",
    ),
    column(
        "API Server Available",
        "boolean",
        ".status.ready",
        "The API server of the workload cluster answers.",
    ),
    wide("Desired", "integer", ".spec.replicas", "Machines of the control plane that are desired."),
    column("Replicas", "integer", ".status.replicas", "Machines of the control plane that exist."),
    column("Ready", "integer", ".status.readyReplicas", "Machines of the control plane that are ready."),
    column(
        "Updated",
        "integer",
        ".status.updatedReplicas",
        "Machines of the control plane that match the current specification of their owner.",
    ),
    column(
        "Unavailable",
        "integer",
        ".status.unavailableReplicas",
        "Machines of the control plane that are not available yet, or not any more.",
    ),
    AGE,
    column("Version", "string", ".spec.version", "Kubernetes version of the control plane."),
];

fn schema() -> Value {
    object(
        "Control plane of a cluster that kubeadm sets up.",
        Some(structural::<KubeadmControlPlaneSpec>()),
        Some(structural::<KubeadmControlPlaneStatus>()),
        false,
    )
}

kind! {
    /// Control plane of a cluster that kubeadm sets up.
    bare KubeadmControlPlane, KubeadmControlPlaneSpec, KubeadmControlPlaneStatus, schema, Descriptor {
        group: "controlplane.cluster.x-k8s.io", version: "v1beta1", kind: "KubeadmControlPlane", plural: "kubeadmcontrolplanes", singular: "kubeadmcontrolplane",
        short_names: &["kcp"], categories: &["cluster-api"], namespaced: true, status_subresource: true, scale: Some(Scale {
            spec_replicas: ".spec.replicas", status_replicas: ".status.replicas", selector: Some(".status.selector"),
        }),
        deprecation: Some(
            "controlplane.cluster.x-k8s.io/v1beta1 KubeadmControlPlane is deprecated; use controlplane.cluster.x-k8s.io/v1beta2 KubeadmControlPlane",
        ),
        columns: COLUMNS,
    }
}

wire! {
    /// Desired state of a control plane.
    KubeadmControlPlaneSpec {
        required {
            /// kubeadm settings of the control plane Machines.
            kubeadm_config_spec: KubeadmConfigSpec,
            /// Template of the control plane Machines.
            machine_template: KubeadmControlPlaneMachineTemplate,
            /// Kubernetes version of the control plane, in the form `vX.Y.Z`.
            #[schemars(length(min = 1, max = 256))]
            version: String,
        }
        optional {
            /// Naming rule of the control plane Machines.
            machine_naming_strategy: MachineNaming,
            /// Limits on the remediation of unhealthy Machines.
            remediation_strategy: KubeadmControlPlaneRemediation,
            /// Desired number of control plane Machines. The number is odd unless etcd is external. Default:
            /// 1.
            replicas: i32,
            /// Time of a requested rollout. Machines that were created before this time are replaced after it
            /// passes.
            rollout_after: Time,
            /// Deadlines that trigger a rollout in advance.
            rollout_before: KubeadmControlPlaneRolloutBefore,
            /// Rollout strategy.
            #[schemars(extend("default" = {"rollingUpdate": {"maxSurge": 1}, "type": "RollingUpdate"}))]
            rollout_strategy: KubeadmControlPlaneRolloutStrategy,
        }
    }

    /// Template of the control plane Machines.
    KubeadmControlPlaneMachineTemplate {
        required {
            /// Reference to the template of the infrastructure objects, e.g. an OpenStackMachineTemplate.
            infrastructure_ref: ObjectReference,
        }
        optional {
            /// Labels and annotations of the control plane Machines.
            metadata: TemplateMeta,
            /// Maximum time for deleting the Node, from the start of the Machine's deletion, as a Go
            /// duration. `0s` means no limit. Default: `10s`.
            node_deletion_timeout: String,
            /// Maximum time for draining the Node before deletion continues, as a Go duration. `0s` means no
            /// limit. Default: `0s`.
            node_drain_timeout: String,
            /// Maximum wait until the Node's volumes are detached, as a Go duration. `0s` means no limit.
            /// Default: `0s`.
            node_volume_detach_timeout: String,
            /// Additional Machine conditions that the Ready condition depends on.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"]))]
            readiness_gates: Vec<Gate>,
            /// Taints that are added to the Nodes of the Machines.
            #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"]))]
            taints: Vec<MachineTaint>,
        }
    }

    /// Limits on the remediation of unhealthy control plane Machines.
    KubeadmControlPlaneRemediation {
        optional {
            /// Maximum number of retries if the replacement is unhealthy too. Default: no limit.
            max_retry: i32,
            /// Healthy time after which the retry count of a Machine is reset, as a Go duration. Default:
            /// `1h`.
            min_healthy_period: String,
            /// Minimum time between two retries, as a Go duration. Default: `0s`.
            retry_period: String,
        }
    }

    /// Deadlines that trigger a rollout in advance.
    KubeadmControlPlaneRolloutBefore {
        optional {
            /// Remaining validity of a Machine's certificates that triggers its replacement. Unit: days.
            /// Minimum: 7.
            certificates_expiry_days: i32,
        }
    }

    /// Rollout strategy of a control plane.
    KubeadmControlPlaneRolloutStrategy {
        optional {
            /// Limits of a rolling update.
            rolling_update: KubeadmControlPlaneRollingUpdate,
            /// Type of rollout. The only type is RollingUpdate.
            #[serde(rename = "type")]
            kind: KubeadmControlPlaneRolloutStrategyType,
        }
    }

    /// Observed state of a control plane.
    KubeadmControlPlaneStatus {
        optional {
            /// Conditions in the form of v1beta1, at most one per type.
            conditions: Vec<DeprecatedCondition>,
            /// Human-readable message of a terminal error. It needs a manual change.
            #[schemars(length(min = 1, max = 10240))]
            failure_message: String,
            /// Machine-readable reason of a terminal error, in CamelCase.
            failure_reason: String,
            /// Initialization of the control plane. True after the API server answered for the first time.
            initialized: bool,
            /// Last remediation that replaced a Machine.
            last_remediation: LastRemediationStatus,
            /// Value of `metadata.generation` that the controller last processed.
            observed_generation: i64,
            /// Availability of the API server. True if it answers.
            ready: bool,
            /// Number of Machines whose Node is ready.
            ready_replicas: i32,
            /// Number of Machines, in any state.
            replicas: i32,
            /// Label selector in its text form, for the `scale` subresource and for autoscalers.
            #[schemars(length(min = 1, max = 4096))]
            selector: String,
            /// Number of desired Machines that are not available.
            unavailable_replicas: i32,
            /// Number of Machines that match the current spec.
            updated_replicas: i32,
            /// Status in the form of v1beta2.
            v1beta2: V1Beta2Replicas,
            /// Lowest Kubernetes version of all control plane Machines.
            #[schemars(length(min = 1, max = 256))]
            version: String,
            /// Number of Machines per Kubernetes version.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["version"]))]
            versions: Vec<StatusVersion>,
        }
    }

    /// Last remediation that replaced a Machine.
    LastRemediationStatus {
        required {
            /// Name of the Machine that was replaced.
            #[schemars(length(min = 1, max = 253))]
            machine: String,
            /// Number of retries of the same remediation. 0 for the first attempt.
            retry_count: i32,
            /// Time of the remediation.
            timestamp: Time,
        }
    }
}
