//! KubeadmConfigTemplate: what KubeadmConfigs are made from, in v1beta1.

use serde_json::Value;

use crate::descriptor::{AGE, Column, Descriptor};
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::TemplateMeta;
use crate::v1beta1::kubeadm_config::KubeadmConfigSpec;

const COLUMNS: &[Column] = &[AGE];

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
        group: "bootstrap.cluster.x-k8s.io", version: "v1beta1", kind: "KubeadmConfigTemplate", plural: "kubeadmconfigtemplates", singular: "kubeadmconfigtemplate",
        short_names: &[], categories: &["cluster-api"], namespaced: true, status_subresource: false, scale: None,
        deprecation: Some(
            "bootstrap.cluster.x-k8s.io/v1beta1 KubeadmConfigTemplate is deprecated; use bootstrap.cluster.x-k8s.io/v1beta2 KubeadmConfigTemplate",
        ),
        columns: COLUMNS,
    }
}

wire! {
    /// What KubeadmConfigs are made from.
    KubeadmConfigTemplateSpec {
        required {
            /// Template for created objects.
            template: KubeadmConfigTemplateResource,
        }
    }

    /// A KubeadmConfig to be.
    KubeadmConfigTemplateResource {
        optional {
            /// Labels and annotations for created objects.
            metadata: TemplateMeta,
            /// Spec for created objects.
            spec: KubeadmConfigSpec,
        }
    }
}
