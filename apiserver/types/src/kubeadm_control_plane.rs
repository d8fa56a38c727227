//! KubeadmControlPlane: the control plane machines of a cluster.

use serde_json::Value;

use crate::deprecated::{Deprecated, DeprecatedCondition};
use crate::descriptor::{AGE, Column, Descriptor, Scale, column, wide};
use crate::kubeadm_config::KubeadmConfigSpec;
use crate::machine_set::MachineNaming;
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::{
    Condition, ContractVersionedObjectReference, Gate, IntOrString, MachineDeletionSpec, MachineTaint,
    StatusVersion, TemplateMeta, Time, words,
};

const COLUMNS: &[Column] = &[
    column("Cluster", "string", ".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']"),
    column("Available", "string", ".status.conditions[?(@.type==\"Available\")].status"),
    column("Desired", "integer", ".spec.replicas"),
    column("Current", "integer", ".status.replicas"),
    column("Ready", "integer", ".status.readyReplicas"),
    column("Available", "integer", ".status.availableReplicas"),
    column("Up-to-date", "integer", ".status.upToDateReplicas"),
    wide("Paused", "string", ".status.conditions[?(@.type==\"Paused\")].status"),
    column("Initialized", "boolean", ".status.initialization.controlPlaneInitialized"),
    AGE,
    column("Version", "string", ".spec.version"),
];

fn schema() -> Value {
    let mut status = structural::<KubeadmControlPlaneStatus>();
    status["minProperties"] = 1.into();
    object(
        "The control plane machines of a cluster, made and replaced one after the other by kubeadm.",
        Some(structural::<KubeadmControlPlaneSpec>()),
        Some(status),
        true,
    )
}

kind! {
    /// A control plane that kubeadm makes.
    KubeadmControlPlane, KubeadmControlPlaneSpec, KubeadmControlPlaneStatus, schema, Descriptor {
        group: "controlplane.cluster.x-k8s.io", version: "v1beta2", kind: "KubeadmControlPlane", plural: "kubeadmcontrolplanes", singular: "kubeadmcontrolplane",
        short_names: &["kcp"], categories: &["cluster-api"], namespaced: true, status_subresource: true, scale: Some(Scale {
            spec_replicas: ".spec.replicas", status_replicas: ".status.replicas", selector: Some(".status.selector"),
        }),
        deprecation: None,
        columns: COLUMNS,
    }
}

wire! {
    /// What is wanted of a control plane.
    KubeadmControlPlaneSpec {
        required {
            /// Template for control plane machines.
            machine_template: KubeadmControlPlaneMachineTemplate,
            /// Kubernetes version, vX.Y.Z.
            #[schemars(length(min = 1, max = 256))]
            version: String,
        }
        optional {
            /// Kubeadm settings for control plane machines.
            #[schemars(extend("minProperties" = 1))]
            kubeadm_config_spec: KubeadmConfigSpec,
            /// Name template for machines.
            #[schemars(extend("minProperties" = 1))]
            machine_naming: MachineNaming,
            /// Remediation settings.
            #[schemars(extend("minProperties" = 1))]
            remediation: KubeadmControlPlaneRemediation,
            /// Desired count.
            replicas: i32,
            /// Rollout settings.
            #[schemars(extend("minProperties" = 1))]
            rollout: KubeadmControlPlaneRollout,
        }
    }

    /// What control plane machines are made from.
    KubeadmControlPlaneMachineTemplate {
        required {
            /// Machine settings.
            spec: KubeadmControlPlaneMachineSpec,
        }
        optional {
            /// Labels and annotations for machines.
            #[schemars(extend("minProperties" = 1))]
            metadata: TemplateMeta,
        }
    }

    /// What is wanted of every control plane machine.
    KubeadmControlPlaneMachineSpec {
        required {
            /// Infra machine template.
            infrastructure_ref: ContractVersionedObjectReference,
        }
        optional {
            /// Deletion settings.
            #[schemars(extend("minProperties" = 1))]
            deletion: MachineDeletionSpec,
            /// Extra Machine conditions required for Ready.
            #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"]))]
            readiness_gates: Vec<Gate>,
            /// Taints propagated to the Node.
            #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"]))]
            taints: Vec<MachineTaint>,
        }
    }

    /// How often, and how soon again, an unhealthy machine is replaced.
    KubeadmControlPlaneRemediation {
        optional {
            /// Try so often; without limit when absent.
            max_retry: i32,
            /// A machine that was well for so long counts as mended. Unit: seconds.
            #[schemars(range(min = 0))]
            min_healthy_period_seconds: i32,
            /// Wait for so long before the next attempt. Unit: seconds.
            #[schemars(range(min = 0))]
            retry_period_seconds: i32,
        }
    }

    /// When and how machines are replaced.
    KubeadmControlPlaneRollout {
        optional {
            /// Roll out machines created before this time (rollout restart sets it).
            after: Time,
            /// Roll out ahead of a deadline.
            #[schemars(extend("minProperties" = 1))]
            before: KubeadmControlPlaneRolloutBefore,
            /// Rollout strategy.
            #[schemars(extend("minProperties" = 1))]
            strategy: KubeadmControlPlaneRolloutStrategy,
        }
    }

    /// What machines are replaced ahead of.
    KubeadmControlPlaneRolloutBefore {
        optional {
            /// So long before its certificates expire. Unit: days.
            #[schemars(range(min = 7))]
            certificates_expiry_days: i32,
        }
    }

    /// How machines are replaced.
    KubeadmControlPlaneRolloutStrategy {
        required {
            /// Which way.
            #[serde(rename = "type")]
            kind: KubeadmControlPlaneRolloutStrategyType,
        }
        optional {
            /// Bounds of a rolling update.
            #[schemars(extend("minProperties" = 1))]
            rolling_update: KubeadmControlPlaneRollingUpdate,
        }
    }

    /// Bounds of a rolling update.
    KubeadmControlPlaneRollingUpdate {
        optional {
            /// How many machines there may be beyond those wanted: 0 or 1.
            max_surge: IntOrString,
        }
    }

    /// What was observed of a control plane.
    KubeadmControlPlaneStatus {
        optional {
            /// Machines with Available=True.
            available_replicas: i32,
            /// Conditions.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
            conditions: Vec<Condition>,
            /// Data that older clients read.
            deprecated: Deprecated<KubeadmControlPlaneDeprecated>,
            /// Milestones that are passed once.
            #[schemars(extend("minProperties" = 1))]
            initialization: KubeadmControlPlaneInitialization,
            /// Last remediation performed.
            last_remediation: LastRemediationStatus,
            /// The generation that was last acted on.
            #[schemars(range(min = 1))]
            observed_generation: i64,
            /// Machines with Ready=True.
            ready_replicas: i32,
            /// Machine count (scale subresource).
            replicas: i32,
            /// String form of the selector (scale subresource).
            #[schemars(length(min = 1, max = 4096))]
            selector: String,
            /// Machines with UpToDate=True.
            up_to_date_replicas: i32,
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
            #[schemars(range(min = 0))]
            retry_count: i32,
            /// When it happened.
            time: Time,
        }
    }

    /// Milestones that are passed once.
    KubeadmControlPlaneInitialization {
        optional {
            /// Control plane answered for the first time.
            control_plane_initialized: bool,
        }
    }

    /// What `v1beta1` showed of a control plane.
    KubeadmControlPlaneDeprecated {
        optional {
            /// Conditions.
            conditions: Vec<DeprecatedCondition>,
            /// Why it cannot be mended, for people.
            #[schemars(length(min = 1, max = 10240))]
            failure_message: String,
            /// Why it cannot be mended, for machines.
            failure_reason: String,
            /// Machines whose Node is ready.
            ready_replicas: i32,
            /// Machines that are wanted and do not serve.
            unavailable_replicas: i32,
            /// Machines as they are wanted now.
            updated_replicas: i32,
        }
    }
}

words! {
    /// How machines are replaced.
    KubeadmControlPlaneRolloutStrategyType {
        /// One after the other.
        #[default]
        RollingUpdate,
    }
}
