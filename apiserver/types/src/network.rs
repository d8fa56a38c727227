//! Neutron parameters of several kinds: networks, subnets, ports and filters.

use crate::object::wire;

/// Pattern of a tag in a filter. Neutron separates tags by commas, so a tag contains no comma.
pub(crate) const NEUTRON_TAG: &str = "^[^,]+$";

wire! {
    /// Neutron port that is created.
    PortOpts {
        optional {
            /// Administrative state of the port. If false, the port passes no traffic. Default: true.
            admin_state_up: bool,
            /// Additional addresses that the port can send from.
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            allowed_address_pairs: Vec<AddressPair>,
            /// Description of the resource in Neutron.
            description: String,
            /// Port security. If false, Neutron does not check addresses and applies no security groups.
            enable_port_security: bool,
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
            /// Security groups of the port. They replace the managed group of its role. The security groups of
            /// the server are added.
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            security_groups: Vec<NetworkOrSGParam>,
            /// Neutron tags of the port.
            #[schemars(extend("x-kubernetes-list-type" = "set"))]
            tags: Vec<String>,
            /// Trunk mode: the port is the parent of a trunk. Default: the setting of the server.
            trunk: bool,
            /// Additional parameters that are sent to Neutron unchanged.
            #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            value_specs: Vec<ValueSpec>,
            /// Type of the virtual network interface, e.g. `normal` or `direct`. Default: `normal`.
            vnic_type: String,
        }
    }

    /// Fixed IP address of a port.
    FixedIp {
        optional {
            /// IP address. Default: chosen by Neutron from the subnet.
            ip_address: String,
            /// Subnet of the address. Default: chosen by Neutron from the network of the port.
            subnet: SubnetParam,
        }
    }

    /// Address that a port can send from, with an optional MAC address.
    AddressPair {
        required {
            /// IP address, or address range in CIDR notation.
            #[schemars(length(min = 1))]
            ip_address: String,
        }
        optional {
            /// MAC address. Default: the MAC address of the port.
            mac_address: String,
        }
    }

    /// Binding profile of a port, for hardware offload and virtual functions.
    BindingProfile {
        optional {
            /// Open vSwitch hardware offload. If true, it is requested. Default: false.
            #[serde(rename = "ovsHWOffload")]
            ovs_hw_offload: bool,
            /// Trust mode of the virtual function. If true, it is trusted. Default: false.
            #[serde(rename = "trustedVF")]
            trusted_vf: bool,
        }
    }

    /// Additional parameter that is sent to Neutron unchanged.
    ValueSpec {
        required {
            /// Key of the parameter in the Neutron request.
            #[schemars(length(min = 1))]
            key: String,
            /// Name of the entry. It is not sent to Neutron.
            #[schemars(length(min = 1))]
            name: String,
            /// Value of the parameter.
            #[schemars(length(min = 1))]
            value: String,
        }
    }

    /// Network, router or security group, by id or by filter. Exactly one field is set.
    #[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
    NetworkOrSGParam {
        optional {
            /// Selection by attributes.
            #[schemars(extend("minProperties" = 1))]
            filter: NetworkOrSGFilter,
            /// Neutron id, which is a UUID.
            #[schemars(extend("format" = "uuid"))]
            id: String,
        }
    }

    /// Selection of Neutron resources by attributes. All set attributes match.
    NetworkOrSGFilter {
        optional {
            /// Description of the resource in Neutron. The match is exact.
            description: String,
            /// Name of the resource. The match is exact.
            name: String,
            /// Excluded tags. Resources that have all of these tags do not match.
            #[schemars(inner(length(min = 1), regex(pattern = NEUTRON_TAG)), extend("x-kubernetes-list-type" = "set"))]
            not_tags: Vec<String>,
            /// Excluded tags. Resources that have any of these tags do not match.
            #[schemars(inner(length(min = 1), regex(pattern = NEUTRON_TAG)), extend("x-kubernetes-list-type" = "set"))]
            not_tags_any: Vec<String>,
            /// Id of the project that owns the resource.
            #[serde(rename = "projectID")]
            project_id: String,
            /// Required tags. Resources that have all of these tags match.
            #[schemars(inner(length(min = 1), regex(pattern = NEUTRON_TAG)), extend("x-kubernetes-list-type" = "set"))]
            tags: Vec<String>,
            /// Alternative tags. Resources that have at least one of these tags match.
            #[schemars(inner(length(min = 1), regex(pattern = NEUTRON_TAG)), extend("x-kubernetes-list-type" = "set"))]
            tags_any: Vec<String>,
        }
    }

    /// Subnet, by id or by filter. Exactly one field is set.
    #[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
    SubnetParam {
        optional {
            /// Selection by attributes.
            #[schemars(extend("minProperties" = 1))]
            filter: SubnetFilter,
            /// Neutron id, which is a UUID.
            #[schemars(extend("format" = "uuid"))]
            id: String,
        }
    }

    /// Selection of subnets by attributes. All set attributes match.
    SubnetFilter {
        optional {
            /// Address range of the subnet, in CIDR notation.
            cidr: String,
            /// Description of the resource in Neutron. The match is exact.
            description: String,
            /// IP address of the subnet's gateway.
            #[serde(rename = "gatewayIP")]
            gateway_ip: String,
            /// IP version of the subnet: 4 or 6.
            ip_version: i32,
            /// IPv6 address mode of the subnet, e.g. `slaac`.
            #[serde(rename = "ipv6AddressMode")]
            ipv6_address_mode: String,
            /// IPv6 router advertisement mode of the subnet, e.g. `slaac`.
            #[serde(rename = "ipv6RAMode")]
            ipv6_ra_mode: String,
            /// Name of the subnet. The match is exact.
            name: String,
            /// Excluded tags. Resources that have all of these tags do not match.
            #[schemars(inner(length(min = 1), regex(pattern = NEUTRON_TAG)), extend("x-kubernetes-list-type" = "set"))]
            not_tags: Vec<String>,
            /// Excluded tags. Resources that have any of these tags do not match.
            #[schemars(inner(length(min = 1), regex(pattern = NEUTRON_TAG)), extend("x-kubernetes-list-type" = "set"))]
            not_tags_any: Vec<String>,
            /// Id of the project that owns the resource.
            #[serde(rename = "projectID")]
            project_id: String,
            /// Required tags. Resources that have all of these tags match.
            #[schemars(inner(length(min = 1), regex(pattern = NEUTRON_TAG)), extend("x-kubernetes-list-type" = "set"))]
            tags: Vec<String>,
            /// Alternative tags. Resources that have at least one of these tags match.
            #[schemars(inner(length(min = 1), regex(pattern = NEUTRON_TAG)), extend("x-kubernetes-list-type" = "set"))]
            tags_any: Vec<String>,
        }
    }

    /// Neutron port that was created.
    PortStatus {
        required {
            /// Neutron id of the port.
            #[schemars(length(min = 1))]
            id: String,
        }
    }

    /// Parameters of a port, with all names and filters resolved to ids.
    ResolvedPortSpec {
        required {
            /// Name of the port.
            #[schemars(length(min = 1))]
            name: String,
            /// Neutron id of the port's network.
            #[serde(rename = "networkID")]
            #[schemars(length(min = 1))]
            network_id: String,
        }
        optional {
            /// Administrative state of the port. If false, the port passes no traffic. Default: true.
            admin_state_up: bool,
            /// Additional addresses that the port can send from.
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            allowed_address_pairs: Vec<AddressPair>,
            /// Description of the resource in Neutron.
            description: String,
            /// Port security. If false, Neutron does not check addresses and applies no security groups.
            enable_port_security: bool,
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

    /// Fixed IP address of a port, with the subnet resolved to its id.
    ResolvedFixedIp {
        optional {
            /// IP address. Unset if Neutron chooses it.
            ip_address: String,
            /// Neutron id of the subnet.
            subnet: String,
        }
    }
}
