//! OpenStackCluster and its template in v1beta1.

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
use crate::schema::{object, structural};

const COLUMNS: &[Column] = &[
    column("Cluster", "string", ".metadata.labels.cluster\\.x-k8s\\.io/cluster-name"),
    column("Ready", "string", ".status.ready"),
    column("Network", "string", ".status.network.id"),
    Column { priority: 1, ..column("Endpoint", "string", ".spec.controlPlaneEndpoint.host") },
    column("Bastion IP", "string", ".status.bastion.floatingIP"),
    AGE,
];

fn schema() -> Value {
    object(
        "The networks, security groups and endpoint of a cluster in OpenStack.",
        Some(structural::<OpenStackClusterSpec>()),
        Some(structural::<OpenStackClusterStatus>()),
        false,
    )
}

fn template_schema() -> Value {
    let description = "What OpenStackClusters are made from.";
    object(description, Some(structural::<OpenStackClusterTemplateSpec>()), None, false)
}

kind! {
    /// The networks, groups and endpoint of a cluster in OpenStack.
    bare OpenStackCluster, OpenStackClusterSpec, OpenStackClusterStatus, schema, Descriptor {
        group: "infrastructure.cluster.x-k8s.io", version: "v1beta1", kind: "OpenStackCluster",
        plural: "openstackclusters", singular: "openstackcluster", short_names: &["osc"],
        categories: &["cluster-api"], namespaced: true, status_subresource: true, scale: None, deprecation: None, columns: COLUMNS,
    }
}

kind! {
    /// What OpenStackClusters are made from.
    without status OpenStackClusterTemplate, OpenStackClusterTemplateSpec, template_schema, Descriptor {
        group: "infrastructure.cluster.x-k8s.io", version: "v1beta1", kind: "OpenStackClusterTemplate",
        plural: "openstackclustertemplates", singular: "openstackclustertemplate", short_names: &["osct"],
        categories: &["cluster-api"], namespaced: true, status_subresource: false, scale: None, deprecation: None, columns: TEMPLATE_COLUMNS,
    }
}

wire! {
    /// What is wanted of a cluster in OpenStack.
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
            /// Credentials.
            identity_ref: OpenStackIdentityReference,
        }
        optional {
            /// Its API by this address, without a floating IP.
            #[serde(rename = "apiServerFixedIP")]
            api_server_fixed_ip: String,
            /// Its API by this floating IP.
            #[serde(rename = "apiServerFloatingIP")]
            api_server_floating_ip: String,
            /// Its API by a load balancer.
            api_server_load_balancer: ApiServerLoadBalancer,
            /// Its API at this port; 6443 when unset.
            #[schemars(range(min = 0, max = 65535))]
            api_server_port: i32,
            /// A host to get in by.
            bastion: Bastion,
            /// Zones offered as failure domains of control planes.
            #[schemars(extend("x-kubernetes-list-type" = "set"))]
            control_plane_availability_zones: Vec<String>,
            /// Where its API answers; set once.
            control_plane_endpoint: ControlPlaneEndpoint,
            /// Let Nova place control plane servers.
            control_plane_omit_availability_zone: bool,
            /// No floating IP for its API.
            #[serde(rename = "disableAPIServerFloatingIP")]
            disable_api_server_floating_ip: bool,
            /// No external network.
            disable_external_network: bool,
            /// No port security on the network that is made.
            disable_port_security: bool,
            /// The external network.
            external_network: NetworkOrSGParam,
            /// External addresses of the router that is made.
            #[serde(rename = "externalRouterIPs")]
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            external_router_ips: Vec<ExternalRouterIp>,
            /// Make security groups.
            managed_security_groups: ManagedSecurityGroups,
            /// Subnets to make.
            #[schemars(length(max = 1), extend("x-kubernetes-list-type" = "atomic"))]
            managed_subnets: Vec<ManagedSubnet>,
            /// An existing network.
            network: NetworkOrSGParam,
            /// MTU of the network that is made. Unit: bytes.
            #[serde(rename = "networkMTU")]
            network_mtu: i32,
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

    /// Where an API answers.
    ControlPlaneEndpoint {
        required {
            /// Host name or address.
            #[schemars(length(max = 512))]
            host: String,
            /// TCP port.
            port: i32,
        }
    }

    /// An Octavia load balancer.
    ApiServerLoadBalancer {
        required {
            /// Make it.
            #[schemars(extend("default" = true))]
            enabled: bool,
        }
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

    /// Security groups to make.
    ManagedSecurityGroups {
        required {
            /// Let nodes talk to each other without bounds.
            #[schemars(extend("default" = false))]
            allow_all_in_cluster_traffic: bool,
        }
        optional {
            /// Rules for all nodes.
            #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            all_nodes_security_group_rules: Vec<SecurityGroupRuleSpec>,
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
            #[schemars(with = "Option<Vec<ManagedGroup>>")]
            remote_managed_groups: Vec<String>,
        }
    }

    /// A subnet to make.
    ManagedSubnet {
        required {
            /// CIDR.
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
            end: String,
            /// First.
            start: String,
        }
    }

    /// What a template has. Immutable.
    OpenStackClusterTemplateSpec {
        required {
            /// The OpenStackClusters to be.
            template: OpenStackClusterTemplateResource,
        }
    }

    /// OpenStackClusters to be.
    OpenStackClusterTemplateResource {
        required {
            /// What is wanted of them.
            spec: OpenStackClusterSpec,
        }
    }
}
