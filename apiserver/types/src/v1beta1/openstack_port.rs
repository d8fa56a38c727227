//! Neutron ports in v1beta1, with a switch that disables port security.

use crate::network::{BindingProfile, FixedIp, NetworkOrSGParam, ResolvedFixedIp};
use crate::object::wire;

wire! {
    /// Neutron port that is created.
    PortOpts {
        optional {
            /// Administrative state of the port. If false, the port passes no traffic. Default: true.
            admin_state_up: bool,
            /// Additional addresses that the port can send from.
            allowed_address_pairs: Vec<AddressPair>,
            /// Description of the resource in Neutron.
            description: String,
            /// Switch that disables port security. If true, Neutron does not check addresses and applies no
            /// security groups.
            disable_port_security: bool,
            /// Fixed IP addresses or subnets of the port. Default: chosen by Neutron.
            #[serde(rename = "fixedIPs")]
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            fixed_ips: Vec<FixedIp>,
            /// Id of the hypervisor host that the port is bound to.
            #[serde(rename = "hostID")]
            host_id: String,
            /// MAC address. Default: assigned by Neutron.
            mac_address: String,
            /// Suffix of the port's name, after the name of the server. Default: the index of the port.
            name_suffix: String,
            /// Network of the port. Default: the network of the Cluster.
            network: NetworkOrSGParam,
            /// Binding profile of the port.
            profile: BindingProfile,
            /// Uplink status propagation of the port. If true, a virtual function follows the state of its
            /// physical link.
            propagate_uplink_status: bool,
            /// Security groups of the port. They replace the security groups of the server and the managed
            /// group of its role.
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            security_groups: Vec<NetworkOrSGParam>,
            /// Neutron tags of the port.
            #[schemars(extend("x-kubernetes-list-type" = "set"))]
            tags: Vec<String>,
            /// Trunk mode: the port is the parent of a trunk. Default: the setting of the server. Capstan
            /// does not support true yet.
            trunk: bool,
            /// Additional parameters that are sent to Neutron unchanged.
            #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            value_specs: Vec<ValueSpec>,
            /// Type of the virtual network interface, e.g. `normal` or `direct`. Default: `normal`.
            vnic_type: String,
        }
    }

    /// Address that a port can send from, with an optional MAC address.
    AddressPair {
        required {
            /// IP address, or address range in CIDR notation.
            ip_address: String,
        }
        optional {
            /// MAC address. Default: the MAC address of the port.
            mac_address: String,
        }
    }

    /// Additional parameter that is sent to Neutron unchanged.
    ValueSpec {
        required {
            /// Key of the parameter in the Neutron request.
            key: String,
            /// Name of the entry. It is not sent to Neutron.
            name: String,
            /// Value of the parameter.
            value: String,
        }
    }

    /// Parameters of a port, with all names and filters resolved to ids.
    ResolvedPortSpec {
        required {
            /// Description of the resource in Neutron.
            description: String,
            /// Name of the port.
            name: String,
            /// Neutron id of the port's network.
            #[serde(rename = "networkID")]
            network_id: String,
        }
        optional {
            /// Administrative state of the port. If false, the port passes no traffic. Default: true.
            admin_state_up: bool,
            /// Additional addresses that the port can send from.
            allowed_address_pairs: Vec<AddressPair>,
            /// Switch that disables port security. If true, Neutron does not check addresses and applies no
            /// security groups.
            disable_port_security: bool,
            /// Fixed IP addresses or subnets of the port.
            #[serde(rename = "fixedIPs")]
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            fixed_ips: Vec<ResolvedFixedIp>,
            /// Id of the hypervisor host that the port is bound to.
            #[serde(rename = "hostID")]
            host_id: String,
            /// MAC address. Default: assigned by Neutron.
            mac_address: String,
            /// Binding profile of the port.
            profile: BindingProfile,
            /// Uplink status propagation of the port. If true, a virtual function follows the state of its
            /// physical link.
            propagate_uplink_status: bool,
            /// Neutron ids of the port's security groups.
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            security_groups: Vec<String>,
            /// Neutron tags of the port.
            #[schemars(extend("x-kubernetes-list-type" = "set"))]
            tags: Vec<String>,
            /// Trunk mode. If true, the port is the parent of a trunk.
            trunk: bool,
            /// Additional parameters that are sent to Neutron unchanged.
            #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            value_specs: Vec<ValueSpec>,
            /// Type of the virtual network interface, e.g. `normal` or `direct`. Default: `normal`.
            vnic_type: String,
        }
    }

    /// Neutron port that was created.
    PortStatus {
        required {
            /// Neutron id of the port.
            id: String,
        }
    }
}
