//! Cluster topology: the parts of a Cluster that its ClusterClass generates.

use super::MachineDeploymentTopology;
use crate::object::wire;
use crate::shared::{
    ClusterVariable, Gate, HealthChecks, MachineDeletionSpec, MachineTaint, RemediationTemplateRef,
    RemediationTriggerIf, TemplateMeta, Time,
};

wire! {
    /// Topology that is generated from a ClusterClass.
    Topology {
        required {
            /// Reference to the ClusterClass.
            class_ref: ClassRef,
            /// Kubernetes version of the control plane and the workers, with a leading v.
            #[schemars(length(min = 1, max = 256))]
            version: String,
        }
        optional {
            /// Topology of the control plane.
            #[schemars(extend("minProperties" = 1))]
            control_plane: ControlPlaneTopology,
            /// Values of the variables that the ClusterClass defines.
            #[schemars(length(min = 1, max = 1000), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            variables: Vec<ClusterVariable>,
            /// Topology of the workers.
            #[schemars(extend("minProperties" = 1))]
            workers: WorkersTopology,
        }
    }

    /// Reference to a ClusterClass.
    ClassRef {
        required {
            /// Name of the ClusterClass.
            #[schemars(length(min = 1, max = 253), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"))]
            name: String,
        }
        optional {
            /// Namespace of the ClusterClass. Default: the namespace of the Cluster.
            #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
            namespace: String,
        }
    }

    /// Topology of the control plane.
    ControlPlaneTopology {
        optional {
            /// Time limits for the steps of a Machine's deletion.
            #[schemars(extend("minProperties" = 1))]
            deletion: MachineDeletionSpec,
            /// Health checks of the Machines, and the remediation of unhealthy Machines.
            #[schemars(extend("minProperties" = 1))]
            health_check: ControlPlaneHealthCheck,
            /// Labels and annotations that are propagated to the objects and to their Machines.
            #[schemars(extend("minProperties" = 1))]
            metadata: TemplateMeta,
            /// Additional Machine conditions that the Ready condition of a Machine depends on.
            #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"]))]
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
            #[schemars(extend("minProperties" = 1))]
            variables: VariableOverrides,
        }
    }

    /// Values of variables that override the values of the Cluster.
    VariableOverrides {
        optional {
            /// Values of variables. Each value overrides the Cluster's value of the same variable.
            #[schemars(length(min = 1, max = 1000), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            overrides: Vec<ClusterVariable>,
        }
    }

    /// Time of a requested rollout.
    ControlPlaneRollout {
        optional {
            /// Time of a requested rollout. Machines that were created before this time are replaced after it
            /// passes.
            after: Time,
        }
    }

    /// Health checks of control plane Machines, and the remediation of unhealthy Machines.
    ControlPlaneHealthCheck {
        optional {
            /// Criteria for an unhealthy Machine.
            #[schemars(extend("minProperties" = 1))]
            checks: HealthChecks,
            /// Switch of the health check. If unset, it runs if the topology or the ClusterClass defines
            /// checks.
            enabled: bool,
            /// Remediation of unhealthy Machines.
            #[schemars(extend("minProperties" = 1))]
            remediation: ControlPlaneRemediation,
        }
    }

    /// Remediation of unhealthy Machines.
    ControlPlaneRemediation {
        optional {
            /// Template of an external remediation request. If unset, the unhealthy Machine is deleted and its
            /// owner creates a new one.
            template_ref: RemediationTemplateRef,
            /// Limits on the number of unhealthy Machines. Outside these limits, remediation stops.
            #[schemars(extend("minProperties" = 1))]
            trigger_if: RemediationTriggerIf,
        }
    }

    /// Topology of the workers.
    WorkersTopology {
        optional {
            /// Worker groups that are managed as MachineDeployments.
            #[schemars(length(min = 1, max = 2000), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            machine_deployments: Vec<MachineDeploymentTopology>,
            /// Worker groups that are managed as MachinePools, whose servers the cloud manages.
            #[schemars(length(min = 1, max = 2000), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            machine_pools: Vec<MachinePoolTopology>,
        }
    }

    /// Worker group that is managed as a MachinePool.
    MachinePoolTopology {
        required {
            /// Name of the worker class in the ClusterClass.
            #[schemars(length(min = 1, max = 256))]
            class: String,
            /// Name of the worker group. It is unique within the topology.
            #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"))]
            name: String,
        }
        optional {
            /// Time limits for the steps of a Machine's deletion.
            #[schemars(extend("minProperties" = 1))]
            deletion: MachineDeletionSpec,
            /// Names of the failure domains in which the servers can be created.
            #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 256)), extend("x-kubernetes-list-type" = "atomic"))]
            failure_domains: Vec<String>,
            /// Labels and annotations that are propagated to the objects and to their Machines.
            #[schemars(extend("minProperties" = 1))]
            metadata: TemplateMeta,
            /// Minimum time that a Machine is ready before it counts as available. Unit: seconds. Default: 0.
            #[schemars(range(min = 0))]
            min_ready_seconds: i32,
            /// Desired number of servers. If unset, the topology does not manage the number.
            replicas: i32,
            /// Taints that are added to the Nodes of the Machines.
            #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"]))]
            taints: Vec<MachineTaint>,
            /// Values of variables for this part of the topology. They override the values of the Cluster.
            #[schemars(extend("minProperties" = 1))]
            variables: VariableOverrides,
        }
    }
}
