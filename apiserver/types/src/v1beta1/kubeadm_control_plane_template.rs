//! KubeadmControlPlaneTemplate in v1beta1: template of KubeadmControlPlanes.

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
        "Template of KubeadmControlPlanes.",
        Some(structural::<KubeadmControlPlaneTemplateSpec>()),
        None,
        false,
    )
}

kind! {
    /// Template of KubeadmControlPlanes.
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
    /// Content of a KubeadmControlPlaneTemplate.
    KubeadmControlPlaneTemplateSpec {
        required {
            /// Template of the created KubeadmControlPlanes.
            template: KubeadmControlPlaneTemplateResource,
        }
    }

    /// Metadata and spec of the created KubeadmControlPlanes.
    KubeadmControlPlaneTemplateResource {
        required {
            /// Spec of the created objects.
            spec: KubeadmControlPlaneTemplateResourceSpec,
        }
        optional {
            /// Labels and annotations of the created objects.
            metadata: TemplateMeta,
        }
    }

    /// Spec of the created KubeadmControlPlanes. The topology supplies replicas, version and infrastructure.
    KubeadmControlPlaneTemplateResourceSpec {
        required {
            /// kubeadm settings of the control plane Machines.
            kubeadm_config_spec: KubeadmConfigSpec,
        }
        optional {
            /// Naming rule of the control plane Machines.
            machine_naming_strategy: MachineNaming,
            /// Template of the control plane Machines.
            machine_template: KubeadmControlPlaneTemplateMachineTemplate,
            /// Limits on the remediation of unhealthy Machines.
            remediation_strategy: KubeadmControlPlaneRemediation,
            /// Time of a requested rollout. Machines that were created before this time are replaced after it
            /// passes.
            rollout_after: Time,
            /// Deadlines that trigger a rollout in advance.
            rollout_before: KubeadmControlPlaneRolloutBefore,
            /// Rollout strategy.
            #[schemars(extend("default" = {"rollingUpdate": {"maxSurge": 1}, "type": "RollingUpdate"}))]
            rollout_strategy: KubeadmControlPlaneRolloutStrategy,
        }
    }

    /// Template of the control plane Machines of a ClusterClass.
    KubeadmControlPlaneTemplateMachineTemplate {
        optional {
            /// Labels and annotations of the control plane Machines.
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
            /// Taints that are added to the Nodes of the Machines.
            #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"]))]
            taints: Vec<MachineTaint>,
        }
    }
}
