//! Observed state of a cluster in OpenStack.

use crate::object::wire;
use crate::openstack_machine::{Initialization, MachineResources, ResolvedMachineSpec};
use crate::shared::{Condition, FailureDomain};

wire! {
    /// Observed state of a cluster in OpenStack.
    OpenStackClusterStatus {
        optional {
            /// Load balancer of the API server.
            api_server_managed_load_balancer: LoadBalancer,
            /// Bastion host of the cluster.
            bastion: BastionStatus,
            /// Security group of the bastion host.
            bastion_security_group: SecurityGroupStatus,
            /// Conditions, at most one per type.
            #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
            conditions: Vec<Condition>,
            /// Security group of control plane nodes.
            control_plane_security_group: SecurityGroupStatus,
            /// External network of the cluster.
            external_network: NetworkStatus,
            /// Failure domains of the cluster, which are Nova availability zones.
            #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            failure_domains: Vec<FailureDomain>,
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

    /// Load balancer of the API server.
    LoadBalancer {
        required {
            /// Octavia id of the load balancer.
            #[schemars(length(min = 1))]
            id: String,
            /// IP address of the load balancer in the cluster network.
            #[serde(rename = "internalIP")]
            #[schemars(length(min = 1))]
            internal_ip: String,
            /// IP address at which clients reach the API server.
            #[schemars(length(min = 1))]
            ip: String,
            /// Name of the load balancer.
            #[schemars(length(min = 1))]
            name: String,
        }
        optional {
            /// Address ranges that can connect to the load balancer, in CIDR notation.
            #[serde(rename = "allowedCIDRs")]
            #[schemars(extend("x-kubernetes-list-type" = "set"))]
            allowed_cidrs: Vec<String>,
            /// Network of the load balancer's address.
            load_balancer_network: NetworkStatusWithSubnets,
            /// Octavia tags of the load balancer.
            #[schemars(extend("x-kubernetes-list-type" = "set"))]
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
            #[schemars(length(min = 1))]
            id: String,
            /// Name of the security group.
            #[schemars(length(min = 1))]
            name: String,
        }
    }

    /// Network of the cluster.
    NetworkStatus {
        required {
            /// Neutron id of the network.
            #[schemars(length(min = 1))]
            id: String,
            /// Name of the network.
            #[schemars(length(min = 1))]
            name: String,
        }
        optional {
            /// Neutron tags of the network.
            #[schemars(extend("x-kubernetes-list-type" = "set"))]
            tags: Vec<String>,
        }
    }

    /// Network of the cluster, with its subnets.
    NetworkStatusWithSubnets {
        required {
            /// Neutron id of the network.
            #[schemars(length(min = 1))]
            id: String,
            /// Name of the network.
            #[schemars(length(min = 1))]
            name: String,
        }
        optional {
            /// Subnets of the network that the cluster uses.
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            subnets: Vec<SubnetStatus>,
            /// Neutron tags of the network.
            #[schemars(extend("x-kubernetes-list-type" = "set"))]
            tags: Vec<String>,
        }
    }

    /// Subnet of the cluster.
    SubnetStatus {
        required {
            /// Address range of the subnet, in CIDR notation.
            #[schemars(length(min = 1))]
            cidr: String,
            /// Neutron id of the subnet.
            #[schemars(length(min = 1))]
            id: String,
            /// Name of the subnet.
            #[schemars(length(min = 1))]
            name: String,
        }
        optional {
            /// Neutron tags of the subnet.
            #[schemars(extend("x-kubernetes-list-type" = "set"))]
            tags: Vec<String>,
        }
    }

    /// Router of the cluster.
    RouterStatus {
        required {
            /// Neutron id of the router.
            #[schemars(length(min = 1))]
            id: String,
            /// Name of the router.
            #[schemars(length(min = 1))]
            name: String,
        }
        optional {
            /// External IP addresses of the router.
            #[schemars(extend("x-kubernetes-list-type" = "set"))]
            ips: Vec<String>,
            /// Neutron tags of the router.
            #[schemars(extend("x-kubernetes-list-type" = "set"))]
            tags: Vec<String>,
        }
    }
}
