//! What a Cluster is made of by its class.

use super::MachineDeploymentTopology;
use crate::object::wire;
use crate::shared::{
    ClusterVariable, Gate, HealthChecks, MachineDeletionSpec, MachineTaint, RemediationTemplateRef,
    RemediationTriggerIf, TemplateMeta, Time,
};

wire! {
    /// A shape taken from a ClusterClass.
    Topology {
        required {
            /// The class.
            class_ref: ClassRef,
            /// Kubernetes version of the whole cluster.
            #[schemars(length(min = 1, max = 256))]
            version: String,
        }
        optional {
            /// The control plane.
            #[schemars(extend("minProperties" = 1))]
            control_plane: ControlPlaneTopology,
            /// Values for the class's variables.
            #[schemars(length(min = 1, max = 1000), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            variables: Vec<ClusterVariable>,
            /// The workers.
            #[schemars(extend("minProperties" = 1))]
            workers: WorkersTopology,
        }
    }

    /// A ClusterClass.
    ClassRef {
        required {
            /// Its name.
            #[schemars(length(min = 1, max = 253), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"))]
            name: String,
        }
        optional {
            /// Its namespace; the Cluster's own when unset.
            #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
            namespace: String,
        }
    }

    /// The control plane of a topology.
    ControlPlaneTopology {
        optional {
            /// How long deletions may take.
            #[schemars(extend("minProperties" = 1))]
            deletion: MachineDeletionSpec,
            /// When its machines are unhealthy, and what then.
            #[schemars(extend("minProperties" = 1))]
            health_check: ControlPlaneHealthCheck,
            /// Labels and annotations handed down.
            #[schemars(extend("minProperties" = 1))]
            metadata: TemplateMeta,
            /// Conditions that Ready needs of its Machines.
            #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"]))]
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
            #[schemars(extend("minProperties" = 1))]
            variables: VariableOverrides,
        }
    }

    /// Values that override the cluster's.
    VariableOverrides {
        optional {
            /// The values.
            #[schemars(length(min = 1, max = 1000), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            overrides: Vec<ClusterVariable>,
        }
    }

    /// When to roll out a control plane.
    ControlPlaneRollout {
        optional {
            /// Replace machines made before this.
            after: Time,
        }
    }

    /// When control plane machines are unhealthy, and what then.
    ControlPlaneHealthCheck {
        optional {
            /// What counts.
            #[schemars(extend("minProperties" = 1))]
            checks: HealthChecks,
            /// Force it on or off.
            enabled: bool,
            /// What then.
            #[schemars(extend("minProperties" = 1))]
            remediation: ControlPlaneRemediation,
        }
    }

    /// How control plane machines are remediated.
    ControlPlaneRemediation {
        optional {
            /// Who does it; unset is delete and make anew.
            template_ref: RemediationTemplateRef,
            /// When it may be done.
            #[schemars(extend("minProperties" = 1))]
            trigger_if: RemediationTriggerIf,
        }
    }

    /// The workers of a topology.
    WorkersTopology {
        optional {
            /// Pools of Machines.
            #[schemars(length(min = 1, max = 2000), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            machine_deployments: Vec<MachineDeploymentTopology>,
            /// Pools that the cloud manages.
            #[schemars(length(min = 1, max = 2000), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            machine_pools: Vec<MachinePoolTopology>,
        }
    }

    /// A pool that the cloud manages.
    MachinePoolTopology {
        required {
            /// Its class in the ClusterClass.
            #[schemars(length(min = 1, max = 256))]
            class: String,
            /// Its name, unique in the topology.
            #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"))]
            name: String,
        }
        optional {
            /// How long deletions may take.
            #[schemars(extend("minProperties" = 1))]
            deletion: MachineDeletionSpec,
            /// Where it may be.
            #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 256)), extend("x-kubernetes-list-type" = "atomic"))]
            failure_domains: Vec<String>,
            /// Labels and annotations handed down.
            #[schemars(extend("minProperties" = 1))]
            metadata: TemplateMeta,
            /// Ready for so long before counted as available. Unit: seconds.
            #[schemars(range(min = 0))]
            min_ready_seconds: i32,
            /// Machines.
            replicas: i32,
            /// Taints of the Nodes.
            #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"]))]
            taints: Vec<MachineTaint>,
            /// Values for variables.
            #[schemars(extend("minProperties" = 1))]
            variables: VariableOverrides,
        }
    }
}
