//! What is observed of a server.

use crate::network::{PortStatus, ResolvedPortSpec};
use crate::object::wire;
use crate::shared::Condition;

wire! {
    /// What was observed of a server.
    OpenStackMachineStatus {
        optional {
            /// Its addresses.
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            addresses: Vec<NodeAddress>,
            /// Conditions.
            #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
            conditions: Vec<Condition>,
            /// Milestones that are passed once.
            initialization: Initialization,
            /// Nova's id of it.
            #[serde(rename = "instanceID")]
            instance_id: String,
            /// Nova's word for its state.
            instance_state: String,
            /// Names resolved to ids.
            resolved: ResolvedMachineSpec,
            /// What was made for it.
            resources: MachineResources,
        }
    }

    /// An address.
    NodeAddress {
        required {
            /// The address.
            address: String,
            /// What kind of address.
            #[serde(rename = "type")]
            kind: String,
        }
    }

    /// Milestones that are passed once.
    Initialization {
        optional {
            /// It was made.
            provisioned: bool,
        }
    }

    /// What was made for a server.
    MachineResources {
        optional {
            /// Ports.
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            ports: Vec<PortStatus>,
        }
    }

    /// Names resolved to ids.
    ResolvedMachineSpec {
        optional {
            /// Flavor.
            #[serde(rename = "flavorID")]
            flavor_id: String,
            /// Image.
            #[serde(rename = "imageID")]
            image_id: String,
            /// Ports.
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            ports: Vec<ResolvedPortSpec>,
            /// Server group.
            #[serde(rename = "serverGroupID")]
            server_group_id: String,
        }
    }
}
