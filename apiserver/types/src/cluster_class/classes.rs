//! Classes of a ClusterClass: templates of control planes, workers and infrastructure.

use crate::cluster::{
    ControlPlaneRemediation, MachineDeploymentDeletion, MachineDeploymentRemediation, RolloutStrategy,
};
use crate::object::wire;
use crate::shared::{
    Gate, HealthChecks, MachineDeletionSpec, MachineTaint, RemediationTemplateRef, TemplateMeta,
};

wire! {
    /// Template of the cluster infrastructure.
    InfrastructureClass {
        required {
            /// Reference to the template of the infrastructure object, e.g. an OpenStackClusterTemplate.
            template_ref: RemediationTemplateRef,
        }
        optional {
            /// Naming rule of the generated infrastructure object.
            #[schemars(extend("minProperties" = 1))]
            naming: ClassNaming,
        }
    }

    /// Naming rule of generated objects.
    ClassNaming {
        optional {
            /// Go template that generates the name.
            #[schemars(length(min = 1, max = 1024))]
            template: String,
        }
    }

    /// Reference to a template.
    TemplateHolder {
        required {
            /// Reference to the template object.
            template_ref: RemediationTemplateRef,
        }
    }

    /// Template of control planes.
    ControlPlaneClass {
        required {
            /// Reference to the template of the control plane object, e.g. a KubeadmControlPlaneTemplate.
            template_ref: RemediationTemplateRef,
        }
        optional {
            /// Time limits for the steps of a Machine's deletion.
            #[schemars(extend("minProperties" = 1))]
            deletion: MachineDeletionSpec,
            /// Health checks of the Machines, and the remediation of unhealthy Machines.
            #[schemars(extend("minProperties" = 1))]
            health_check: ControlPlaneClassHealthCheck,
            /// Template of the infrastructure objects of control plane Machines, e.g. an
            /// OpenStackMachineTemplate.
            machine_infrastructure: TemplateHolder,
            /// Labels and annotations that are propagated to the objects and to their Machines.
            #[schemars(extend("minProperties" = 1))]
            metadata: TemplateMeta,
            /// Naming rule of the generated control plane object.
            #[schemars(extend("minProperties" = 1))]
            naming: ClassNaming,
            /// Additional Machine conditions that the Ready condition of a Machine depends on.
            #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"]))]
            readiness_gates: Vec<Gate>,
            /// Taints that are added to the Nodes of the Machines.
            #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"]))]
            taints: Vec<MachineTaint>,
        }
    }

    /// Health checks of control plane Machines, and the remediation of unhealthy Machines.
    ControlPlaneClassHealthCheck {
        optional {
            /// Criteria for an unhealthy Machine.
            #[schemars(extend("minProperties" = 1))]
            checks: HealthChecks,
            /// Remediation of unhealthy Machines.
            #[schemars(extend("minProperties" = 1))]
            remediation: ControlPlaneRemediation,
        }
    }

    /// Worker classes of a ClusterClass.
    WorkersClass {
        optional {
            /// Classes of worker groups that are managed as MachineDeployments.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["class"]))]
            machine_deployments: Vec<MachineDeploymentClass>,
            /// Classes of worker groups that are managed as MachinePools.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["class"]))]
            machine_pools: Vec<MachinePoolClass>,
        }
    }

    /// Class of worker groups that are managed as MachineDeployments.
    MachineDeploymentClass {
        required {
            /// Template of the bootstrap objects, e.g. a KubeadmConfigTemplate.
            bootstrap: TemplateHolder,
            /// Name of the class. It is unique within the ClusterClass.
            #[schemars(length(min = 1, max = 256))]
            class: String,
            /// Template of the infrastructure objects, e.g. an OpenStackMachineTemplate.
            infrastructure: TemplateHolder,
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
            health_check: MachineDeploymentClassHealthCheck,
            /// Labels and annotations that are propagated to the objects and to their Machines.
            #[schemars(extend("minProperties" = 1))]
            metadata: TemplateMeta,
            /// Minimum time that a Machine is ready before it counts as available. Unit: seconds. Default: 0.
            #[schemars(range(min = 0))]
            min_ready_seconds: i32,
            /// Naming rule of the generated MachineDeployments.
            #[schemars(extend("minProperties" = 1))]
            naming: ClassNaming,
            /// Additional Machine conditions that the Ready condition of a Machine depends on.
            #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"]))]
            readiness_gates: Vec<Gate>,
            /// Rollout settings.
            #[schemars(extend("minProperties" = 1))]
            rollout: MachineDeploymentClassRollout,
            /// Taints that are added to the Nodes of the Machines.
            #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"]))]
            taints: Vec<MachineTaint>,
        }
    }

    /// Health checks of a worker class, and the remediation of unhealthy Machines.
    MachineDeploymentClassHealthCheck {
        optional {
            /// Criteria for an unhealthy Machine.
            #[schemars(extend("minProperties" = 1))]
            checks: HealthChecks,
            /// Remediation of unhealthy Machines.
            #[schemars(extend("minProperties" = 1))]
            remediation: MachineDeploymentRemediation,
        }
    }

    /// Rollout settings of a worker class.
    MachineDeploymentClassRollout {
        optional {
            /// Rollout strategy.
            #[schemars(extend("minProperties" = 1))]
            strategy: RolloutStrategy,
        }
    }

    /// Class of worker groups that are managed as MachinePools.
    MachinePoolClass {
        required {
            /// Template of the bootstrap objects, e.g. a KubeadmConfigTemplate.
            bootstrap: TemplateHolder,
            /// Name of the class. It is unique within the ClusterClass.
            #[schemars(length(min = 1, max = 256))]
            class: String,
            /// Template of the infrastructure objects.
            infrastructure: TemplateHolder,
        }
        optional {
            /// Time limits for the steps of a Machine's deletion.
            #[schemars(extend("minProperties" = 1))]
            deletion: MachineDeletionSpec,
            /// Names of the failure domains in which the servers can be created.
            #[schemars(length(max = 100), inner(length(min = 1, max = 256)), extend("x-kubernetes-list-type" = "atomic"))]
            failure_domains: Vec<String>,
            /// Labels and annotations that are propagated to the objects and to their Machines.
            #[schemars(extend("minProperties" = 1))]
            metadata: TemplateMeta,
            /// Minimum time that a Machine is ready before it counts as available. Unit: seconds. Default: 0.
            #[schemars(range(min = 0))]
            min_ready_seconds: i32,
            /// Naming rule of the generated MachinePools.
            #[schemars(extend("minProperties" = 1))]
            naming: ClassNaming,
            /// Taints that are added to the Nodes of the Machines.
            #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"]))]
            taints: Vec<MachineTaint>,
        }
    }
}
