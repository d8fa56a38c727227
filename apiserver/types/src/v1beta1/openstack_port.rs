//! Neutron ports in v1beta1, where port security is switched off and not on.

use crate::network::{BindingProfile, FixedIp, NetworkOrSGParam, ResolvedFixedIp};
use crate::object::wire;

wire! {
    /// A Neutron port to make.
    PortOpts {
        optional {
            /// Whether it is up.
            admin_state_up: bool,
            /// Addresses it may use beside its own.
            allowed_address_pairs: Vec<AddressPair>,
            /// Free text.
            description: String,
            /// No port security.
            disable_port_security: bool,
            /// Its addresses.
            #[serde(rename = "fixedIPs")]
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            fixed_ips: Vec<FixedIp>,
            /// Host to bind to.
            #[serde(rename = "hostID")]
            host_id: String,
            /// MAC address.
            mac_address: String,
            /// End of its name.
            name_suffix: String,
            /// Its network.
            network: NetworkOrSGParam,
            /// Binding profile.
            profile: BindingProfile,
            /// Uplink status propagation.
            propagate_uplink_status: bool,
            /// Security groups of this port.
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            security_groups: Vec<NetworkOrSGParam>,
            /// Tags.
            #[schemars(extend("x-kubernetes-list-type" = "set"))]
            tags: Vec<String>,
            /// Make it a trunk.
            trunk: bool,
            /// Further Neutron parameters.
            #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            value_specs: Vec<ValueSpec>,
            /// vNIC type.
            vnic_type: String,
        }
    }

    /// A pair of addresses a port may use.
    AddressPair {
        required {
            /// Address or CIDR.
            ip_address: String,
        }
        optional {
            /// MAC address.
            mac_address: String,
        }
    }

    /// A further Neutron parameter.
    ValueSpec {
        required {
            /// Key.
            key: String,
            /// Name.
            name: String,
            /// Value.
            value: String,
        }
    }

    /// A port with everything resolved.
    ResolvedPortSpec {
        required {
            /// Free text.
            description: String,
            /// Name.
            name: String,
            /// Network.
            #[serde(rename = "networkID")]
            network_id: String,
        }
        optional {
            /// Whether it is up.
            admin_state_up: bool,
            /// Addresses it may use beside its own.
            allowed_address_pairs: Vec<AddressPair>,
            /// No port security.
            disable_port_security: bool,
            /// Its addresses.
            #[serde(rename = "fixedIPs")]
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            fixed_ips: Vec<ResolvedFixedIp>,
            /// Host to bind to.
            #[serde(rename = "hostID")]
            host_id: String,
            /// MAC address.
            mac_address: String,
            /// Binding profile.
            profile: BindingProfile,
            /// Uplink status propagation.
            propagate_uplink_status: bool,
            /// Security group ids.
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            security_groups: Vec<String>,
            /// Tags.
            #[schemars(extend("x-kubernetes-list-type" = "set"))]
            tags: Vec<String>,
            /// Whether it is a trunk.
            trunk: bool,
            /// Further Neutron parameters.
            #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            value_specs: Vec<ValueSpec>,
            /// vNIC type.
            vnic_type: String,
        }
    }

    /// A port that was made.
    PortStatus {
        required {
            /// Id.
            id: String,
        }
    }
}
