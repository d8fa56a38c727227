//! KubeadmControlPlaneTemplate: what KubeadmControlPlanes are made from.

use serde_json::Value;

use crate::descriptor::{AGE, Column, Descriptor, column};
use crate::kubeadm_config::KubeadmConfigSpec;
use crate::kubeadm_control_plane::{KubeadmControlPlaneRemediation, KubeadmControlPlaneRollout};
use crate::machine_set::MachineNaming;
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::{MachineDeletionSpec, MachineTaint, TemplateMeta};

const COLUMNS: &[Column] =
    &[column("ClusterClass", "string", ".metadata.ownerReferences[?(@.kind==\"ClusterClass\")].name"), AGE];

fn schema() -> Value {
    object(
        "What the KubeadmControlPlanes of a ClusterClass are made from.",
        Some(structural::<KubeadmControlPlaneTemplateSpec>()),
        None,
        false,
    )
}

kind! {
    /// What KubeadmControlPlanes are made from.
    without status KubeadmControlPlaneTemplate, KubeadmControlPlaneTemplateSpec, schema, Descriptor {
        group: "controlplane.cluster.x-k8s.io", version: "v1beta2", kind: "KubeadmControlPlaneTemplate", plural: "kubeadmcontrolplanetemplates", singular: "kubeadmcontrolplanetemplate",
        short_names: &[], categories: &["cluster-api"], namespaced: true, status_subresource: false, scale: None,
        deprecation: None,
        columns: COLUMNS,
    }
}

wire! {
    /// What KubeadmControlPlanes are made from.
    KubeadmControlPlaneTemplateSpec {
        required {
            /// Template for created objects.
            #[schemars(extend("minProperties" = 1))]
            template: KubeadmControlPlaneTemplateResource,
        }
    }

    /// A KubeadmControlPlane to be.
    KubeadmControlPlaneTemplateResource {
        optional {
            /// Labels and annotations for created objects.
            #[schemars(extend("minProperties" = 1))]
            metadata: TemplateMeta,
            /// Spec for created objects.
            #[schemars(extend("minProperties" = 1))]
            spec: KubeadmControlPlaneTemplateResourceSpec,
        }
    }

    /// A control plane but for what the topology decides: replicas, version, infrastructure.
    KubeadmControlPlaneTemplateResourceSpec {
        optional {
            /// Kubeadm settings for control plane machines.
            #[schemars(extend("minProperties" = 1))]
            kubeadm_config_spec: KubeadmConfigSpec,
            /// Name template for machines.
            #[schemars(extend("minProperties" = 1))]
            machine_naming: MachineNaming,
            /// Template for control plane machines.
            #[schemars(extend("minProperties" = 1))]
            machine_template: KubeadmControlPlaneTemplateMachineTemplate,
            /// Remediation settings.
            #[schemars(extend("minProperties" = 1))]
            remediation: KubeadmControlPlaneRemediation,
            /// Rollout settings.
            #[schemars(extend("minProperties" = 1))]
            rollout: KubeadmControlPlaneRollout,
        }
    }

    /// What a ClusterClass says of control plane machines.
    KubeadmControlPlaneTemplateMachineTemplate {
        optional {
            /// Labels and annotations for machines.
            #[schemars(extend("minProperties" = 1))]
            metadata: TemplateMeta,
            /// Machine settings.
            #[schemars(extend("minProperties" = 1))]
            spec: KubeadmControlPlaneTemplateMachineSpec,
        }
    }

    /// What a ClusterClass says of every control plane machine.
    KubeadmControlPlaneTemplateMachineSpec {
        optional {
            /// Deletion settings.
            #[schemars(extend("minProperties" = 1))]
            deletion: MachineDeletionSpec,
            /// Taints propagated to the Node.
            #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"]))]
            taints: Vec<MachineTaint>,
        }
    }
}
