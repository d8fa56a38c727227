//! OpenStackCluster and OpenStackClusterTemplate in v1beta1.

use serde_json::Value;

use super::openstack_cluster_status::OpenStackClusterStatus;
use super::openstack_machine::{OpenStackIdentityReference, OpenStackMachineSpec};
use crate::descriptor::{AGE, Column, Descriptor, column};
use crate::network::{NetworkOrSGParam, SubnetParam};
use crate::object::{kind, wire};
use crate::openstack_cluster::{
    EtherType, ExternalRouterIp, LoadBalancerMonitor, ManagedGroup, RuleDirection,
};
use crate::openstack_cluster_template::COLUMNS as TEMPLATE_COLUMNS;
use crate::schema::{object, structural, without_int32};

const COLUMNS: &[Column] = &[
    column(
        "Cluster",
        "string",
        ".metadata.labels.cluster\\.x-k8s\\.io/cluster-name",
        "Cluster that this infrastructure belongs to.",
    ),
    column(
        "Ready",
        "string",
        ".status.ready",
        "The infrastructure is complete, so that servers can be created in it.",
    ),
    column("Network", "string", ".status.network.id", "Neutron id of the network of the nodes."),
    Column {
        priority: 1,
        ..column(
            "Endpoint",
            "string",
            ".spec.controlPlaneEndpoint.host",
            "Host of the API server of the workload cluster.",
        )
    },
    column("Bastion IP", "string", ".status.bastion.floatingIP", "Floating IP address of the bastion host."),
    AGE,
];

fn schema() -> Value {
    object(
        "Networks, security groups and API endpoint of a cluster in OpenStack.",
        Some(without_int32(structural::<OpenStackClusterSpec>())),
        Some(structural::<OpenStackClusterStatus>()),
        false,
    )
}

fn template_schema() -> Value {
    let description = "What OpenStackClusters are made from.";
    object(description, Some(without_int32(structural::<OpenStackClusterTemplateSpec>())), None, false)
}

kind! {
    /// Networks, security groups and API endpoint of a cluster in OpenStack.
    bare OpenStackCluster, OpenStackClusterSpec, OpenStackClusterStatus, schema, Descriptor {
        group: "infrastructure.cluster.x-k8s.io", version: "v1beta1", kind: "OpenStackCluster",
        plural: "openstackclusters", singular: "openstackcluster", short_names: &["osc"],
        categories: &["cluster-api"], namespaced: true, status_subresource: true, scale: None, deprecation: None, columns: COLUMNS,
    }
}

kind! {
    /// Template of OpenStackClusters.
    without status OpenStackClusterTemplate, OpenStackClusterTemplateSpec, template_schema, Descriptor {
        group: "infrastructure.cluster.x-k8s.io", version: "v1beta1", kind: "OpenStackClusterTemplate",
        plural: "openstackclustertemplates", singular: "openstackclustertemplate", short_names: &["osct"],
        categories: &["cluster-api"], namespaced: true, status_subresource: false, scale: None, deprecation: None, columns: TEMPLATE_COLUMNS,
    }
}

wire! {
    /// Desired state of a cluster in OpenStack. Most fields are immutable.
    #[schemars(extend("x-kubernetes-validations" = [
        {
            "rule": "has(self.disableExternalNetwork) && self.disableExternalNetwork ? !has(self.bastion) || !has(self.bastion.floatingIP) : true",
            "message": "bastion floating IP cannot be set when disableExternalNetwork is true",
        },
        {
            "rule": "has(self.disableExternalNetwork) && self.disableExternalNetwork ? has(self.disableAPIServerFloatingIP) && self.disableAPIServerFloatingIP : true",
            "message": "disableAPIServerFloatingIP cannot be false when disableExternalNetwork is true",
        },
    ]))]
    OpenStackClusterSpec {
        required {
            /// Reference to the OpenStack credentials.
            identity_ref: OpenStackIdentityReference,
        }
        optional {
            /// Fixed IP address of the API server, used without a floating IP.
            #[serde(rename = "apiServerFixedIP")]
            api_server_fixed_ip: String,
            /// Floating IP address of the API server. Default: a new floating IP.
            #[serde(rename = "apiServerFloatingIP")]
            api_server_floating_ip: String,
            /// Octavia load balancer in front of the API servers.
            api_server_load_balancer: ApiServerLoadBalancer,
            /// TCP port of the API server. Default: 6443.
            #[schemars(range(min = 0, max = 65535))]
            api_server_port: i32,
            /// Bastion host, which gives SSH access to the nodes.
            bastion: Bastion,
            /// Nova availability zones that are offered as failure domains of control plane nodes. Default:
            /// all zones.
            #[schemars(extend("x-kubernetes-list-type" = "set"))]
            control_plane_availability_zones: Vec<String>,
            /// Endpoint of the workload cluster's API server. It is set once, by the user or by Capstan.
            control_plane_endpoint: ControlPlaneEndpoint,
            /// Placement of control plane servers. If true, no availability zone is requested and Nova
            /// chooses the zone. Default: false.
            control_plane_omit_availability_zone: bool,
            /// Switch that disables the floating IP of the API server. Default: false.
            #[serde(rename = "disableAPIServerFloatingIP")]
            disable_api_server_floating_ip: bool,
            /// Switch that disables the connection to an external network. Default: false.
            disable_external_network: bool,
            /// Switch that disables port security on the created network. Default: false.
            disable_port_security: bool,
            /// External network of the router and the floating IPs. Required if the cloud has several
            /// external networks.
            external_network: NetworkOrSGParam,
            /// External addresses of the created router.
            #[serde(rename = "externalRouterIPs")]
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            external_router_ips: Vec<ExternalRouterIp>,
            /// Security groups that are created for the cluster. If unset, none are created.
            managed_security_groups: ManagedSecurityGroups,
            /// Subnets that are created for the cluster, at most one. If unset, existing subnets are used.
            #[schemars(length(max = 1), extend("x-kubernetes-list-type" = "atomic"))]
            managed_subnets: Vec<ManagedSubnet>,
            /// Existing network of the cluster. If unset, the network is created with `managedSubnets`, or
            /// found by its subnets.
            network: NetworkOrSGParam,
            /// Maximum transmission unit of the created network. Unit: bytes. Default: chosen by Neutron.
            #[serde(rename = "networkMTU")]
            network_mtu: i32,
            /// Subnet in which new nodes get their primary address, if the cluster has several subnets.
            primary_subnet: SubnetParam,
            /// Existing router of the cluster. Used only with `managedSubnets`. If unset, a router is
            /// created.
            router: NetworkOrSGParam,
            /// Existing subnets of the cluster. If unset without `managedSubnets`, all subnets of the network
            /// are used.
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            subnets: Vec<SubnetParam>,
            /// Tags of all OpenStack resources that are created for the cluster.
            #[schemars(extend("x-kubernetes-list-type" = "set"))]
            tags: Vec<String>,
        }
    }

    /// Endpoint of an API server.
    ControlPlaneEndpoint {
        optional {
            /// Host name or IP address of the API server.
            #[schemars(length(max = 512))]
            host: String,
            /// TCP port of the API server.
            port: i32,
        }
    }

    /// Octavia load balancer in front of the API servers.
    ApiServerLoadBalancer {
        required {
            /// Switch of the load balancer. If true, it is created. Default: true.
            #[schemars(extend("default" = true))]
            enabled: bool,
        }
        optional {
            /// Additional TCP ports that the load balancer forwards.
            #[schemars(extend("x-kubernetes-list-type" = "set"))]
            additional_ports: Vec<i32>,
            /// Address ranges that can connect to the load balancer, in CIDR notation. Default: all
            /// addresses.
            #[serde(rename = "allowedCIDRs")]
            #[schemars(extend("x-kubernetes-list-type" = "set"))]
            allowed_cidrs: Vec<String>,
            /// Octavia availability zone of the load balancer.
            availability_zone: String,
            /// Flavor of the load balancer.
            flavor: String,
            /// Health checks of the load balancer's members.
            monitor: LoadBalancerMonitor,
            /// Network of the load balancer's address.
            network: NetworkOrSGParam,
            /// Octavia provider, e.g. `amphora` or `ovn`. Default: chosen by Octavia.
            provider: String,
            /// Subnets of the load balancer's address.
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            subnets: Vec<SubnetParam>,
        }
    }

    /// Bastion host, which gives SSH access to the nodes.
    #[schemars(extend("x-kubernetes-validations" = [{
        "rule": "!self.enabled || has(self.spec)", "message": "spec is required if bastion is enabled",
    }]))]
    Bastion {
        optional {
            /// Nova availability zone of the bastion host.
            availability_zone: String,
            /// Switch of the bastion host. Default: true.
            #[schemars(extend("default" = true))]
            enabled: bool,
            /// Floating IP address of the bastion host. Default: a new floating IP.
            #[serde(rename = "floatingIP")]
            #[schemars(extend("format" = "ipv4"))]
            floating_ip: String,
            /// Server of the bastion host. Required if the bastion is enabled.
            spec: OpenStackMachineSpec,
        }
    }

    /// Security groups that are created for the cluster, and their additional rules.
    ManagedSecurityGroups {
        required {
            /// Traffic between nodes. If true, all of it is allowed. Default: false, which allows only the
            /// ports that Kubernetes needs.
            #[schemars(extend("default" = false))]
            allow_all_in_cluster_traffic: bool,
        }
        optional {
            /// Additional rules of the security groups of all nodes.
            #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            all_nodes_security_group_rules: Vec<SecurityGroupRuleSpec>,
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
            #[schemars(with = "Option<Vec<ManagedGroup>>")]
            remote_managed_groups: Vec<String>,
        }
    }

    /// Subnet that is created for the cluster.
    ManagedSubnet {
        required {
            /// Address range of the subnet, in CIDR notation.
            cidr: String,
        }
        optional {
            /// Address ranges from which Neutron allocates addresses. Default: the whole subnet without the
            /// gateway.
            allocation_pools: Vec<AllocationPool>,
            /// IP addresses of the DNS servers that DHCP announces.
            dns_nameservers: Vec<String>,
        }
    }

    /// Address range from which Neutron allocates addresses.
    AllocationPool {
        required {
            /// Last IP address of the range.
            end: String,
            /// First IP address of the range.
            start: String,
        }
    }

    /// Content of an OpenStackClusterTemplate. Immutable.
    OpenStackClusterTemplateSpec {
        required {
            /// Template of the created OpenStackClusters.
            template: OpenStackClusterTemplateResource,
        }
    }

    /// Metadata and spec of the created OpenStackClusters.
    OpenStackClusterTemplateResource {
        required {
            /// Spec of the created objects.
            spec: OpenStackClusterSpec,
        }
    }
}
