//! KubeadmConfigTemplate: what KubeadmConfigs are made from.

use serde_json::Value;

use crate::descriptor::{AGE, Column, Descriptor, column};
use crate::kubeadm_config::KubeadmConfigSpec;
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::TemplateMeta;

const COLUMNS: &[Column] = &[
    column("ClusterClass", "string", ".metadata.ownerReferences[?(@.kind==\"ClusterClass\")].name"),
    column("Cluster", "string", ".metadata.ownerReferences[?(@.kind==\"Cluster\")].name"),
    AGE,
];

fn schema() -> Value {
    object(
        "What the KubeadmConfigs of machines are made from.",
        Some(structural::<KubeadmConfigTemplateSpec>()),
        None,
        false,
    )
}

kind! {
    /// What KubeadmConfigs are made from.
    without status KubeadmConfigTemplate, KubeadmConfigTemplateSpec, schema, Descriptor {
        group: "bootstrap.cluster.x-k8s.io", version: "v1beta2", kind: "KubeadmConfigTemplate", plural: "kubeadmconfigtemplates", singular: "kubeadmconfigtemplate",
        short_names: &[], categories: &["cluster-api"], namespaced: true, status_subresource: false, scale: None,
        deprecation: None,
        columns: COLUMNS,
    }
}

wire! {
    /// What KubeadmConfigs are made from.
    KubeadmConfigTemplateSpec {
        required {
            /// Template for created objects.
            #[schemars(extend("minProperties" = 1))]
            template: KubeadmConfigTemplateResource,
        }
    }

    /// A KubeadmConfig to be.
    KubeadmConfigTemplateResource {
        optional {
            /// Labels and annotations for created objects.
            #[schemars(extend("minProperties" = 1))]
            metadata: TemplateMeta,
            /// Spec for created objects.
            #[schemars(extend("minProperties" = 1))]
            spec: KubeadmConfigSpec,
        }
    }
}
