//! What a ClusterClass makes control planes and workers from, in v1beta1.

use crate::cluster_class::ClassNaming;
use crate::object::wire;
use crate::shared::{Gate, IntOrString, MachineTaint, TemplateMeta};
use crate::v1beta1::{
    MachineDeploymentStrategy, ObjectReference, UnhealthyCondition, UnhealthyMachineCondition,
};

wire! {
    /// A template.
    TemplateHolder {
        required {
            /// The template.
            #[serde(rename = "ref")]
            reference: ObjectReference,
        }
    }

    /// What control planes are made from.
    ControlPlaneClass {
        required {
            /// The template.
            #[serde(rename = "ref")]
            reference: ObjectReference,
        }
        optional {
            /// When its machines are unhealthy, and what then.
            machine_health_check: MachineHealthCheckClass,
            /// What its servers are made from.
            machine_infrastructure: TemplateHolder,
            /// Labels and annotations handed down.
            metadata: TemplateMeta,
            /// What it is called.
            naming_strategy: ClassNaming,
            /// Retry deleting the Node for so long.
            node_deletion_timeout: String,
            /// Drain for at most so long; `0s` is without limit.
            node_drain_timeout: String,
            /// Wait for volumes for at most so long; `0s` is without limit.
            node_volume_detach_timeout: String,
            /// Conditions that Ready needs of its Machines.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"]))]
            readiness_gates: Vec<Gate>,
            /// Taints of the Nodes.
            #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"]))]
            taints: Vec<MachineTaint>,
        }
    }

    /// When machines of a class are unhealthy, and what then.
    MachineHealthCheckClass {
        optional {
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

    /// What workers are made from.
    WorkersClass {
        optional {
            /// Pools of Machines.
            #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["class"]))]
            machine_deployments: Vec<MachineDeploymentClass>,
            /// Pools that the cloud manages.
            #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["class"]))]
            machine_pools: Vec<MachinePoolClass>,
        }
    }

    /// What a pool of Machines is made from.
    MachineDeploymentClass {
        required {
            /// Its name.
            #[schemars(length(min = 1, max = 256))]
            class: String,
            /// The templates.
            template: WorkerTemplates,
        }
        optional {
            /// Where they are to be.
            #[schemars(length(min = 1, max = 256))]
            failure_domain: String,
            /// When its machines are unhealthy, and what then.
            machine_health_check: MachineHealthCheckClass,
            /// Ready for so long before counted as available. Unit: seconds.
            min_ready_seconds: i32,
            /// What it is called.
            naming_strategy: ClassNaming,
            /// Retry deleting the Node for so long.
            node_deletion_timeout: String,
            /// Drain for at most so long; `0s` is without limit.
            node_drain_timeout: String,
            /// Wait for volumes for at most so long; `0s` is without limit.
            node_volume_detach_timeout: String,
            /// Conditions that Ready needs of its Machines.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"]))]
            readiness_gates: Vec<Gate>,
            /// How to roll out.
            strategy: MachineDeploymentStrategy,
            /// Taints of the Nodes.
            #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"]))]
            taints: Vec<MachineTaint>,
        }
    }

    /// Templates of a pool.
    WorkerTemplates {
        required {
            /// What makes a server a node.
            bootstrap: TemplateHolder,
            /// The servers.
            infrastructure: TemplateHolder,
        }
        optional {
            /// Labels and annotations handed down.
            metadata: TemplateMeta,
        }
    }

    /// What a pool that the cloud manages is made from.
    MachinePoolClass {
        required {
            /// Its name.
            #[schemars(length(min = 1, max = 256))]
            class: String,
            /// The templates.
            template: WorkerTemplates,
        }
        optional {
            /// Where they may be.
            #[schemars(length(max = 100), inner(length(min = 1, max = 256)))]
            failure_domains: Vec<String>,
            /// Ready for so long before counted as available. Unit: seconds.
            min_ready_seconds: i32,
            /// What it is called.
            naming_strategy: ClassNaming,
            /// Retry deleting the Node for so long.
            node_deletion_timeout: String,
            /// Drain for at most so long; `0s` is without limit.
            node_drain_timeout: String,
            /// Wait for volumes for at most so long; `0s` is without limit.
            node_volume_detach_timeout: String,
            /// Taints of the Nodes.
            #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"]))]
            taints: Vec<MachineTaint>,
        }
    }
}
