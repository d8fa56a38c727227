//! OpenStackMachineTemplate: template of OpenStackMachines.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::descriptor::{AGE, Column, Descriptor};
use crate::object::{kind, wire};
use crate::openstack_machine::OpenStackMachineSpec;
use crate::scalar::Quantity;
use crate::schema::{object, structural};
use crate::shared::Condition;

/// Columns of both versions.
pub(crate) const COLUMNS: &[Column] = &[AGE];

fn schema() -> Value {
    object(
        "Template of OpenStackMachines.",
        Some(structural::<OpenStackMachineTemplateSpec>()),
        Some(structural::<OpenStackMachineTemplateStatus>()),
        false,
    )
}

kind! {
    /// Template of OpenStackMachines.
    OpenStackMachineTemplate, OpenStackMachineTemplateSpec, OpenStackMachineTemplateStatus, schema, Descriptor {
        group: "infrastructure.cluster.x-k8s.io", version: "v1beta2", kind: "OpenStackMachineTemplate",
        plural: "openstackmachinetemplates", singular: "openstackmachinetemplate", short_names: &["osmt"],
        categories: &["cluster-api"], namespaced: true, status_subresource: true, scale: None, deprecation: None, columns: COLUMNS,
    }
}

wire! {
    /// Content of an OpenStackMachineTemplate. `template.spec` is immutable except for the `allowedAddressPairs` of its
    /// ports.
    OpenStackMachineTemplateSpec {
        required {
            /// Template of the created OpenStackMachines.
            template: OpenStackMachineTemplateResource,
        }
    }

    /// Metadata and spec of the created OpenStackMachines.
    OpenStackMachineTemplateResource {
        required {
            /// Spec of the created objects.
            spec: OpenStackMachineSpec,
        }
    }

    /// Properties of servers that the template creates, for an autoscaler that scales up from zero servers.
    OpenStackMachineTemplateStatus {
        optional {
            /// Resources of a server, by resource name, e.g. `cpu` and `memory`.
            capacity: BTreeMap<String, Quantity>,
            /// Conditions, at most one per type.
            #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
            conditions: Vec<Condition>,
            /// Properties of the Nodes.
            #[schemars(extend("minProperties" = 1))]
            node_info: TemplateNodeInfo,
        }
    }

    /// Properties of a Node that the template creates.
    TemplateNodeInfo {
        optional {
            /// Operating system of the Node, e.g. `linux`.
            operating_system: String,
        }
    }
}
