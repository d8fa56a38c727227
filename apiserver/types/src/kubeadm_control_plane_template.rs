//! KubeadmControlPlaneTemplate: template of KubeadmControlPlanes.

use serde_json::Value;

use crate::descriptor::{AGE, Column, Descriptor, column};
use crate::kubeadm_config::KubeadmConfigSpec;
use crate::kubeadm_control_plane::{KubeadmControlPlaneRemediation, KubeadmControlPlaneRollout};
use crate::machine_set::MachineNaming;
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::{MachineDeletionSpec, MachineTaint, TemplateMeta};

const COLUMNS: &[Column] = &[
    column(
        "ClusterClass",
        "string",
        ".metadata.ownerReferences[?(@.kind==\"ClusterClass\")].name",
        "ClusterClass that owns this template, if any.",
    ),
    AGE,
];

fn schema() -> Value {
    object(
        "Template of KubeadmControlPlanes.",
        Some(structural::<KubeadmControlPlaneTemplateSpec>()),
        None,
        false,
    )
}

kind! {
    /// Template of KubeadmControlPlanes.
    without status KubeadmControlPlaneTemplate, KubeadmControlPlaneTemplateSpec, schema, Descriptor {
        group: "controlplane.cluster.x-k8s.io", version: "v1beta2", kind: "KubeadmControlPlaneTemplate", plural: "kubeadmcontrolplanetemplates", singular: "kubeadmcontrolplanetemplate",
        short_names: &[], categories: &["cluster-api"], namespaced: true, status_subresource: false, scale: None,
        deprecation: None,
        columns: COLUMNS,
    }
}

wire! {
    /// Content of a KubeadmControlPlaneTemplate.
    KubeadmControlPlaneTemplateSpec {
        required {
            /// Template of the created KubeadmControlPlanes.
            #[schemars(extend("minProperties" = 1))]
            template: KubeadmControlPlaneTemplateResource,
        }
    }

    /// Metadata and spec of the created KubeadmControlPlanes.
    KubeadmControlPlaneTemplateResource {
        optional {
            /// Labels and annotations of the created objects.
            #[schemars(extend("minProperties" = 1))]
            metadata: TemplateMeta,
            /// Spec of the created objects.
            #[schemars(extend("minProperties" = 1))]
            spec: KubeadmControlPlaneTemplateResourceSpec,
        }
    }

    /// Spec of the created KubeadmControlPlanes. The topology supplies replicas, version and infrastructure.
    KubeadmControlPlaneTemplateResourceSpec {
        optional {
            /// kubeadm settings of the control plane Machines.
            #[schemars(extend("minProperties" = 1))]
            kubeadm_config_spec: KubeadmConfigSpec,
            /// Naming rule of the control plane Machines.
            #[schemars(extend("minProperties" = 1))]
            machine_naming: MachineNaming,
            /// Template of the control plane Machines.
            #[schemars(extend("minProperties" = 1))]
            machine_template: KubeadmControlPlaneTemplateMachineTemplate,
            /// Limits on the remediation of unhealthy Machines.
            #[schemars(extend("minProperties" = 1))]
            remediation: KubeadmControlPlaneRemediation,
            /// Rollout triggers and rollout strategy.
            #[schemars(extend("minProperties" = 1))]
            rollout: KubeadmControlPlaneRollout,
        }
    }

    /// Template of the control plane Machines of a ClusterClass.
    KubeadmControlPlaneTemplateMachineTemplate {
        optional {
            /// Labels and annotations of the control plane Machines.
            #[schemars(extend("minProperties" = 1))]
            metadata: TemplateMeta,
            /// Settings of the control plane Machines.
            #[schemars(extend("minProperties" = 1))]
            spec: KubeadmControlPlaneTemplateMachineSpec,
        }
    }

    /// Settings of the control plane Machines of a ClusterClass.
    KubeadmControlPlaneTemplateMachineSpec {
        optional {
            /// Time limits for the steps of a Machine's deletion.
            #[schemars(extend("minProperties" = 1))]
            deletion: MachineDeletionSpec,
            /// Taints that are added to the Nodes of the Machines.
            #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"]))]
            taints: Vec<MachineTaint>,
        }
    }
}
