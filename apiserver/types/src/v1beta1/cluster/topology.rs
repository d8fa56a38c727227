//! Cluster topology in v1beta1: the parts of a Cluster that its ClusterClass generates.

use crate::cluster::ControlPlaneRollout;
use crate::object::wire;
use crate::shared::{Gate, IntOrString, MachineTaint, TemplateMeta, Time};
use crate::v1beta1::{
    ClusterVariable, MachineDeploymentStrategy, ObjectReference, UnhealthyCondition,
    UnhealthyMachineCondition,
};

wire! {
    /// Topology that is generated from a ClusterClass.
    Topology {
        required {
            /// Name of the ClusterClass.
            #[schemars(length(min = 1, max = 253))]
            class: String,
            /// Kubernetes version of the control plane and the workers, with a leading v.
            #[schemars(length(min = 1, max = 256))]
            version: String,
        }
        optional {
            /// Namespace of the ClusterClass. Default: the namespace of the Cluster.
            #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
            class_namespace: String,
            /// Topology of the control plane.
            control_plane: ControlPlaneTopology,
            /// Deprecated field without effect.
            rollout_after: Time,
            /// Values of the variables that the ClusterClass defines.
            #[schemars(length(max = 1000), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            variables: Vec<ClusterVariable>,
            /// Topology of the workers.
            workers: WorkersTopology,
        }
    }

    /// Topology of the control plane.
    ControlPlaneTopology {
        optional {
            /// Health checks of the Machines, and the remediation of unhealthy Machines.
            machine_health_check: MachineHealthCheckTopology,
            /// Labels and annotations that are propagated to the objects and to their Machines.
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
            /// Additional Machine conditions that the Ready condition of a Machine depends on.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"]))]
            readiness_gates: Vec<Gate>,
            /// Desired number of control plane Machines. If unset, the topology does not manage the number.
            replicas: i32,
            /// Time of a requested rollout.
            #[schemars(extend("minProperties" = 1))]
            rollout: ControlPlaneRollout,
            /// Taints that are added to the Nodes of the Machines.
            #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"]))]
            taints: Vec<MachineTaint>,
            /// Values of variables for this part of the topology. They override the values of the Cluster.
            variables: VariableOverrides,
        }
    }

    /// Health checks of the Machines of a topology, and the remediation of unhealthy Machines.
    MachineHealthCheckTopology {
        optional {
            /// Switch of the health check. If unset, it runs if the topology or the ClusterClass defines
            /// checks.
            enable: bool,
            /// Upper limit of unhealthy Machines, as a number or a percentage. If more Machines are
            /// unhealthy, remediation stops.
            max_unhealthy: IntOrString,
            /// Maximum time until the Node of a new Machine appears, as a Go duration. `0s` disables this
            /// check. Default: `10m`.
            node_startup_timeout: String,
            /// Template of an external remediation request. If unset, the unhealthy Machine is deleted and
            /// its owner creates a new one.
            remediation_template: ObjectReference,
            /// Node conditions that mark a Machine as unhealthy. One matching entry is enough.
            #[schemars(length(max = 100))]
            unhealthy_conditions: Vec<UnhealthyCondition>,
            /// Machine conditions that mark a Machine as unhealthy. One matching entry is enough.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
            unhealthy_machine_conditions: Vec<UnhealthyMachineCondition>,
            /// Range of unhealthy Machines in which remediation runs, e.g. `[1-3]`. Both ends are inclusive.
            #[schemars(length(min = 1, max = 32), regex(pattern = r"^\[[0-9]+-[0-9]+\]$"))]
            unhealthy_range: String,
        }
    }

    /// Values of variables that override the values of the Cluster.
    VariableOverrides {
        optional {
            /// Values of variables. Each value overrides the Cluster's value of the same variable.
            #[schemars(length(max = 1000), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            overrides: Vec<ClusterVariable>,
        }
    }

    /// Topology of the workers.
    WorkersTopology {
        optional {
            /// Worker groups that are managed as MachineDeployments.
            #[schemars(length(max = 2000), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            machine_deployments: Vec<MachineDeploymentTopology>,
            /// Worker groups that are managed as MachinePools, whose servers the cloud manages.
            #[schemars(length(max = 2000), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            machine_pools: Vec<MachinePoolTopology>,
        }
    }

    /// Worker group that is managed as a MachineDeployment.
    MachineDeploymentTopology {
        required {
            /// Name of the worker class in the ClusterClass.
            #[schemars(length(min = 1, max = 256))]
            class: String,
            /// Name of the worker group. It is unique within the topology.
            #[schemars(length(min = 1, max = 63))]
            name: String,
        }
        optional {
            /// Name of the failure domain in which the Machines are created.
            #[schemars(length(min = 1, max = 256))]
            failure_domain: String,
            /// Health checks of the Machines, and the remediation of unhealthy Machines.
            machine_health_check: MachineHealthCheckTopology,
            /// Labels and annotations that are propagated to the objects and to their Machines.
            metadata: TemplateMeta,
            /// Minimum time that a Machine is ready before it counts as available. Unit: seconds. Default: 0.
            min_ready_seconds: i32,
            /// Maximum time for deleting the Node, from the start of the Machine's deletion, as a Go
            /// duration. `0s` means no limit. Default: `10s`.
            node_deletion_timeout: String,
            /// Maximum time for draining the Node before deletion continues, as a Go duration. `0s` means no
            /// limit. Default: `0s`.
            node_drain_timeout: String,
            /// Maximum wait until the Node's volumes are detached, as a Go duration. `0s` means no limit.
            /// Default: `0s`.
            node_volume_detach_timeout: String,
            /// Additional Machine conditions that the Ready condition of a Machine depends on.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"]))]
            readiness_gates: Vec<Gate>,
            /// Desired number of Machines. Leave it unset if an autoscaler manages the number.
            replicas: i32,
            /// Time of a requested rollout.
            #[schemars(extend("minProperties" = 1))]
            rollout: ControlPlaneRollout,
            /// Rollout strategy.
            strategy: MachineDeploymentStrategy,
            /// Taints that are added to the Nodes of the Machines.
            #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"]))]
            taints: Vec<MachineTaint>,
            /// Values of variables for this part of the topology. They override the values of the Cluster.
            variables: VariableOverrides,
        }
    }

    /// Worker group that is managed as a MachinePool.
    MachinePoolTopology {
        required {
            /// Name of the worker class in the ClusterClass.
            #[schemars(length(min = 1, max = 256))]
            class: String,
            /// Name of the worker group. It is unique within the topology.
            #[schemars(length(min = 1, max = 63))]
            name: String,
        }
        optional {
            /// Names of the failure domains in which the servers can be created.
            #[schemars(length(max = 100), inner(length(min = 1, max = 256)))]
            failure_domains: Vec<String>,
            /// Labels and annotations that are propagated to the objects and to their Machines.
            metadata: TemplateMeta,
            /// Minimum time that a Machine is ready before it counts as available. Unit: seconds. Default: 0.
            min_ready_seconds: i32,
            /// Maximum time for deleting the Node, from the start of the Machine's deletion, as a Go
            /// duration. `0s` means no limit. Default: `10s`.
            node_deletion_timeout: String,
            /// Maximum time for draining the Node before deletion continues, as a Go duration. `0s` means no
            /// limit. Default: `0s`.
            node_drain_timeout: String,
            /// Maximum wait until the Node's volumes are detached, as a Go duration. `0s` means no limit.
            /// Default: `0s`.
            node_volume_detach_timeout: String,
            /// Desired number of servers. If unset, the topology does not manage the number.
            replicas: i32,
            /// Taints that are added to the Nodes of the Machines.
            #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"]))]
            taints: Vec<MachineTaint>,
            /// Values of variables for this part of the topology. They override the values of the Cluster.
            variables: VariableOverrides,
        }
    }
}
