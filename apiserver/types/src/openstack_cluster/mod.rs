//! OpenStackCluster: the networks, groups and endpoint of a cluster in OpenStack.

mod made;
mod status;

use serde_json::Value;

pub use made::*;
pub use status::*;

use crate::descriptor::{AGE, Column, Descriptor, column};
use crate::network::{NetworkOrSGParam, SubnetParam};
use crate::object::{kind, wire};
use crate::openstack_machine::{OpenStackIdentityReference, OpenStackMachineSpec};
use crate::schema::{object, structural};
use crate::shared::ApiEndpoint;

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
    OpenStackCluster, OpenStackClusterSpec, OpenStackClusterStatus, schema, Descriptor {
        group: "infrastructure.cluster.x-k8s.io", version: "v1beta2", kind: "OpenStackCluster",
        plural: "openstackclusters", singular: "openstackcluster", short_names: &["osc"],
        categories: &["cluster-api"], namespaced: true, status_subresource: true, scale: None, deprecation: None, columns: COLUMNS,
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
}
