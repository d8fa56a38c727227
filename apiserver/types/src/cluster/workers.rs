//! A Cluster's workers, by their class: how many, and how they are replaced.

use super::VariableOverrides;
use crate::object::wire;
use crate::shared::{
    Gate, HealthChecks, IntOrString, MachineTaint, RemediationTemplateRef, RemediationTriggerIf,
    TemplateMeta, Time, words,
};

wire! {
    /// A pool of Machines.
    MachineDeploymentTopology {
        required {
            /// Its class in the ClusterClass.
            #[schemars(length(min = 1, max = 256))]
            class: String,
            /// Its name, unique in the topology.
            #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"))]
            name: String,
        }
        optional {
            /// How deletions go.
            #[schemars(extend("minProperties" = 1))]
            deletion: MachineDeploymentDeletion,
            /// Where it is to be.
            #[schemars(length(min = 1, max = 256))]
            failure_domain: String,
            /// When its machines are unhealthy, and what then.
            #[schemars(extend("minProperties" = 1))]
            health_check: MachineDeploymentHealthCheck,
            /// Labels and annotations handed down.
            #[schemars(extend("minProperties" = 1))]
            metadata: TemplateMeta,
            /// Ready for so long before counted as available. Unit: seconds.
            #[schemars(range(min = 0))]
            min_ready_seconds: i32,
            /// Conditions that Ready needs of its Machines.
            #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"]))]
            readiness_gates: Vec<Gate>,
            /// Machines; unset when an autoscaler decides.
            replicas: i32,
            /// How to roll out.
            #[schemars(extend("minProperties" = 1))]
            rollout: MachineDeploymentRollout,
            /// Taints of the Nodes.
            #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"]))]
            taints: Vec<MachineTaint>,
            /// Values for variables.
            #[schemars(extend("minProperties" = 1))]
            variables: VariableOverrides,
        }
    }

    /// How a pool's deletions go.
    MachineDeploymentDeletion {
        optional {
            /// Retry deleting the Node for so long. Unit: seconds.
            #[schemars(range(min = 0))]
            node_deletion_timeout_seconds: i32,
            /// Drain for at most so long; 0 is without limit. Unit: seconds.
            #[schemars(range(min = 0))]
            node_drain_timeout_seconds: i32,
            /// Wait for volumes for at most so long; 0 is without limit. Unit: seconds.
            #[schemars(range(min = 0))]
            node_volume_detach_timeout_seconds: i32,
            /// Who goes first.
            order: DeletionOrder,
        }
    }

    /// When a pool's machines are unhealthy, and what then.
    MachineDeploymentHealthCheck {
        optional {
            /// What counts.
            #[schemars(extend("minProperties" = 1))]
            checks: HealthChecks,
            /// Force it on or off.
            enabled: bool,
            /// What then.
            #[schemars(extend("minProperties" = 1))]
            remediation: MachineDeploymentRemediation,
        }
    }

    /// How a pool's machines are remediated.
    MachineDeploymentRemediation {
        optional {
            /// At most so many at once.
            max_in_flight: IntOrString,
            /// Who does it; unset is delete and make anew.
            template_ref: RemediationTemplateRef,
            /// When it may be done.
            #[schemars(extend("minProperties" = 1))]
            trigger_if: RemediationTriggerIf,
        }
    }

    /// How to roll out a pool.
    MachineDeploymentRollout {
        optional {
            /// Replace machines made before this.
            after: Time,
            /// In which way.
            #[schemars(extend("minProperties" = 1))]
            strategy: RolloutStrategy,
        }
    }

    /// In which way to roll out.
    RolloutStrategy {
        required {
            /// The way.
            #[serde(rename = "type")]
            kind: RolloutStrategyType,
        }
        optional {
            /// For a rolling update.
            #[schemars(extend("minProperties" = 1))]
            rolling_update: RollingUpdate,
        }
    }

    /// Bounds of a rolling update.
    RollingUpdate {
        optional {
            /// So many more than wanted.
            max_surge: IntOrString,
            /// So many fewer than wanted.
            max_unavailable: IntOrString,
        }
    }
}

words! {
    /// Who goes first when there are too many.
    DeletionOrder {
        /// Anyone.
        #[default]
        Random,
        /// The newest.
        Newest,
        /// The oldest.
        Oldest,
    }

    /// In which way to roll out.
    RolloutStrategyType {
        /// A few at a time.
        #[default]
        RollingUpdate,
        /// When somebody deletes.
        OnDelete,
    }
}
