//! OpenStackMachineTemplate: what OpenStackMachines are made from.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::descriptor::{AGE, Column, Descriptor};
use crate::object::{kind, wire};
use crate::open_stack_machine::OpenStackMachineSpec;
use crate::schema::{object, structural};
use crate::shared::{Condition, IntOrString};

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
    OpenStackMachineTemplate, OpenStackMachineTemplateSpec, OpenStackMachineTemplateStatus, Descriptor {
        group: "infrastructure.cluster.x-k8s.io", version: "v1beta2", kind: "OpenStackMachineTemplate",
        plural: "openstackmachinetemplates", singular: "openstackmachinetemplate", short_names: &["osmt"],
        categories: &["cluster-api"], namespaced: true, status_subresource: true, scale: None, deprecation: None, columns: COLUMNS, schema,
    }
}

/// An amount of something, e.g. `4` or `16Gi`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quantity(pub IntOrString);

impl JsonSchema for Quantity {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Quantity".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "x-kubernetes-int-or-string": true,
            "pattern": "^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$",
        })
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
