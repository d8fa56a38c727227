//! OpenStackCluster: networks, security groups and API endpoint of a cluster in OpenStack.

mod made;
mod status;

use serde_json::Value;

pub use made::*;
pub use status::*;

use crate::descriptor::{AGE, Column, Descriptor, column};
use crate::network::{NetworkOrSGParam, SubnetParam};
use crate::object::{kind, wire};
use crate::openstack_machine::{OpenStackIdentityReference, OpenStackMachineSpec};
use crate::scalar::Integer;
use crate::schema::{object, structural};
use crate::shared::ApiEndpoint;

const COLUMNS: &[Column] = &[
    column(
        "Cluster",
        "string",
        ".metadata.labels.cluster\\.x-k8s\\.io/cluster-name",
        "Cluster that this infrastructure belongs to.",
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
    let description = "Networks, security groups and API endpoint of a cluster in OpenStack.";
    object(
        description,
        Some(structural::<OpenStackClusterSpec>()),
        Some(structural::<OpenStackClusterStatus>()),
        false,
    )
}

kind! {
    /// Networks, security groups and API endpoint of a cluster in OpenStack.
    OpenStackCluster, OpenStackClusterSpec, OpenStackClusterStatus, schema, Descriptor {
        group: "infrastructure.cluster.x-k8s.io", version: "v1beta2", kind: "OpenStackCluster",
        plural: "openstackclusters", singular: "openstackcluster", short_names: &["osc"],
        categories: &["cluster-api"], namespaced: true, status_subresource: true, scale: None, deprecation: None, columns: COLUMNS,
    }
}

wire! {
    /// Desired state of a cluster in OpenStack. Most fields are immutable.
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
            /// Reference to the OpenStack credentials.
            identity_ref: OpenStackIdentityReference,
        }
        optional {
            /// Access to the API server: floating IP, fixed IP or load balancer, and the port.
            api_server: ApiServer,
            /// Bastion host, which gives SSH access to the nodes.
            bastion: Bastion,
            /// Nova availability zones that are offered as failure domains of control plane nodes. Default:
            /// all zones.
            #[schemars(extend("x-kubernetes-list-type" = "set"))]
            control_plane_availability_zones: Vec<String>,
            /// Endpoint of the workload cluster's API server. It is set once, by the user or by Capstan.
            #[schemars(extend("minProperties" = 1))]
            control_plane_endpoint: ApiEndpoint,
            /// Placement of control plane servers. If true, no availability zone is requested and Nova
            /// chooses the zone. Default: false.
            control_plane_omit_availability_zone: bool,
            /// Connection to an external network. If false, the cluster has no router gateway and no floating
            /// IPs. Default: true.
            enable_external_network: bool,
            /// External network of the router and the floating IPs. Required if the cloud has several
            /// external networks.
            external_network: NetworkOrSGParam,
            /// Settings of the network that is created. Used only with `managedSubnets` and without
            /// `network`.
            managed_network: ManagedNetwork,
            /// Settings of the router that is created. Used only with `managedSubnets` and without `router`.
            managed_router: ManagedRouter,
            /// Security groups that are created for the cluster. If unset, none are created.
            managed_security_groups: ManagedSecurityGroups,
            /// Subnets that are created for the cluster, at most one. If unset, existing subnets are used.
            #[schemars(length(max = 1), extend("x-kubernetes-list-type" = "atomic"))]
            managed_subnets: Vec<ManagedSubnet>,
            /// Existing network of the cluster. If unset, the network is created with `managedSubnets`, or
            /// found by its subnets.
            network: NetworkOrSGParam,
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

    /// Access to the API server of a workload cluster.
    ApiServer {
        optional {
            /// Floating IP of the API server. If false, it is reachable only at a fixed IP address. Default:
            /// true.
            #[serde(rename = "enableFloatingIP")]
            enable_floating_ip: bool,
            /// Fixed IP address of the API server, used without a floating IP.
            #[serde(rename = "fixedIP")]
            fixed_ip: String,
            /// Floating IP address of the API server. Default: a new floating IP.
            #[serde(rename = "floatingIP")]
            floating_ip: String,
            /// Octavia load balancer in front of the API servers.
            managed_load_balancer: ManagedLoadBalancer,
            /// TCP port of the API server. Default: 6443.
            #[schemars(with = "Option<Integer>", range(min = 0, max = 65535))]
            port: i32,
        }
    }

    /// Octavia load balancer in front of the API servers.
    ManagedLoadBalancer {
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
            /// Switch of the load balancer. If true, it is created. Default: true.
            #[schemars(extend("default" = true))]
            enabled: bool,
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

    /// Health checks of the load balancer's members.
    LoadBalancerMonitor {
        optional {
            /// Interval between two checks. Unit: seconds.
            #[schemars(range(min = 0))]
            delay: i32,
            /// Number of successful checks until a member counts as online. Range: 0 to 10.
            #[schemars(range(min = 0, max = 10))]
            max_retries: i32,
            /// Number of failed checks until a member counts as offline. Range: 1 to 10.
            #[schemars(range(min = 1, max = 10))]
            max_retries_down: i32,
            /// Timeout of one check. Unit: seconds.
            #[schemars(range(min = 0))]
            timeout: i32,
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
}
