//! What is observed of a cluster in OpenStack.

use crate::object::wire;
use crate::openstack_machine::{Initialization, MachineResources, ResolvedMachineSpec};
use crate::shared::{Condition, FailureDomain};

wire! {
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
