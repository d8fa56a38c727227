//! OpenStackClusterTemplate: template of the OpenStackClusters of a ClusterClass.

use serde_json::Value;

use crate::descriptor::{AGE, Column, Descriptor};
use crate::object::{kind, wire};
use crate::openstack_cluster::OpenStackClusterSpec;
use crate::schema::{object, structural};
use crate::shared::TemplateMeta;

/// Columns of both versions.
pub(crate) const COLUMNS: &[Column] = &[AGE];

fn schema() -> Value {
    let description = "What OpenStackClusters are made from.";
    object(description, Some(structural::<OpenStackClusterTemplateSpec>()), None, false)
}

kind! {
    /// Template of OpenStackClusters.
    without status OpenStackClusterTemplate, OpenStackClusterTemplateSpec, schema, Descriptor {
        group: "infrastructure.cluster.x-k8s.io", version: "v1beta2", kind: "OpenStackClusterTemplate",
        plural: "openstackclustertemplates", singular: "openstackclustertemplate", short_names: &["osct"],
        categories: &["cluster-api"], namespaced: true, status_subresource: false, scale: None, deprecation: None, columns: COLUMNS,
    }
}

wire! {
    /// Content of an OpenStackClusterTemplate. Immutable.
    OpenStackClusterTemplateSpec {
        required {
            /// Template of the created OpenStackClusters.
            template: OpenStackClusterTemplateResource,
        }
    }

    /// Metadata and spec of the created OpenStackClusters.
    OpenStackClusterTemplateResource {
        required {
            /// Spec of the created objects.
            spec: OpenStackClusterSpec,
        }
        optional {
            /// Labels and annotations of the created objects.
            #[schemars(extend("minProperties" = 1))]
            metadata: TemplateMeta,
        }
    }
}
