//! KubeadmControlPlane: control plane Machines of a cluster, created by kubeadm.

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
    column(
        "Cluster",
        "string",
        ".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",
        "Cluster that the control plane belongs to.",
    ),
    column(
        "Available",
        "string",
        ".status.conditions[?(@.type==\"Available\")].status",
        "The control plane passes every availability check.",
    ),
    column("Desired", "integer", ".spec.replicas", "Machines of the control plane that are desired."),
    column("Current", "integer", ".status.replicas", "Machines of the control plane that exist."),
    column("Ready", "integer", ".status.readyReplicas", "Machines of the control plane that are ready."),
    column(
        "Available",
        "integer",
        ".status.availableReplicas",
        "Machines of the control plane that are available.",
    ),
    column(
        "Up-to-date",
        "integer",
        ".status.upToDateReplicas",
        "Machines of the control plane that match the current specification of their owner.",
    ),
    wide(
        "Paused",
        "string",
        ".status.conditions[?(@.type==\"Paused\")].status",
        "Reconciliation is paused: True while the object or its Cluster is paused.",
    ),
    column(
        "Initialized",
        "boolean",
        ".status.initialization.controlPlaneInitialized",
        "The first control plane machine has been initialized.",
    ),
    AGE,
    column("Version", "string", ".spec.version", "Kubernetes version of the control plane."),
];

fn schema() -> Value {
    let mut status = structural::<KubeadmControlPlaneStatus>();
    status["minProperties"] = 1.into();
    object(
        "Control plane of a cluster that kubeadm sets up.",
        Some(structural::<KubeadmControlPlaneSpec>()),
        Some(status),
        true,
    )
}

kind! {
    /// Control plane of a cluster that kubeadm sets up.
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
    /// Desired state of a control plane.
    KubeadmControlPlaneSpec {
        required {
            /// Template of the control plane Machines.
            machine_template: KubeadmControlPlaneMachineTemplate,
            /// Kubernetes version of the control plane, in the form `vX.Y.Z`.
            #[schemars(length(min = 1, max = 256))]
            version: String,
        }
        optional {
            /// kubeadm settings of the control plane Machines.
            #[schemars(extend("minProperties" = 1))]
            kubeadm_config_spec: KubeadmConfigSpec,
            /// Naming rule of the control plane Machines.
            #[schemars(extend("minProperties" = 1))]
            machine_naming: MachineNaming,
            /// Limits on the remediation of unhealthy Machines.
            #[schemars(extend("minProperties" = 1))]
            remediation: KubeadmControlPlaneRemediation,
            /// Desired number of control plane Machines. The number is odd unless etcd is external. Default:
            /// 1.
            replicas: i32,
            /// Rollout triggers and rollout strategy.
            #[schemars(extend("minProperties" = 1))]
            rollout: KubeadmControlPlaneRollout,
        }
    }

    /// Template of the control plane Machines.
    KubeadmControlPlaneMachineTemplate {
        required {
            /// Settings of the control plane Machines.
            spec: KubeadmControlPlaneMachineSpec,
        }
        optional {
            /// Labels and annotations of the control plane Machines.
            #[schemars(extend("minProperties" = 1))]
            metadata: TemplateMeta,
        }
    }

    /// Settings of the control plane Machines.
    KubeadmControlPlaneMachineSpec {
        required {
            /// Reference to the template of the infrastructure objects, e.g. an OpenStackMachineTemplate.
            infrastructure_ref: ContractVersionedObjectReference,
        }
        optional {
            /// Time limits for the steps of a Machine's deletion.
            #[schemars(extend("minProperties" = 1))]
            deletion: MachineDeletionSpec,
            /// Additional Machine conditions that the Ready condition of a Machine depends on.
            #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"]))]
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
            /// Healthy time after which the retry count of a Machine is reset. Unit: seconds. Default: 3600.
            #[schemars(range(min = 0))]
            min_healthy_period_seconds: i32,
            /// Minimum time between two retries. Unit: seconds. Default: 0.
            #[schemars(range(min = 0))]
            retry_period_seconds: i32,
        }
    }

    /// Rollout triggers and rollout strategy of a control plane.
    KubeadmControlPlaneRollout {
        optional {
            /// Time of a requested rollout. Machines that were created before this time are replaced after it
            /// passes. `clusterctl alpha rollout restart` sets it.
            after: Time,
            /// Deadlines that trigger a rollout in advance.
            #[schemars(extend("minProperties" = 1))]
            before: KubeadmControlPlaneRolloutBefore,
            /// Rollout strategy.
            #[schemars(extend("minProperties" = 1))]
            strategy: KubeadmControlPlaneRolloutStrategy,
        }
    }

    /// Deadlines that trigger a rollout in advance.
    KubeadmControlPlaneRolloutBefore {
        optional {
            /// Remaining validity of a Machine's certificates that triggers its replacement. Unit: days.
            /// Minimum: 7.
            #[schemars(range(min = 7))]
            certificates_expiry_days: i32,
        }
    }

    /// Rollout strategy of a control plane.
    KubeadmControlPlaneRolloutStrategy {
        required {
            /// Type of rollout. The only type is RollingUpdate.
            #[serde(rename = "type")]
            kind: KubeadmControlPlaneRolloutStrategyType,
        }
        optional {
            /// Limits of a rolling update.
            #[schemars(extend("minProperties" = 1))]
            rolling_update: KubeadmControlPlaneRollingUpdate,
        }
    }

    /// Limits of a rolling update.
    KubeadmControlPlaneRollingUpdate {
        optional {
            /// Maximum number of Machines above the desired number: 0 or 1. Default: 1.
            max_surge: IntOrString,
        }
    }

    /// Observed state of a control plane.
    KubeadmControlPlaneStatus {
        optional {
            /// Number of Machines whose Available condition is True.
            available_replicas: i32,
            /// Conditions, at most one per type.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
            conditions: Vec<Condition>,
            /// Status in the form of v1beta1, for clients of that version.
            deprecated: Deprecated<KubeadmControlPlaneDeprecated>,
            /// Provisioning milestones. A milestone stays true after it is reached.
            #[schemars(extend("minProperties" = 1))]
            initialization: KubeadmControlPlaneInitialization,
            /// Last remediation that replaced a Machine.
            last_remediation: LastRemediationStatus,
            /// Value of `metadata.generation` that the controller last processed.
            #[schemars(range(min = 1))]
            observed_generation: i64,
            /// Number of Machines whose Ready condition is True.
            ready_replicas: i32,
            /// Number of Machines, in any state.
            replicas: i32,
            /// Label selector in its text form, for the `scale` subresource and for autoscalers.
            #[schemars(length(min = 1, max = 4096))]
            selector: String,
            /// Number of Machines whose UpToDate condition is True.
            up_to_date_replicas: i32,
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
            #[schemars(range(min = 0))]
            retry_count: i32,
            /// Time of the remediation.
            time: Time,
        }
    }

    /// Provisioning milestones of a control plane.
    KubeadmControlPlaneInitialization {
        optional {
            /// True after the API server of the control plane answered for the first time.
            control_plane_initialized: bool,
        }
    }

    /// Status of a control plane in the form of v1beta1.
    KubeadmControlPlaneDeprecated {
        optional {
            /// Conditions in the form of v1beta1, at most one per type.
            conditions: Vec<DeprecatedCondition>,
            /// Human-readable message of a terminal error. It needs a manual change.
            #[schemars(length(min = 1, max = 10240))]
            failure_message: String,
            /// Machine-readable reason of a terminal error, in CamelCase.
            failure_reason: String,
            /// Number of Machines whose Node is ready.
            ready_replicas: i32,
            /// Number of desired Machines that are not available.
            unavailable_replicas: i32,
            /// Number of Machines that match the current spec.
            updated_replicas: i32,
        }
    }
}

words! {
    /// Type of rollout.
    KubeadmControlPlaneRolloutStrategyType {
        /// Machines are replaced one after the other.
        #[default]
        RollingUpdate,
    }
}
