//! Classes of a ClusterClass in v1beta1: templates of control planes and workers.

use crate::cluster_class::ClassNaming;
use crate::object::wire;
use crate::shared::{Gate, IntOrString, MachineTaint, TemplateMeta};
use crate::v1beta1::{
    MachineDeploymentStrategy, ObjectReference, UnhealthyCondition, UnhealthyMachineCondition,
};

wire! {
    /// Reference to a template.
    TemplateHolder {
        required {
            /// Reference to the template object.
            #[serde(rename = "ref")]
            reference: ObjectReference,
        }
    }

    /// Template of control planes.
    ControlPlaneClass {
        required {
            /// Reference to the template of the control plane object, e.g. a KubeadmControlPlaneTemplate.
            #[serde(rename = "ref")]
            reference: ObjectReference,
        }
        optional {
            /// Health checks of the Machines, and the remediation of unhealthy Machines.
            machine_health_check: MachineHealthCheckClass,
            /// Template of the infrastructure objects of control plane Machines, e.g. an
            /// OpenStackMachineTemplate.
            machine_infrastructure: TemplateHolder,
            /// Labels and annotations that are propagated to the objects and to their Machines.
            metadata: TemplateMeta,
            /// Naming rule of the generated control plane object.
            naming_strategy: ClassNaming,
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
            /// Taints that are added to the Nodes of the Machines.
            #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"]))]
            taints: Vec<MachineTaint>,
        }
    }

    /// Health checks of the Machines of a class, and the remediation of unhealthy Machines.
    MachineHealthCheckClass {
        optional {
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

    /// Worker classes of a ClusterClass.
    WorkersClass {
        optional {
            /// Classes of worker groups that are managed as MachineDeployments.
            #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["class"]))]
            machine_deployments: Vec<MachineDeploymentClass>,
            /// Classes of worker groups that are managed as MachinePools.
            #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["class"]))]
            machine_pools: Vec<MachinePoolClass>,
        }
    }

    /// Class of worker groups that are managed as MachineDeployments.
    MachineDeploymentClass {
        required {
            /// Name of the class. It is unique within the ClusterClass.
            #[schemars(length(min = 1, max = 256))]
            class: String,
            /// Templates of the bootstrap and infrastructure objects, with labels and annotations.
            template: WorkerTemplates,
        }
        optional {
            /// Name of the failure domain in which the Machines are created.
            #[schemars(length(min = 1, max = 256))]
            failure_domain: String,
            /// Health checks of the Machines, and the remediation of unhealthy Machines.
            machine_health_check: MachineHealthCheckClass,
            /// Minimum time that a Machine is ready before it counts as available. Unit: seconds. Default: 0.
            min_ready_seconds: i32,
            /// Naming rule of the generated MachineDeployments.
            naming_strategy: ClassNaming,
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
            /// Rollout strategy.
            strategy: MachineDeploymentStrategy,
            /// Taints that are added to the Nodes of the Machines.
            #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"]))]
            taints: Vec<MachineTaint>,
        }
    }

    /// Templates of a worker class.
    WorkerTemplates {
        required {
            /// Template of the bootstrap objects, e.g. a KubeadmConfigTemplate.
            bootstrap: TemplateHolder,
            /// Template of the infrastructure objects, e.g. an OpenStackMachineTemplate.
            infrastructure: TemplateHolder,
        }
        optional {
            /// Labels and annotations that are propagated to the objects and to their Machines.
            metadata: TemplateMeta,
        }
    }

    /// Class of worker groups that are managed as MachinePools.
    MachinePoolClass {
        required {
            /// Name of the class. It is unique within the ClusterClass.
            #[schemars(length(min = 1, max = 256))]
            class: String,
            /// Templates of the bootstrap and infrastructure objects, with labels and annotations.
            template: WorkerTemplates,
        }
        optional {
            /// Names of the failure domains in which the servers can be created.
            #[schemars(length(max = 100), inner(length(min = 1, max = 256)))]
            failure_domains: Vec<String>,
            /// Minimum time that a Machine is ready before it counts as available. Unit: seconds. Default: 0.
            min_ready_seconds: i32,
            /// Naming rule of the generated MachinePools.
            naming_strategy: ClassNaming,
            /// Maximum time for deleting the Node, from the start of the Machine's deletion, as a Go
            /// duration. `0s` means no limit. Default: `10s`.
            node_deletion_timeout: String,
            /// Maximum time for draining the Node before deletion continues, as a Go duration. `0s` means no
            /// limit. Default: `0s`.
            node_drain_timeout: String,
            /// Maximum wait until the Node's volumes are detached, as a Go duration. `0s` means no limit.
            /// Default: `0s`.
            node_volume_detach_timeout: String,
            /// Taints that are added to the Nodes of the Machines.
            #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"]))]
            taints: Vec<MachineTaint>,
        }
    }
}
