//! Neutron networks, subnets, routers and security groups.

use super::plain;

plain! {
    /// Tags that an object must, or must not, have: Neutron's four tag filters.
    TagQuery {
        /// All of these.
        tags: Vec<String>,
        /// Any of these.
        tags_any: Vec<String>,
        /// Not all of these.
        not_tags: Vec<String>,
        /// None of these.
        not_tags_any: Vec<String>,
    }

    /// Query of networks or routers.
    NetworkQuery {
        /// Exactly this one.
        id: Option<String>,
        /// With this name.
        name: Option<String>,
        /// With this description.
        description: Option<String>,
        /// Of this project.
        project_id: Option<String>,
        /// Only external (`true`) or only internal (`false`) networks.
        external: Option<bool>,
        /// By tags.
        tagged: TagQuery,
    }

    /// Neutron network.
    Network {
        /// Id.
        id: String,
        /// Name.
        name: String,
        /// Tags.
        tags: Vec<String>,
        /// Ids of its subnets.
        subnets: Vec<String>,
        /// Set if it is external.
        external: bool,
        /// Description.
        description: String,
        /// Time of creation.
        created_at: String,
    }

    /// Network to create. `description` contains the owner's tag from the start, because tags can only be
    /// set afterwards.
    NewNetwork {
        /// Name.
        name: String,
        /// Description.
        description: String,
        /// MTU, else the cloud's default.
        mtu: Option<i32>,
        /// Port security, else the cloud's default.
        port_security: Option<bool>,
    }

    /// Query of subnets.
    SubnetQuery {
        /// Exactly this one.
        id: Option<String>,
        /// Of this network.
        network_id: Option<String>,
        /// With this name.
        name: Option<String>,
        /// With this description.
        description: Option<String>,
        /// With this CIDR.
        cidr: Option<String>,
        /// With this gateway.
        gateway_ip: Option<String>,
        /// 4 or 6.
        ip_version: Option<i32>,
        /// Of this project.
        project_id: Option<String>,
        /// With this IPv6 address mode.
        ipv6_address_mode: Option<String>,
        /// With this IPv6 router advertisement mode.
        ipv6_ra_mode: Option<String>,
        /// By tags.
        tagged: TagQuery,
    }

    /// Neutron subnet.
    Subnet {
        /// Id.
        id: String,
        /// Name.
        name: String,
        /// Its network.
        network_id: String,
        /// CIDR.
        cidr: String,
        /// Gateway, if any.
        gateway_ip: Option<String>,
        /// Tags.
        tags: Vec<String>,
        /// DNS servers.
        dns_nameservers: Vec<String>,
        /// Address ranges, first and last.
        allocation_pools: Vec<(String, String)>,
        /// Description.
        description: String,
        /// Time of creation.
        created_at: String,
    }

    /// Subnet to create.
    NewSubnet {
        /// Name.
        name: String,
        /// Description.
        description: String,
        /// Its network.
        network_id: String,
        /// CIDR; its family decides the IP version.
        cidr: String,
        /// DNS servers.
        dns_nameservers: Vec<String>,
        /// Address ranges, first and last.
        allocation_pools: Vec<(String, String)>,
        /// Set if servers form their own IPv6 addresses from what the router announces.
        slaac: bool,
    }

    /// Neutron router.
    Router {
        /// Id.
        id: String,
        /// Name.
        name: String,
        /// Tags.
        tags: Vec<String>,
        /// External network of its gateway, if it has one.
        external_network_id: Option<String>,
        /// Addresses of its gateway.
        external_ips: Vec<String>,
        /// The same addresses with their subnets: subnet id and address.
        external_fixed_ips: Vec<(String, String)>,
        /// Static routes: destination and next hop.
        routes: Vec<(String, String)>,
        /// Description.
        description: String,
        /// Time of creation.
        created_at: String,
    }

    /// Router to create.
    NewRouter {
        /// Name.
        name: String,
        /// Description.
        description: String,
        /// External network of the gateway.
        external_network_id: Option<String>,
        /// Fixed gateway addresses: subnet id and address.
        external_ips: Vec<(String, Option<String>)>,
    }

    /// Query of security groups.
    SecurityGroupQuery {
        /// Exactly this one.
        id: Option<String>,
        /// With this name.
        name: Option<String>,
        /// With this description.
        description: Option<String>,
        /// Of this project.
        project_id: Option<String>,
        /// By tags.
        tagged: TagQuery,
    }

    /// Neutron security group.
    SecurityGroup {
        /// Id.
        id: String,
        /// Name.
        name: String,
        /// Description.
        description: String,
        /// Tags.
        tags: Vec<String>,
        /// Its rules.
        rules: Vec<SecurityGroupRule>,
        /// Time of creation.
        created_at: String,
    }

    /// Rule as Neutron stores it.
    SecurityGroupRule {
        /// Id.
        id: String,
        /// Content.
        rule: NewSecurityGroupRule,
    }

    /// Rule to add, or to compare with.
    NewSecurityGroupRule {
        /// The group it belongs to.
        group_id: String,
        /// `ingress` or `egress`.
        direction: String,
        /// `IPv4` or `IPv6`.
        ether_type: String,
        /// `tcp`, `udp`, a number, ...; `None` is any.
        protocol: Option<String>,
        /// First port.
        port_min: Option<i32>,
        /// Last port.
        port_max: Option<i32>,
        /// Peers in this group.
        remote_group_id: Option<String>,
        /// Peers in this CIDR.
        remote_ip_prefix: Option<String>,
        /// Free text.
        description: String,
    }
}

/// Objects that carry tags: those of Neutron, servers, and load balancers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaggedKind {
    /// `/v2.0/networks`
    Network,
    /// `/v2.0/subnets`
    Subnet,
    /// `/v2.0/routers`
    Router,
    /// `/v2.0/security-groups`
    SecurityGroup,
    /// `/v2.0/ports`
    Port,
    /// `/v2.0/floatingips`
    FloatingIp,
    /// `/v2.0/trunks`
    Trunk,
    /// Nova's `/servers`
    Server,
    /// Octavia's `/lbaas/loadbalancers`
    LoadBalancer,
}
