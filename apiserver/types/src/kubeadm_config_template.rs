//! KubeadmConfigTemplate: template of KubeadmConfigs.

use serde_json::Value;

use crate::descriptor::{AGE, Column, Descriptor, column};
use crate::kubeadm_config::KubeadmConfigSpec;
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::TemplateMeta;

const COLUMNS: &[Column] = &[
    column(
        "ClusterClass",
        "string",
        ".metadata.ownerReferences[?(@.kind==\"ClusterClass\")].name",
        "ClusterClass that owns this template, if any.",
    ),
    column(
        "Cluster",
        "string",
        ".metadata.ownerReferences[?(@.kind==\"Cluster\")].name",
        "Cluster that owns this template, if any.",
    ),
    AGE,
];

fn schema() -> Value {
    object("Template of KubeadmConfigs.", Some(structural::<KubeadmConfigTemplateSpec>()), None, false)
}

kind! {
    /// Template of KubeadmConfigs.
    without status KubeadmConfigTemplate, KubeadmConfigTemplateSpec, schema, Descriptor {
        group: "bootstrap.cluster.x-k8s.io", version: "v1beta2", kind: "KubeadmConfigTemplate", plural: "kubeadmconfigtemplates", singular: "kubeadmconfigtemplate",
        short_names: &[], categories: &["cluster-api"], namespaced: true, status_subresource: false, scale: None,
        deprecation: None,
        columns: COLUMNS,
    }
}

wire! {
    /// Content of a KubeadmConfigTemplate.
    KubeadmConfigTemplateSpec {
        required {
            /// Template of the created KubeadmConfigs.
            #[schemars(extend("minProperties" = 1))]
            template: KubeadmConfigTemplateResource,
        }
    }

    /// Metadata and spec of the created KubeadmConfigs.
    KubeadmConfigTemplateResource {
        optional {
            /// Labels and annotations of the created objects.
            #[schemars(extend("minProperties" = 1))]
            metadata: TemplateMeta,
            /// Spec of the created objects.
            #[schemars(extend("minProperties" = 1))]
            spec: KubeadmConfigSpec,
        }
    }
}
