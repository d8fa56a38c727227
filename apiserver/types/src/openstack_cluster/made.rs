//! OpenStack resources that are created for a cluster: network, router, subnets and security groups.

use crate::network::SubnetParam;
use crate::object::wire;
use crate::shared::words;

wire! {
    /// Settings of the network that is created for the cluster.
    #[schemars(extend("x-kubernetes-validations" = [{
        "rule": "self == null || has(self.mtu) || has(self.enablePortSecurity)",
        "message": "managedNetwork must not be empty if set",
    }]))]
    ManagedNetwork {
        optional {
            /// Port security of the network. If false, new ports have no address checks and no security
            /// groups.
            enable_port_security: bool,
            /// Maximum transmission unit of the network. Unit: bytes. Default: chosen by Neutron.
            mtu: i32,
        }
    }

    /// Settings of the router that is created for the cluster.
    #[schemars(extend("x-kubernetes-validations" = [{
        "rule": "has(self.externalIPs)", "message": "managedRouter must not be empty if set",
    }]))]
    ManagedRouter {
        optional {
            /// External addresses of the router.
            #[serde(rename = "externalIPs")]
            #[schemars(length(min = 1), extend("x-kubernetes-list-type" = "atomic"))]
            external_ips: Vec<ExternalRouterIp>,
        }
    }

    /// External address of a router.
    ExternalRouterIp {
        required {
            /// Subnet of the external network that contains the address.
            subnet: SubnetParam,
        }
        optional {
            /// IP address. Default: chosen by Neutron from the subnet.
            #[serde(rename = "fixedIP")]
            fixed_ip: String,
        }
    }

    /// Security groups that are created for the cluster, and their additional rules.
    ManagedSecurityGroups {
        optional {
            /// Traffic between nodes. If true, all of it is allowed. Default: false, which allows only the
            /// ports that Kubernetes needs.
            #[schemars(extend("default" = false))]
            allow_all_in_cluster_traffic: bool,
            /// Additional rules of the security groups of all nodes.
            #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            cluster_nodes_security_group_rules: Vec<SecurityGroupRuleSpec>,
            /// Additional rules of the security group of control plane nodes.
            #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            control_plane_nodes_security_group_rules: Vec<SecurityGroupRuleSpec>,
            /// Additional rules of the security group of worker nodes.
            #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            worker_nodes_security_group_rules: Vec<SecurityGroupRuleSpec>,
        }
    }

    /// Rule of a security group. It allows traffic.
    SecurityGroupRuleSpec {
        required {
            /// Direction of the traffic: `ingress` or `egress`.
            direction: RuleDirection,
            /// Name of the rule, for identification in the spec.
            #[schemars(length(min = 1))]
            name: String,
        }
        optional {
            /// Description of the rule in Neutron.
            description: String,
            /// IP version of the traffic: IPv4 or IPv6.
            ether_type: EtherType,
            /// Last port of the range. For ICMP, the ICMP code.
            port_range_max: i32,
            /// First port of the range. For ICMP, the ICMP type.
            port_range_min: i32,
            /// IP protocol, e.g. `tcp`. Default: any protocol.
            protocol: String,
            /// Neutron id of the security group of the peers.
            #[serde(rename = "remoteGroupID")]
            remote_group_id: String,
            /// Address range of the peers, in CIDR notation.
            #[serde(rename = "remoteIPPrefix")]
            remote_ip_prefix: String,
            /// Managed security groups of the peers: `bastion`, `controlplane` or `worker`.
            #[schemars(
                with = "Option<Vec<ManagedGroup>>",
                extend("x-kubernetes-list-type" = "set")
            )]
            remote_managed_groups: Vec<String>,
        }
    }

    /// Subnet that is created for the cluster.
    ManagedSubnet {
        required {
            /// Address range of the subnet, in CIDR notation.
            #[schemars(length(min = 1))]
            cidr: String,
        }
        optional {
            /// Address ranges from which Neutron allocates addresses. Default: the whole subnet without the
            /// gateway.
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            allocation_pools: Vec<AllocationPool>,
            /// IP addresses of the DNS servers that DHCP announces.
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            dns_nameservers: Vec<String>,
        }
    }

    /// Address range from which Neutron allocates addresses.
    AllocationPool {
        required {
            /// Last IP address of the range.
            #[schemars(length(min = 1))]
            end: String,
            /// First IP address of the range.
            #[schemars(length(min = 1))]
            start: String,
        }
    }
}

words! {
    /// Direction of traffic.
    RuleDirection {
        /// Traffic to the server.
        #[default]
        #[serde(rename = "ingress")]
        Ingress,
        /// Traffic from the server.
        #[serde(rename = "egress")]
        Egress,
    }

    /// Security group that is created for the cluster.
    ManagedGroup {
        /// Security group of the bastion.
        #[serde(rename = "bastion")]
        Bastion,
        /// Security group of control plane nodes.
        #[default]
        #[serde(rename = "controlplane")]
        ControlPlane,
        /// Security group of worker nodes.
        #[serde(rename = "worker")]
        Worker,
    }

    /// IP version of traffic.
    EtherType {
        /// IP version 4.
        #[default]
        IPv4,
        /// IP version 6.
        IPv6,
    }
}
