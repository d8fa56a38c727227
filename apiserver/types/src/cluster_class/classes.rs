//! What a ClusterClass makes control planes, workers and infrastructure from.

use crate::cluster::{
    ControlPlaneRemediation, MachineDeploymentDeletion, MachineDeploymentRemediation, RolloutStrategy,
};
use crate::object::wire;
use crate::shared::{
    Gate, HealthChecks, MachineDeletionSpec, MachineTaint, RemediationTemplateRef, TemplateMeta,
};

wire! {
    /// What infrastructure is made from.
    InfrastructureClass {
        required {
            /// The template.
            template_ref: RemediationTemplateRef,
        }
        optional {
            /// What it is called.
            #[schemars(extend("minProperties" = 1))]
            naming: ClassNaming,
        }
    }

    /// What something of a cluster is called.
    ClassNaming {
        optional {
            /// Go template of the name.
            #[schemars(length(min = 1, max = 1024))]
            template: String,
        }
    }

    /// A template.
    TemplateHolder {
        required {
            /// The template.
            template_ref: RemediationTemplateRef,
        }
    }

    /// What control planes are made from.
    ControlPlaneClass {
        required {
            /// The template.
            template_ref: RemediationTemplateRef,
        }
        optional {
            /// How long deletions may take.
            #[schemars(extend("minProperties" = 1))]
            deletion: MachineDeletionSpec,
            /// When its machines are unhealthy, and what then.
            #[schemars(extend("minProperties" = 1))]
            health_check: ControlPlaneClassHealthCheck,
            /// What its servers are made from.
            machine_infrastructure: TemplateHolder,
            /// Labels and annotations handed down.
            #[schemars(extend("minProperties" = 1))]
            metadata: TemplateMeta,
            /// What it is called.
            #[schemars(extend("minProperties" = 1))]
            naming: ClassNaming,
            /// Conditions that Ready needs of its Machines.
            #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"]))]
            readiness_gates: Vec<Gate>,
            /// Taints of the Nodes.
            #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"]))]
            taints: Vec<MachineTaint>,
        }
    }

    /// When control plane machines are unhealthy, and what then.
    ControlPlaneClassHealthCheck {
        optional {
            /// What counts.
            #[schemars(extend("minProperties" = 1))]
            checks: HealthChecks,
            /// What then.
            #[schemars(extend("minProperties" = 1))]
            remediation: ControlPlaneRemediation,
        }
    }

    /// What workers are made from.
    WorkersClass {
        optional {
            /// Pools of Machines.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["class"]))]
            machine_deployments: Vec<MachineDeploymentClass>,
            /// Pools that the cloud manages.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["class"]))]
            machine_pools: Vec<MachinePoolClass>,
        }
    }

    /// What a pool of Machines is made from.
    MachineDeploymentClass {
        required {
            /// What makes a server a node.
            bootstrap: TemplateHolder,
            /// Its name.
            #[schemars(length(min = 1, max = 256))]
            class: String,
            /// The servers.
            infrastructure: TemplateHolder,
        }
        optional {
            /// How deletions go.
            #[schemars(extend("minProperties" = 1))]
            deletion: MachineDeploymentDeletion,
            /// Where they are to be.
            #[schemars(length(min = 1, max = 256))]
            failure_domain: String,
            /// When its machines are unhealthy, and what then.
            #[schemars(extend("minProperties" = 1))]
            health_check: MachineDeploymentClassHealthCheck,
            /// Labels and annotations handed down.
            #[schemars(extend("minProperties" = 1))]
            metadata: TemplateMeta,
            /// Ready for so long before counted as available. Unit: seconds.
            #[schemars(range(min = 0))]
            min_ready_seconds: i32,
            /// What it is called.
            #[schemars(extend("minProperties" = 1))]
            naming: ClassNaming,
            /// Conditions that Ready needs of its Machines.
            #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"]))]
            readiness_gates: Vec<Gate>,
            /// How to roll out.
            #[schemars(extend("minProperties" = 1))]
            rollout: MachineDeploymentClassRollout,
            /// Taints of the Nodes.
            #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"]))]
            taints: Vec<MachineTaint>,
        }
    }

    /// When a pool's machines are unhealthy, and what then.
    MachineDeploymentClassHealthCheck {
        optional {
            /// What counts.
            #[schemars(extend("minProperties" = 1))]
            checks: HealthChecks,
            /// What then.
            #[schemars(extend("minProperties" = 1))]
            remediation: MachineDeploymentRemediation,
        }
    }

    /// How to roll out a pool.
    MachineDeploymentClassRollout {
        optional {
            /// In which way.
            #[schemars(extend("minProperties" = 1))]
            strategy: RolloutStrategy,
        }
    }

    /// What a pool that the cloud manages is made from.
    MachinePoolClass {
        required {
            /// What makes a server a node.
            bootstrap: TemplateHolder,
            /// Its name.
            #[schemars(length(min = 1, max = 256))]
            class: String,
            /// The servers.
            infrastructure: TemplateHolder,
        }
        optional {
            /// How long deletions may take.
            #[schemars(extend("minProperties" = 1))]
            deletion: MachineDeletionSpec,
            /// Where they may be.
            #[schemars(length(max = 100), inner(length(min = 1, max = 256)), extend("x-kubernetes-list-type" = "atomic"))]
            failure_domains: Vec<String>,
            /// Labels and annotations handed down.
            #[schemars(extend("minProperties" = 1))]
            metadata: TemplateMeta,
            /// Ready for so long before counted as available. Unit: seconds.
            #[schemars(range(min = 0))]
            min_ready_seconds: i32,
            /// What it is called.
            #[schemars(extend("minProperties" = 1))]
            naming: ClassNaming,
            /// Taints of the Nodes.
            #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"]))]
            taints: Vec<MachineTaint>,
        }
    }
}
