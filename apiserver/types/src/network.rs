//! Neutron's things, as several kinds name them: networks, subnets, ports.

use crate::object::wire;

/// What a filter's tag may be: Neutron separates tags by commas.
pub(crate) const NEUTRON_TAG: &str = "^[^,]+$";

wire! {
    /// A Neutron port to make.
    PortOpts {
        optional {
            /// Whether it is up.
            admin_state_up: bool,
            /// Addresses it may use beside its own.
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            allowed_address_pairs: Vec<AddressPair>,
            /// Free text.
            description: String,
            /// Port security.
            enable_port_security: bool,
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

    /// An address of a port.
    FixedIp {
        optional {
            /// The address.
            ip_address: String,
            /// Its subnet.
            subnet: SubnetParam,
        }
    }

    /// A pair of addresses a port may use.
    AddressPair {
        required {
            /// Address or CIDR.
            #[schemars(length(min = 1))]
            ip_address: String,
        }
        optional {
            /// MAC address.
            mac_address: String,
        }
    }

    /// Binding profile.
    BindingProfile {
        optional {
            /// OVS hardware offload.
            #[serde(rename = "ovsHWOffload")]
            ovs_hw_offload: bool,
            /// Trusted VF.
            #[serde(rename = "trustedVF")]
            trusted_vf: bool,
        }
    }

    /// A further Neutron parameter.
    ValueSpec {
        required {
            /// Key.
            #[schemars(length(min = 1))]
            key: String,
            /// Name.
            #[schemars(length(min = 1))]
            name: String,
            /// Value.
            #[schemars(length(min = 1))]
            value: String,
        }
    }

    /// A network, router or security group, by one of these.
    #[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
    NetworkOrSGParam {
        optional {
            /// By attributes.
            #[schemars(extend("minProperties" = 1))]
            filter: NetworkOrSGFilter,
            /// By id.
            #[schemars(extend("format" = "uuid"))]
            id: String,
        }
    }

    /// By attributes.
    NetworkOrSGFilter {
        optional {
            /// Description.
            description: String,
            /// Name.
            name: String,
            /// Not all of these tags.
            #[schemars(inner(length(min = 1), regex(pattern = NEUTRON_TAG)), extend("x-kubernetes-list-type" = "set"))]
            not_tags: Vec<String>,
            /// None of these tags.
            #[schemars(inner(length(min = 1), regex(pattern = NEUTRON_TAG)), extend("x-kubernetes-list-type" = "set"))]
            not_tags_any: Vec<String>,
            /// Project.
            #[serde(rename = "projectID")]
            project_id: String,
            /// All of these tags.
            #[schemars(inner(length(min = 1), regex(pattern = NEUTRON_TAG)), extend("x-kubernetes-list-type" = "set"))]
            tags: Vec<String>,
            /// Any of these tags.
            #[schemars(inner(length(min = 1), regex(pattern = NEUTRON_TAG)), extend("x-kubernetes-list-type" = "set"))]
            tags_any: Vec<String>,
        }
    }

    /// A subnet, by one of these.
    #[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
    SubnetParam {
        optional {
            /// By attributes.
            #[schemars(extend("minProperties" = 1))]
            filter: SubnetFilter,
            /// By id.
            #[schemars(extend("format" = "uuid"))]
            id: String,
        }
    }

    /// By attributes.
    SubnetFilter {
        optional {
            /// CIDR.
            cidr: String,
            /// Description.
            description: String,
            /// Gateway.
            #[serde(rename = "gatewayIP")]
            gateway_ip: String,
            /// 4 or 6.
            ip_version: i32,
            /// IPv6 address mode.
            #[serde(rename = "ipv6AddressMode")]
            ipv6_address_mode: String,
            /// IPv6 router advertisement mode.
            #[serde(rename = "ipv6RAMode")]
            ipv6_ra_mode: String,
            /// Name.
            name: String,
            /// Not all of these tags.
            #[schemars(inner(length(min = 1), regex(pattern = NEUTRON_TAG)), extend("x-kubernetes-list-type" = "set"))]
            not_tags: Vec<String>,
            /// None of these tags.
            #[schemars(inner(length(min = 1), regex(pattern = NEUTRON_TAG)), extend("x-kubernetes-list-type" = "set"))]
            not_tags_any: Vec<String>,
            /// Project.
            #[serde(rename = "projectID")]
            project_id: String,
            /// All of these tags.
            #[schemars(inner(length(min = 1), regex(pattern = NEUTRON_TAG)), extend("x-kubernetes-list-type" = "set"))]
            tags: Vec<String>,
            /// Any of these tags.
            #[schemars(inner(length(min = 1), regex(pattern = NEUTRON_TAG)), extend("x-kubernetes-list-type" = "set"))]
            tags_any: Vec<String>,
        }
    }

    /// A port that was made.
    PortStatus {
        required {
            /// Id.
            #[schemars(length(min = 1))]
            id: String,
        }
    }

    /// A port with everything resolved.
    ResolvedPortSpec {
        required {
            /// Name.
            #[schemars(length(min = 1))]
            name: String,
            /// Network.
            #[serde(rename = "networkID")]
            #[schemars(length(min = 1))]
            network_id: String,
        }
        optional {
            /// Whether it is up.
            admin_state_up: bool,
            /// Addresses it may use beside its own.
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            allowed_address_pairs: Vec<AddressPair>,
            /// Free text.
            description: String,
            /// Port security.
            enable_port_security: bool,
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

    /// An address with its subnet resolved.
    ResolvedFixedIp {
        optional {
            /// The address.
            ip_address: String,
            /// Subnet id.
            subnet: String,
        }
    }
}
