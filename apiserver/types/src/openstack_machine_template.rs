//! OpenStackMachineTemplate: what OpenStackMachines are made from.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::descriptor::{AGE, Column, Descriptor};
use crate::object::{kind, wire};
use crate::openstack_machine::OpenStackMachineSpec;
use crate::scalar::Quantity;
use crate::schema::{object, structural};
use crate::shared::Condition;

/// What either version shows.
pub(crate) const COLUMNS: &[Column] = &[AGE];

fn schema() -> Value {
    object(
        "What OpenStackMachines are made from.",
        Some(structural::<OpenStackMachineTemplateSpec>()),
        Some(structural::<OpenStackMachineTemplateStatus>()),
        false,
    )
}

kind! {
    /// What OpenStackMachines are made from.
    OpenStackMachineTemplate, OpenStackMachineTemplateSpec, OpenStackMachineTemplateStatus, schema, Descriptor {
        group: "infrastructure.cluster.x-k8s.io", version: "v1beta2", kind: "OpenStackMachineTemplate",
        plural: "openstackmachinetemplates", singular: "openstackmachinetemplate", short_names: &["osmt"],
        categories: &["cluster-api"], namespaced: true, status_subresource: true, scale: None, deprecation: None, columns: COLUMNS,
    }
}

wire! {
    /// What a template has. `template.spec` is immutable.
    OpenStackMachineTemplateSpec {
        required {
            /// The OpenStackMachines to be.
            template: OpenStackMachineTemplateResource,
        }
    }

    /// OpenStackMachines to be.
    OpenStackMachineTemplateResource {
        required {
            /// What is wanted of them.
            spec: OpenStackMachineSpec,
        }
    }

    /// What is known of servers made from a template, for an autoscaler that has none to look at.
    OpenStackMachineTemplateStatus {
        optional {
            /// Their resources.
            capacity: BTreeMap<String, Quantity>,
            /// Conditions.
            #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
            conditions: Vec<Condition>,
            /// Their Nodes.
            #[schemars(extend("minProperties" = 1))]
            node_info: TemplateNodeInfo,
        }
    }

    /// What a Node will say of itself.
    TemplateNodeInfo {
        optional {
            /// Operating system, e.g. `linux`.
            operating_system: String,
        }
    }
}
