//! KubeadmControlPlaneTemplate: what KubeadmControlPlanes are made from, in v1beta1.

use serde_json::Value;

use crate::descriptor::{AGE, Column, Descriptor};
use crate::machine_set::MachineNaming;
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::{MachineTaint, TemplateMeta, Time};
use crate::v1beta1::kubeadm_config::KubeadmConfigSpec;
use crate::v1beta1::kubeadm_control_plane::{
    KubeadmControlPlaneRemediation, KubeadmControlPlaneRolloutBefore, KubeadmControlPlaneRolloutStrategy,
};

const COLUMNS: &[Column] = &[AGE];

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
        group: "controlplane.cluster.x-k8s.io", version: "v1beta1", kind: "KubeadmControlPlaneTemplate", plural: "kubeadmcontrolplanetemplates", singular: "kubeadmcontrolplanetemplate",
        short_names: &[], categories: &["cluster-api"], namespaced: true, status_subresource: false, scale: None,
        deprecation: Some(
            "controlplane.cluster.x-k8s.io/v1beta1 KubeadmControlPlaneTemplate is deprecated; use controlplane.cluster.x-k8s.io/v1beta2 KubeadmControlPlaneTemplate",
        ),
        columns: COLUMNS,
    }
}

wire! {
    /// What KubeadmControlPlanes are made from.
    KubeadmControlPlaneTemplateSpec {
        required {
            /// Template for created objects.
            template: KubeadmControlPlaneTemplateResource,
        }
    }

    /// A KubeadmControlPlane to be.
    KubeadmControlPlaneTemplateResource {
        required {
            /// Spec for created objects.
            spec: KubeadmControlPlaneTemplateResourceSpec,
        }
        optional {
            /// Labels and annotations for created objects.
            metadata: TemplateMeta,
        }
    }

    /// A control plane but for what the topology decides: replicas, version, infrastructure.
    KubeadmControlPlaneTemplateResourceSpec {
        required {
            /// Kubeadm settings for control plane machines.
            kubeadm_config_spec: KubeadmConfigSpec,
        }
        optional {
            /// How machines are called.
            machine_naming_strategy: MachineNaming,
            /// Template for control plane machines.
            machine_template: KubeadmControlPlaneTemplateMachineTemplate,
            /// How unhealthy machines are replaced.
            remediation_strategy: KubeadmControlPlaneRemediation,
            /// Machines from before this moment are replaced.
            rollout_after: Time,
            /// What machines are replaced ahead of.
            rollout_before: KubeadmControlPlaneRolloutBefore,
            /// How machines are replaced.
            #[schemars(extend("default" = {"rollingUpdate": {"maxSurge": 1}, "type": "RollingUpdate"}))]
            rollout_strategy: KubeadmControlPlaneRolloutStrategy,
        }
    }

    /// What a ClusterClass says of control plane machines.
    KubeadmControlPlaneTemplateMachineTemplate {
        optional {
            /// Labels and annotations for machines.
            metadata: TemplateMeta,
            /// Retry deleting the Node for so long, as a Go duration.
            node_deletion_timeout: String,
            /// Drain for at most so long, as a Go duration.
            node_drain_timeout: String,
            /// Wait for volumes for at most so long, as a Go duration.
            node_volume_detach_timeout: String,
            /// Taints of the Nodes.
            #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"]))]
            taints: Vec<MachineTaint>,
        }
    }
}
