//! Observed state of a cluster in OpenStack, in v1beta1.

use std::collections::BTreeMap;

use super::openstack_machine::{MachineResources, ResolvedMachineSpec};
use crate::deprecated::DeprecatedCondition;
use crate::object::wire;
use crate::openstack_machine::Initialization;

wire! {
    /// Observed state of a cluster in OpenStack.
    OpenStackClusterStatus {
        required {
            /// Readiness of the infrastructure. True after all resources were created.
            #[schemars(extend("default" = false))]
            ready: bool,
        }
        optional {
            /// Load balancer of the API server.
            api_server_load_balancer: LoadBalancer,
            /// Bastion host of the cluster.
            bastion: BastionStatus,
            /// Security group of the bastion host.
            bastion_security_group: SecurityGroupStatus,
            /// Conditions in the form of v1beta1, at most one per type.
            conditions: Vec<DeprecatedCondition>,
            /// Security group of control plane nodes.
            control_plane_security_group: SecurityGroupStatus,
            /// External network of the cluster.
            external_network: NetworkStatus,
            /// Failure domains of the cluster, which are Nova availability zones, by name.
            failure_domains: BTreeMap<String, FailureDomainSpec>,
            /// Human-readable message of a terminal error. It needs a manual change.
            failure_message: String,
            /// Machine-readable reason of a terminal error, in CamelCase.
            failure_reason: String,
            /// Provisioning milestones. A milestone stays true after it is reached.
            initialization: Initialization,
            /// Network of the cluster, with its subnets.
            network: NetworkStatusWithSubnets,
            /// Router of the cluster.
            router: RouterStatus,
            /// Security group of worker nodes.
            worker_security_group: SecurityGroupStatus,
        }
    }

    /// Failure domain: a part of the infrastructure that can fail as one unit, e.g. an availability zone.
    FailureDomainSpec {
        optional {
            /// Further attributes of the failure domain.
            attributes: BTreeMap<String, String>,
            /// Suitability for control plane Machines. If false, the failure domain holds only workers.
            control_plane: bool,
        }
    }

    /// Load balancer of the API server.
    LoadBalancer {
        required {
            /// Octavia id of the load balancer.
            id: String,
            /// IP address of the load balancer in the cluster network.
            #[serde(rename = "internalIP")]
            internal_ip: String,
            /// IP address at which clients reach the API server.
            ip: String,
            /// Name of the load balancer.
            name: String,
        }
        optional {
            /// Address ranges that can connect to the load balancer, in CIDR notation.
            #[serde(rename = "allowedCIDRs")]
            allowed_cidrs: Vec<String>,
            /// Network of the load balancer's address.
            load_balancer_network: NetworkStatusWithSubnets,
            /// Octavia tags of the load balancer.
            tags: Vec<String>,
        }
    }

    /// Observed state of the bastion host.
    BastionStatus {
        optional {
            /// Floating IP address of the bastion host.
            #[serde(rename = "floatingIP")]
            floating_ip: String,
            /// Nova id of the server.
            id: String,
            /// Fixed IP address of the server.
            ip: String,
            /// Name of the server.
            name: String,
            /// Parameters of the server, with all names and filters resolved to ids.
            resolved: ResolvedMachineSpec,
            /// OpenStack resources that were created for the server.
            resources: MachineResources,
            /// Name of the Nova key pair.
            ssh_key_name: String,
            /// State of the server in Nova, e.g. `ACTIVE`.
            state: String,
        }
    }

    /// Security group of the cluster.
    SecurityGroupStatus {
        required {
            /// Neutron id of the security group.
            id: String,
            /// Name of the security group.
            name: String,
        }
    }

    /// Network of the cluster.
    NetworkStatus {
        required {
            /// Neutron id of the network.
            id: String,
            /// Name of the network.
            name: String,
        }
        optional {
            /// Neutron tags of the network.
            tags: Vec<String>,
        }
    }

    /// Network of the cluster, with its subnets.
    NetworkStatusWithSubnets {
        required {
            /// Neutron id of the network.
            id: String,
            /// Name of the network.
            name: String,
        }
        optional {
            /// Subnets of the network that the cluster uses.
            subnets: Vec<SubnetStatus>,
            /// Neutron tags of the network.
            tags: Vec<String>,
        }
    }

    /// Subnet of the cluster.
    SubnetStatus {
        required {
            /// Address range of the subnet, in CIDR notation.
            cidr: String,
            /// Neutron id of the subnet.
            id: String,
            /// Name of the subnet.
            name: String,
        }
        optional {
            /// Neutron tags of the subnet.
            tags: Vec<String>,
        }
    }

    /// Router of the cluster.
    RouterStatus {
        required {
            /// Neutron id of the router.
            id: String,
            /// Name of the router.
            name: String,
        }
        optional {
            /// External IP addresses of the router.
            ips: Vec<String>,
            /// Neutron tags of the router.
            tags: Vec<String>,
        }
    }
}
