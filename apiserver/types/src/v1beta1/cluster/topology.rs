//! A Cluster's shape, taken from a ClusterClass, in v1beta1.

use crate::cluster::ControlPlaneRollout;
use crate::object::wire;
use crate::shared::{Gate, IntOrString, MachineTaint, TemplateMeta, Time};
use crate::v1beta1::{
    ClusterVariable, MachineDeploymentStrategy, ObjectReference, UnhealthyCondition,
    UnhealthyMachineCondition,
};

wire! {
    /// A shape taken from a ClusterClass.
    Topology {
        required {
            /// The class.
            #[schemars(length(min = 1, max = 253))]
            class: String,
            /// Kubernetes version of the whole cluster.
            #[schemars(length(min = 1, max = 256))]
            version: String,
        }
        optional {
            /// The class's namespace; the Cluster's own when unset.
            #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
            class_namespace: String,
            /// The control plane.
            control_plane: ControlPlaneTopology,
            /// Nothing reads it any more.
            rollout_after: Time,
            /// Values for the class's variables.
            #[schemars(length(max = 1000), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            variables: Vec<ClusterVariable>,
            /// The workers.
            workers: WorkersTopology,
        }
    }

    /// The control plane of a topology.
    ControlPlaneTopology {
        optional {
            /// When its machines are unhealthy, and what then.
            machine_health_check: MachineHealthCheckTopology,
            /// Labels and annotations handed down.
            metadata: TemplateMeta,
            /// Retry deleting the Node for so long.
            node_deletion_timeout: String,
            /// Drain for at most so long; `0s` is without limit.
            node_drain_timeout: String,
            /// Wait for volumes for at most so long; `0s` is without limit.
            node_volume_detach_timeout: String,
            /// Conditions that Ready needs of its Machines.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"]))]
            readiness_gates: Vec<Gate>,
            /// Machines.
            replicas: i32,
            /// When to roll out.
            #[schemars(extend("minProperties" = 1))]
            rollout: ControlPlaneRollout,
            /// Taints of the Nodes.
            #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"]))]
            taints: Vec<MachineTaint>,
            /// Values for variables.
            variables: VariableOverrides,
        }
    }

    /// When machines of a topology are unhealthy, and what then.
    MachineHealthCheckTopology {
        optional {
            /// Force it on or off.
            enable: bool,
            /// Remediate while at most so many are unhealthy, as a number or share.
            max_unhealthy: IntOrString,
            /// The Node must appear within so long; `0s` switches this off.
            node_startup_timeout: String,
            /// Who remediates; unset is delete and make anew.
            remediation_template: ObjectReference,
            /// Node conditions that mean unhealthy.
            #[schemars(length(max = 100))]
            unhealthy_conditions: Vec<UnhealthyCondition>,
            /// Machine conditions that mean unhealthy.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
            unhealthy_machine_conditions: Vec<UnhealthyMachineCondition>,
            /// Remediate while so many are unhealthy, e.g. `[1-3]`.
            #[schemars(length(min = 1, max = 32), regex(pattern = r"^\[[0-9]+-[0-9]+\]$"))]
            unhealthy_range: String,
        }
    }

    /// Values that override the cluster's.
    VariableOverrides {
        optional {
            /// The values.
            #[schemars(length(max = 1000), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            overrides: Vec<ClusterVariable>,
        }
    }

    /// The workers of a topology.
    WorkersTopology {
        optional {
            /// Pools of Machines.
            #[schemars(length(max = 2000), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            machine_deployments: Vec<MachineDeploymentTopology>,
            /// Pools that the cloud manages.
            #[schemars(length(max = 2000), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            machine_pools: Vec<MachinePoolTopology>,
        }
    }

    /// A pool of Machines.
    MachineDeploymentTopology {
        required {
            /// Its class in the ClusterClass.
            #[schemars(length(min = 1, max = 256))]
            class: String,
            /// Its name, unique in the topology.
            #[schemars(length(min = 1, max = 63))]
            name: String,
        }
        optional {
            /// Where they are to be.
            #[schemars(length(min = 1, max = 256))]
            failure_domain: String,
            /// When its machines are unhealthy, and what then.
            machine_health_check: MachineHealthCheckTopology,
            /// Labels and annotations handed down.
            metadata: TemplateMeta,
            /// Ready for so long before counted as available. Unit: seconds.
            min_ready_seconds: i32,
            /// Retry deleting the Node for so long.
            node_deletion_timeout: String,
            /// Drain for at most so long; `0s` is without limit.
            node_drain_timeout: String,
            /// Wait for volumes for at most so long; `0s` is without limit.
            node_volume_detach_timeout: String,
            /// Conditions that Ready needs of its Machines.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"]))]
            readiness_gates: Vec<Gate>,
            /// Machines; unset when an autoscaler decides.
            replicas: i32,
            /// When to roll out.
            #[schemars(extend("minProperties" = 1))]
            rollout: ControlPlaneRollout,
            /// How to roll out.
            strategy: MachineDeploymentStrategy,
            /// Taints of the Nodes.
            #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"]))]
            taints: Vec<MachineTaint>,
            /// Values for variables.
            variables: VariableOverrides,
        }
    }

    /// A pool that the cloud manages.
    MachinePoolTopology {
        required {
            /// Its class in the ClusterClass.
            #[schemars(length(min = 1, max = 256))]
            class: String,
            /// Its name, unique in the topology.
            #[schemars(length(min = 1, max = 63))]
            name: String,
        }
        optional {
            /// Where it may be.
            #[schemars(length(max = 100), inner(length(min = 1, max = 256)))]
            failure_domains: Vec<String>,
            /// Labels and annotations handed down.
            metadata: TemplateMeta,
            /// Ready for so long before counted as available. Unit: seconds.
            min_ready_seconds: i32,
            /// Retry deleting the Node for so long.
            node_deletion_timeout: String,
            /// Drain for at most so long; `0s` is without limit.
            node_drain_timeout: String,
            /// Wait for volumes for at most so long; `0s` is without limit.
            node_volume_detach_timeout: String,
            /// Machines.
            replicas: i32,
            /// Taints of the Nodes.
            #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"]))]
            taints: Vec<MachineTaint>,
            /// Values for variables.
            variables: VariableOverrides,
        }
    }
}
