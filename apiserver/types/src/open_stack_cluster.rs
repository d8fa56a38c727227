//! OpenStackCluster: the networks, groups and endpoint of a cluster in OpenStack.

use serde_json::Value;

use crate::descriptor::{AGE, Column, Descriptor, column};
use crate::network::{NetworkOrSGParam, SubnetParam};
use crate::object::{kind, wire};
use crate::open_stack_machine::{
    Initialization, MachineResources, OpenStackIdentityReference, OpenStackMachineSpec, ResolvedMachineSpec,
};
use crate::schema::{object, structural};
use crate::shared::{ApiEndpoint, Condition, FailureDomain, words};

const COLUMNS: &[Column] = &[
    column("Cluster", "string", ".metadata.labels.cluster\\.x-k8s\\.io/cluster-name"),
    column("Network", "string", ".status.network.id"),
    Column { priority: 1, ..column("Endpoint", "string", ".spec.controlPlaneEndpoint.host") },
    column("Bastion IP", "string", ".status.bastion.floatingIP"),
    AGE,
];

fn schema() -> Value {
    let description = "The networks, security groups and endpoint of a cluster in OpenStack.";
    object(
        description,
        Some(structural::<OpenStackClusterSpec>()),
        Some(structural::<OpenStackClusterStatus>()),
        true,
    )
}

kind! {
    /// The networks, groups and endpoint of a cluster in OpenStack.
    OpenStackCluster, OpenStackClusterSpec, OpenStackClusterStatus, Descriptor {
        group: "infrastructure.cluster.x-k8s.io", version: "v1beta2", kind: "OpenStackCluster",
        plural: "openstackclusters", singular: "openstackcluster", short_names: &["osc"],
        categories: &["cluster-api"], namespaced: true, status_subresource: true, scale: None, deprecation: None, columns: COLUMNS, schema,
    }
}

wire! {
    /// What is wanted of a cluster in OpenStack. Immutable, with exceptions.
    #[schemars(extend("x-kubernetes-validations" = [
        {
            "rule": "has(self.enableExternalNetwork) && !self.enableExternalNetwork ? !has(self.bastion) || !has(self.bastion.floatingIP) : true",
            "message": "bastion floating IP cannot be set when enableExternalNetwork is false",
        },
        {
            "rule": "has(self.enableExternalNetwork) && !self.enableExternalNetwork ? has(self.apiServer) && has(self.apiServer.enableFloatingIP) && !self.apiServer.enableFloatingIP : true",
            "message": "apiServer.enableFloatingIP cannot be true when enableExternalNetwork is false",
        },
    ]))]
    OpenStackClusterSpec {
        required {
            /// Credentials.
            identity_ref: OpenStackIdentityReference,
        }
        optional {
            /// How its API is reached.
            api_server: ApiServer,
            /// A host to get in by.
            bastion: Bastion,
            /// Zones offered as failure domains of control planes.
            #[schemars(extend("x-kubernetes-list-type" = "set"))]
            control_plane_availability_zones: Vec<String>,
            /// Where its API answers; set once.
            #[schemars(extend("minProperties" = 1))]
            control_plane_endpoint: ApiEndpoint,
            /// Let Nova place control plane servers.
            control_plane_omit_availability_zone: bool,
            /// Connect to an external network; on when unset.
            enable_external_network: bool,
            /// The external network.
            external_network: NetworkOrSGParam,
            /// How to make the network.
            managed_network: ManagedNetwork,
            /// How to make the router.
            managed_router: ManagedRouter,
            /// Make security groups.
            managed_security_groups: ManagedSecurityGroups,
            /// Subnets to make.
            #[schemars(length(max = 1), extend("x-kubernetes-list-type" = "atomic"))]
            managed_subnets: Vec<ManagedSubnet>,
            /// An existing network.
            network: NetworkOrSGParam,
            /// Where new nodes are, when there are several subnets.
            primary_subnet: SubnetParam,
            /// An existing router.
            router: NetworkOrSGParam,
            /// Existing subnets.
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            subnets: Vec<SubnetParam>,
            /// Tags of everything made.
            #[schemars(extend("x-kubernetes-list-type" = "set"))]
            tags: Vec<String>,
        }
    }

    /// How an API is reached.
    ApiServer {
        optional {
            /// By a floating IP; on when unset.
            #[serde(rename = "enableFloatingIP")]
            enable_floating_ip: bool,
            /// By this address, without a floating IP.
            #[serde(rename = "fixedIP")]
            fixed_ip: String,
            /// By this floating IP.
            #[serde(rename = "floatingIP")]
            floating_ip: String,
            /// By a load balancer.
            managed_load_balancer: ManagedLoadBalancer,
            /// At this port; 6443 when unset.
            #[schemars(range(min = 0, max = 65535), extend("format" = "int32"))]
            port: i32,
        }
    }

    /// An Octavia load balancer.
    ManagedLoadBalancer {
        optional {
            /// More ports.
            #[schemars(extend("x-kubernetes-list-type" = "set"))]
            additional_ports: Vec<i32>,
            /// Who may connect.
            #[serde(rename = "allowedCIDRs")]
            #[schemars(extend("x-kubernetes-list-type" = "set"))]
            allowed_cidrs: Vec<String>,
            /// Its zone.
            availability_zone: String,
            /// Make it.
            #[schemars(extend("default" = true))]
            enabled: bool,
            /// Its flavor.
            flavor: String,
            /// How members are checked.
            monitor: LoadBalancerMonitor,
            /// The network of its address.
            network: NetworkOrSGParam,
            /// Its provider.
            provider: String,
            /// The subnets of its address.
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            subnets: Vec<SubnetParam>,
        }
    }

    /// How members are checked.
    LoadBalancerMonitor {
        optional {
            /// Between checks. Unit: seconds.
            #[schemars(range(min = 0))]
            delay: i32,
            /// Successes until up.
            #[schemars(range(min = 0, max = 10))]
            max_retries: i32,
            /// Failures until down.
            #[schemars(range(min = 1, max = 10))]
            max_retries_down: i32,
            /// Of a check. Unit: seconds.
            #[schemars(range(min = 0))]
            timeout: i32,
        }
    }

    /// A host to get in by.
    #[schemars(extend("x-kubernetes-validations" = [{
        "rule": "!self.enabled || has(self.spec)", "message": "spec is required if bastion is enabled",
    }]))]
    Bastion {
        optional {
            /// Its zone.
            availability_zone: String,
            /// Make it.
            #[schemars(extend("default" = true))]
            enabled: bool,
            /// Its floating IP.
            #[serde(rename = "floatingIP")]
            #[schemars(extend("format" = "ipv4"))]
            floating_ip: String,
            /// Its server.
            spec: OpenStackMachineSpec,
        }
    }

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

    /// What was observed of a cluster in OpenStack.
    OpenStackClusterStatus {
        optional {
            /// Its load balancer.
            api_server_managed_load_balancer: LoadBalancer,
            /// Its bastion.
            bastion: BastionStatus,
            /// The bastion's group.
            bastion_security_group: SecurityGroupStatus,
            /// Conditions.
            #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
            conditions: Vec<Condition>,
            /// The control planes' group.
            control_plane_security_group: SecurityGroupStatus,
            /// The external network.
            external_network: NetworkStatus,
            /// Places that fail as one.
            #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            failure_domains: Vec<FailureDomain>,
            /// Milestones that are passed once.
            initialization: Initialization,
            /// The network.
            network: NetworkStatusWithSubnets,
            /// The router.
            router: RouterStatus,
            /// The workers' group.
            worker_security_group: SecurityGroupStatus,
        }
    }

    /// A load balancer.
    LoadBalancer {
        required {
            /// Id.
            #[schemars(length(min = 1))]
            id: String,
            /// Internal address.
            #[serde(rename = "internalIP")]
            #[schemars(length(min = 1))]
            internal_ip: String,
            /// Address.
            #[schemars(length(min = 1))]
            ip: String,
            /// Name.
            #[schemars(length(min = 1))]
            name: String,
        }
        optional {
            /// Who may connect.
            #[serde(rename = "allowedCIDRs")]
            #[schemars(extend("x-kubernetes-list-type" = "set"))]
            allowed_cidrs: Vec<String>,
            /// The network of its address.
            load_balancer_network: NetworkStatusWithSubnets,
            /// Tags.
            #[schemars(extend("x-kubernetes-list-type" = "set"))]
            tags: Vec<String>,
        }
    }

    /// A bastion.
    BastionStatus {
        optional {
            /// Its floating IP.
            #[serde(rename = "floatingIP")]
            floating_ip: String,
            /// Id.
            id: String,
            /// Address.
            ip: String,
            /// Name.
            name: String,
            /// Names resolved to ids.
            resolved: ResolvedMachineSpec,
            /// What was made for it.
            resources: MachineResources,
            /// Key pair.
            ssh_key_name: String,
            /// Nova's word for its state.
            state: String,
        }
    }

    /// A security group.
    SecurityGroupStatus {
        required {
            /// Id.
            #[schemars(length(min = 1))]
            id: String,
            /// Name.
            #[schemars(length(min = 1))]
            name: String,
        }
    }

    /// A network.
    NetworkStatus {
        required {
            /// Id.
            #[schemars(length(min = 1))]
            id: String,
            /// Name.
            #[schemars(length(min = 1))]
            name: String,
        }
        optional {
            /// Tags.
            #[schemars(extend("x-kubernetes-list-type" = "set"))]
            tags: Vec<String>,
        }
    }

    /// A network with its subnets.
    NetworkStatusWithSubnets {
        required {
            /// Id.
            #[schemars(length(min = 1))]
            id: String,
            /// Name.
            #[schemars(length(min = 1))]
            name: String,
        }
        optional {
            /// Subnets.
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            subnets: Vec<SubnetStatus>,
            /// Tags.
            #[schemars(extend("x-kubernetes-list-type" = "set"))]
            tags: Vec<String>,
        }
    }

    /// A subnet.
    SubnetStatus {
        required {
            /// CIDR.
            #[schemars(length(min = 1))]
            cidr: String,
            /// Id.
            #[schemars(length(min = 1))]
            id: String,
            /// Name.
            #[schemars(length(min = 1))]
            name: String,
        }
        optional {
            /// Tags.
            #[schemars(extend("x-kubernetes-list-type" = "set"))]
            tags: Vec<String>,
        }
    }

    /// A router.
    RouterStatus {
        required {
            /// Id.
            #[schemars(length(min = 1))]
            id: String,
            /// Name.
            #[schemars(length(min = 1))]
            name: String,
        }
        optional {
            /// Addresses.
            #[schemars(extend("x-kubernetes-list-type" = "set"))]
            ips: Vec<String>,
            /// Tags.
            #[schemars(extend("x-kubernetes-list-type" = "set"))]
            tags: Vec<String>,
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
