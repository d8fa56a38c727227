//! OpenStackClusterTemplate: what OpenStackClusters of a ClusterClass are made from.

use serde_json::Value;

use crate::descriptor::{AGE, Column, Descriptor};
use crate::object::{kind, wire};
use crate::openstack_cluster::OpenStackClusterSpec;
use crate::schema::{object, structural};
use crate::shared::TemplateMeta;

/// What either version shows.
pub(crate) const COLUMNS: &[Column] = &[AGE];

fn schema() -> Value {
    let description = "What OpenStackClusters are made from.";
    object(description, Some(structural::<OpenStackClusterTemplateSpec>()), None, false)
}

kind! {
    /// What OpenStackClusters are made from.
    without status OpenStackClusterTemplate, OpenStackClusterTemplateSpec, schema, Descriptor {
        group: "infrastructure.cluster.x-k8s.io", version: "v1beta2", kind: "OpenStackClusterTemplate",
        plural: "openstackclustertemplates", singular: "openstackclustertemplate", short_names: &["osct"],
        categories: &["cluster-api"], namespaced: true, status_subresource: false, scale: None, deprecation: None, columns: COLUMNS,
    }
}

wire! {
    /// What a template has. Immutable.
    OpenStackClusterTemplateSpec {
        required {
            /// The OpenStackClusters to be.
            template: OpenStackClusterTemplateResource,
        }
    }

    /// OpenStackClusters to be.
    OpenStackClusterTemplateResource {
        required {
            /// What is wanted of them.
            spec: OpenStackClusterSpec,
        }
        optional {
            /// Their labels and annotations.
            #[schemars(extend("minProperties" = 1))]
            metadata: TemplateMeta,
        }
    }
}
