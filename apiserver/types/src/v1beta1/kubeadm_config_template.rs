//! KubeadmConfigTemplate in v1beta1: template of KubeadmConfigs.

use serde_json::Value;

use crate::descriptor::{AGE, Column, Descriptor};
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::TemplateMeta;
use crate::v1beta1::kubeadm_config::KubeadmConfigSpec;

const COLUMNS: &[Column] = &[AGE];

fn schema() -> Value {
    object("Template of KubeadmConfigs.", Some(structural::<KubeadmConfigTemplateSpec>()), None, false)
}

kind! {
    /// Template of KubeadmConfigs.
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
    /// Content of a KubeadmConfigTemplate.
    KubeadmConfigTemplateSpec {
        required {
            /// Template of the created KubeadmConfigs.
            template: KubeadmConfigTemplateResource,
        }
    }

    /// Metadata and spec of the created KubeadmConfigs.
    KubeadmConfigTemplateResource {
        optional {
            /// Labels and annotations of the created objects.
            metadata: TemplateMeta,
            /// Spec of the created objects.
            spec: KubeadmConfigSpec,
        }
    }
}
