//! Observed state of a server.

use crate::network::{PortStatus, ResolvedPortSpec};
use crate::object::wire;
use crate::shared::Condition;

wire! {
    /// Observed state of a server.
    OpenStackMachineStatus {
        optional {
            /// Addresses of the server.
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            addresses: Vec<NodeAddress>,
            /// Conditions, at most one per type.
            #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
            conditions: Vec<Condition>,
            /// Provisioning milestones. A milestone stays true after it is reached.
            initialization: Initialization,
            /// Nova id of the server.
            #[serde(rename = "instanceID")]
            instance_id: String,
            /// State of the server in Nova, e.g. `ACTIVE`.
            instance_state: String,
            /// Parameters of the server, with all names and filters resolved to ids.
            resolved: ResolvedMachineSpec,
            /// OpenStack resources that were created for the server.
            resources: MachineResources,
        }
    }

    /// Address of a server.
    NodeAddress {
        required {
            /// IP address or host name.
            address: String,
            /// Type of the address: Hostname, InternalIP, ExternalIP, InternalDNS or ExternalDNS.
            #[serde(rename = "type")]
            kind: String,
        }
    }

    /// Provisioning milestones.
    Initialization {
        optional {
            /// True after the infrastructure was provisioned.
            provisioned: bool,
        }
    }

    /// OpenStack resources that were created for a server.
    MachineResources {
        optional {
            /// Ports of the server.
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            ports: Vec<PortStatus>,
        }
    }

    /// Parameters of a server, with all names and filters resolved to ids.
    ResolvedMachineSpec {
        optional {
            /// Nova id of the flavor.
            #[serde(rename = "flavorID")]
            flavor_id: String,
            /// Glance id of the image.
            #[serde(rename = "imageID")]
            image_id: String,
            /// Ports of the server.
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            ports: Vec<ResolvedPortSpec>,
            /// Nova id of the server group.
            #[serde(rename = "serverGroupID")]
            server_group_id: String,
        }
    }
}
