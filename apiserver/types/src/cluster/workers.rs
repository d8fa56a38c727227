//! Worker groups of a Cluster topology: their numbers, health checks and rollout settings.

use super::VariableOverrides;
use crate::object::wire;
use crate::shared::{
    Gate, HealthChecks, IntOrString, MachineTaint, RemediationTemplateRef, RemediationTriggerIf,
    TemplateMeta, Time, words,
};

wire! {
    /// Worker group that is managed as a MachineDeployment.
    MachineDeploymentTopology {
        required {
            /// Name of the worker class in the ClusterClass.
            #[schemars(length(min = 1, max = 256))]
            class: String,
            /// Name of the worker group. It is unique within the topology.
            #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"))]
            name: String,
        }
        optional {
            /// Time limits for the steps of a Machine's deletion, and the order of scale-down.
            #[schemars(extend("minProperties" = 1))]
            deletion: MachineDeploymentDeletion,
            /// Name of the failure domain in which the Machines are created.
            #[schemars(length(min = 1, max = 256))]
            failure_domain: String,
            /// Health checks of the Machines, and the remediation of unhealthy Machines.
            #[schemars(extend("minProperties" = 1))]
            health_check: MachineDeploymentHealthCheck,
            /// Labels and annotations that are propagated to the objects and to their Machines.
            #[schemars(extend("minProperties" = 1))]
            metadata: TemplateMeta,
            /// Minimum time that a Machine is ready before it counts as available. Unit: seconds. Default: 0.
            #[schemars(range(min = 0))]
            min_ready_seconds: i32,
            /// Additional Machine conditions that the Ready condition of a Machine depends on.
            #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"]))]
            readiness_gates: Vec<Gate>,
            /// Desired number of Machines. Leave it unset if an autoscaler manages the number.
            replicas: i32,
            /// Rollout settings.
            #[schemars(extend("minProperties" = 1))]
            rollout: MachineDeploymentRollout,
            /// Taints that are added to the Nodes of the Machines.
            #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"]))]
            taints: Vec<MachineTaint>,
            /// Values of variables for this part of the topology. They override the values of the Cluster.
            #[schemars(extend("minProperties" = 1))]
            variables: VariableOverrides,
        }
    }

    /// Time limits for the steps of a Machine's deletion, and the order of scale-down.
    MachineDeploymentDeletion {
        optional {
            /// Maximum time for deleting the Node, from the start of the Machine's deletion. 0 means no
            /// limit. Unit: seconds. Default: 10.
            #[schemars(range(min = 0))]
            node_deletion_timeout_seconds: i32,
            /// Maximum time for draining the Node before deletion continues. 0 means no limit. Unit: seconds.
            /// Default: 0.
            #[schemars(range(min = 0))]
            node_drain_timeout_seconds: i32,
            /// Maximum wait until the Node's volumes are detached. 0 means no limit. Unit: seconds. Default:
            /// 0.
            #[schemars(range(min = 0))]
            node_volume_detach_timeout_seconds: i32,
            /// Order in which Machines are deleted at scale-down: Random, Newest or Oldest. Default: Random.
            order: DeletionOrder,
        }
    }

    /// Health checks of a worker group, and the remediation of unhealthy Machines.
    MachineDeploymentHealthCheck {
        optional {
            /// Criteria for an unhealthy Machine.
            #[schemars(extend("minProperties" = 1))]
            checks: HealthChecks,
            /// Switch of the health check. If unset, it runs if the topology or the ClusterClass defines
            /// checks.
            enabled: bool,
            /// Remediation of unhealthy Machines.
            #[schemars(extend("minProperties" = 1))]
            remediation: MachineDeploymentRemediation,
        }
    }

    /// Remediation of the unhealthy Machines of a worker group.
    MachineDeploymentRemediation {
        optional {
            /// Maximum number of remediations in flight, as a number or a percentage of the replicas.
            /// Default: no limit.
            max_in_flight: IntOrString,
            /// Template of an external remediation request. If unset, the unhealthy Machine is deleted and its
            /// owner creates a new one.
            template_ref: RemediationTemplateRef,
            /// Limits on the number of unhealthy Machines. Outside these limits, remediation stops.
            #[schemars(extend("minProperties" = 1))]
            trigger_if: RemediationTriggerIf,
        }
    }

    /// Rollout settings of a worker group.
    MachineDeploymentRollout {
        optional {
            /// Time of a requested rollout. Machines that were created before this time are replaced after it
            /// passes.
            after: Time,
            /// Rollout strategy.
            #[schemars(extend("minProperties" = 1))]
            strategy: RolloutStrategy,
        }
    }

    /// Rollout strategy of a worker group.
    RolloutStrategy {
        required {
            /// Type of rollout: RollingUpdate or OnDelete. Default: RollingUpdate.
            #[serde(rename = "type")]
            kind: RolloutStrategyType,
        }
        optional {
            /// Limits of a rolling update. Used only if the type is RollingUpdate.
            #[schemars(extend("minProperties" = 1))]
            rolling_update: RollingUpdate,
        }
    }

    /// Limits of a rolling update.
    RollingUpdate {
        optional {
            /// Maximum number of Machines above the desired number, as a number or a percentage. Default: 1.
            max_surge: IntOrString,
            /// Maximum number of unavailable Machines during the update, as a number or a percentage.
            /// Default: 0.
            max_unavailable: IntOrString,
        }
    }
}

words! {
    /// Order in which Machines are deleted at scale-down.
    DeletionOrder {
        /// Machines are deleted in random order.
        #[default]
        Random,
        /// The newest Machine is deleted first.
        Newest,
        /// The oldest Machine is deleted first.
        Oldest,
    }

    /// Type of rollout.
    RolloutStrategyType {
        /// New Machines replace old ones step by step.
        #[default]
        RollingUpdate,
        /// An old Machine is replaced after a user deletes it.
        OnDelete,
    }
}
