//! KubeadmControlPlane: the control plane machines of a cluster, in v1beta1.

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
    column("Cluster", "string", ".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']"),
    column("Initialized", "boolean", ".status.initialized"),
    column("API Server Available", "boolean", ".status.ready"),
    wide("Desired", "integer", ".spec.replicas"),
    column("Replicas", "integer", ".status.replicas"),
    column("Ready", "integer", ".status.readyReplicas"),
    column("Updated", "integer", ".status.updatedReplicas"),
    column("Unavailable", "integer", ".status.unavailableReplicas"),
    AGE,
    column("Version", "string", ".spec.version"),
];

fn schema() -> Value {
    object(
        "The control plane machines of a cluster, made and replaced one after the other by kubeadm.",
        Some(structural::<KubeadmControlPlaneSpec>()),
        Some(structural::<KubeadmControlPlaneStatus>()),
        false,
    )
}

kind! {
    /// A control plane that kubeadm makes.
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
    /// What is wanted of a control plane.
    KubeadmControlPlaneSpec {
        required {
            /// Kubeadm settings for control plane machines.
            kubeadm_config_spec: KubeadmConfigSpec,
            /// Template for control plane machines.
            machine_template: KubeadmControlPlaneMachineTemplate,
            /// Kubernetes version, vX.Y.Z.
            #[schemars(length(min = 1, max = 256))]
            version: String,
        }
        optional {
            /// How machines are called.
            machine_naming_strategy: MachineNaming,
            /// How unhealthy machines are replaced.
            remediation_strategy: KubeadmControlPlaneRemediation,
            /// Desired count.
            replicas: i32,
            /// Machines from before this moment are replaced.
            rollout_after: Time,
            /// What machines are replaced ahead of.
            rollout_before: KubeadmControlPlaneRolloutBefore,
            /// How machines are replaced.
            #[schemars(extend("default" = {"rollingUpdate": {"maxSurge": 1}, "type": "RollingUpdate"}))]
            rollout_strategy: KubeadmControlPlaneRolloutStrategy,
        }
    }

    /// What control plane machines are made from.
    KubeadmControlPlaneMachineTemplate {
        required {
            /// What the servers are made from.
            infrastructure_ref: ObjectReference,
        }
        optional {
            /// Labels and annotations for machines.
            metadata: TemplateMeta,
            /// Retry deleting the Node for so long, as a Go duration.
            node_deletion_timeout: String,
            /// Drain for at most so long, as a Go duration.
            node_drain_timeout: String,
            /// Wait for volumes for at most so long, as a Go duration.
            node_volume_detach_timeout: String,
            /// Conditions that Ready needs beside the standard ones.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"]))]
            readiness_gates: Vec<Gate>,
            /// Taints of the Nodes.
            #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"]))]
            taints: Vec<MachineTaint>,
        }
    }

    /// How often, and how soon again, an unhealthy machine is replaced.
    KubeadmControlPlaneRemediation {
        optional {
            /// Try so often; without limit when absent.
            max_retry: i32,
            /// A machine that was well for so long counts as mended, as a Go duration.
            min_healthy_period: String,
            /// Wait for so long before the next attempt, as a Go duration.
            retry_period: String,
        }
    }

    /// What machines are replaced ahead of.
    KubeadmControlPlaneRolloutBefore {
        optional {
            /// So long before its certificates expire. Unit: days.
            certificates_expiry_days: i32,
        }
    }

    /// How machines are replaced.
    KubeadmControlPlaneRolloutStrategy {
        optional {
            /// Bounds of a rolling update.
            rolling_update: KubeadmControlPlaneRollingUpdate,
            /// Which way.
            #[serde(rename = "type")]
            kind: KubeadmControlPlaneRolloutStrategyType,
        }
    }

    /// What was observed of a control plane.
    KubeadmControlPlaneStatus {
        optional {
            /// Conditions.
            conditions: Vec<DeprecatedCondition>,
            /// Why it cannot be mended, for people.
            #[schemars(length(min = 1, max = 10240))]
            failure_message: String,
            /// Why it cannot be mended, for machines.
            failure_reason: String,
            /// Whether the control plane answered once.
            initialized: bool,
            /// Last remediation performed.
            last_remediation: LastRemediationStatus,
            /// The generation that was last acted on.
            observed_generation: i64,
            /// Whether the API server answers.
            ready: bool,
            /// Machines with Ready=True.
            ready_replicas: i32,
            /// Machine count (scale subresource).
            replicas: i32,
            /// String form of the selector (scale subresource).
            #[schemars(length(min = 1, max = 4096))]
            selector: String,
            /// Machines that are wanted and do not serve.
            unavailable_replicas: i32,
            /// Machines as they are wanted now.
            updated_replicas: i32,
            /// What `v1beta2` shows under other names.
            v1beta2: V1Beta2Replicas,
            /// Lowest version of all machines.
            #[schemars(length(min = 1, max = 256))]
            version: String,
            /// Machines per Kubernetes version.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["version"]))]
            versions: Vec<StatusVersion>,
        }
    }

    /// The last machine that was replaced because it was unhealthy.
    LastRemediationStatus {
        required {
            /// Which machine.
            #[schemars(length(min = 1, max = 253))]
            machine: String,
            /// How often it was tried before.
            retry_count: i32,
            /// When it happened.
            timestamp: Time,
        }
    }
}
