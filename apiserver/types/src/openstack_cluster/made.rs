//! What is made for a cluster in OpenStack, and how.

use crate::network::SubnetParam;
use crate::object::wire;
use crate::shared::words;

wire! {
    /// How to make a network.
    #[schemars(extend("x-kubernetes-validations" = [{
        "rule": "self == null || has(self.mtu) || has(self.enablePortSecurity)",
        "message": "managedNetwork must not be empty if set",
    }]))]
    ManagedNetwork {
        optional {
            /// Port security.
            enable_port_security: bool,
            /// MTU. Unit: bytes.
            mtu: i32,
        }
    }

    /// How to make a router.
    #[schemars(extend("x-kubernetes-validations" = [{
        "rule": "has(self.externalIPs)", "message": "managedRouter must not be empty if set",
    }]))]
    ManagedRouter {
        optional {
            /// Its external addresses.
            #[serde(rename = "externalIPs")]
            #[schemars(length(min = 1), extend("x-kubernetes-list-type" = "atomic"))]
            external_ips: Vec<ExternalRouterIp>,
        }
    }

    /// An external address of a router.
    ExternalRouterIp {
        required {
            /// Its subnet.
            subnet: SubnetParam,
        }
        optional {
            /// The address.
            #[serde(rename = "fixedIP")]
            fixed_ip: String,
        }
    }

    /// Security groups to make.
    ManagedSecurityGroups {
        optional {
            /// Let nodes talk to each other without bounds.
            #[schemars(extend("default" = false))]
            allow_all_in_cluster_traffic: bool,
            /// Rules for all nodes.
            #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            cluster_nodes_security_group_rules: Vec<SecurityGroupRuleSpec>,
            /// Rules for control planes.
            #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            control_plane_nodes_security_group_rules: Vec<SecurityGroupRuleSpec>,
            /// Rules for workers.
            #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            worker_nodes_security_group_rules: Vec<SecurityGroupRuleSpec>,
        }
    }

    /// A rule.
    SecurityGroupRuleSpec {
        required {
            /// Which way.
            direction: RuleDirection,
            /// Name.
            #[schemars(length(min = 1))]
            name: String,
        }
        optional {
            /// Free text.
            description: String,
            /// IP version.
            ether_type: EtherType,
            /// Last port.
            port_range_max: i32,
            /// First port.
            port_range_min: i32,
            /// Protocol.
            protocol: String,
            /// Peers in this group.
            #[serde(rename = "remoteGroupID")]
            remote_group_id: String,
            /// Peers in this CIDR.
            #[serde(rename = "remoteIPPrefix")]
            remote_ip_prefix: String,
            /// Peers in the groups made here.
            #[schemars(
                with = "Option<Vec<ManagedGroup>>",
                extend("x-kubernetes-list-type" = "set")
            )]
            remote_managed_groups: Vec<String>,
        }
    }

    /// A subnet to make.
    ManagedSubnet {
        required {
            /// CIDR.
            #[schemars(length(min = 1))]
            cidr: String,
        }
        optional {
            /// Ranges of addresses to hand out.
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            allocation_pools: Vec<AllocationPool>,
            /// DNS servers.
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            dns_nameservers: Vec<String>,
        }
    }

    /// A range of addresses.
    AllocationPool {
        required {
            /// Last.
            #[schemars(length(min = 1))]
            end: String,
            /// First.
            #[schemars(length(min = 1))]
            start: String,
        }
    }
}

words! {
    /// Which way traffic goes.
    RuleDirection {
        /// In.
        #[default]
        #[serde(rename = "ingress")]
        Ingress,
        /// Out.
        #[serde(rename = "egress")]
        Egress,
    }

    /// A security group that is made.
    ManagedGroup {
        /// The bastion's.
        #[serde(rename = "bastion")]
        Bastion,
        /// The control planes'.
        #[default]
        #[serde(rename = "controlplane")]
        ControlPlane,
        /// The workers'.
        #[serde(rename = "worker")]
        Worker,
    }

    /// IP version.
    EtherType {
        /// 4.
        #[default]
        IPv4,
        /// 6.
        IPv6,
    }
}
