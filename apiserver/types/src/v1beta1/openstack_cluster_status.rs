//! What v1beta1 reports of an OpenStackCluster.

use std::collections::BTreeMap;

use super::openstack_machine::{MachineResources, ResolvedMachineSpec};
use crate::deprecated::DeprecatedCondition;
use crate::object::wire;
use crate::openstack_machine::Initialization;

wire! {
    /// What was observed of a cluster in OpenStack.
    OpenStackClusterStatus {
        required {
            /// Whether it can be used.
            #[schemars(extend("default" = false))]
            ready: bool,
        }
        optional {
            /// Its load balancer.
            api_server_load_balancer: LoadBalancer,
            /// Its bastion.
            bastion: BastionStatus,
            /// The bastion's group.
            bastion_security_group: SecurityGroupStatus,
            /// Conditions.
            conditions: Vec<DeprecatedCondition>,
            /// The control planes' group.
            control_plane_security_group: SecurityGroupStatus,
            /// The external network.
            external_network: NetworkStatus,
            /// Places that fail as one, by name.
            failure_domains: BTreeMap<String, FailureDomainSpec>,
            /// A failure nothing can mend, for people.
            failure_message: String,
            /// A failure nothing can mend, for machines.
            failure_reason: String,
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

    /// A place that fails as one.
    FailureDomainSpec {
        optional {
            /// Whatever else there is to say.
            attributes: BTreeMap<String, String>,
            /// Whether control planes may be there.
            control_plane: bool,
        }
    }

    /// A load balancer.
    LoadBalancer {
        required {
            /// Id.
            id: String,
            /// Internal address.
            #[serde(rename = "internalIP")]
            internal_ip: String,
            /// Address.
            ip: String,
            /// Name.
            name: String,
        }
        optional {
            /// Who may connect.
            #[serde(rename = "allowedCIDRs")]
            allowed_cidrs: Vec<String>,
            /// The network of its address.
            load_balancer_network: NetworkStatusWithSubnets,
            /// Tags.
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
            id: String,
            /// Name.
            name: String,
        }
    }

    /// A network.
    NetworkStatus {
        required {
            /// Id.
            id: String,
            /// Name.
            name: String,
        }
        optional {
            /// Tags.
            tags: Vec<String>,
        }
    }

    /// A network with its subnets.
    NetworkStatusWithSubnets {
        required {
            /// Id.
            id: String,
            /// Name.
            name: String,
        }
        optional {
            /// Subnets.
            subnets: Vec<SubnetStatus>,
            /// Tags.
            tags: Vec<String>,
        }
    }

    /// A subnet.
    SubnetStatus {
        required {
            /// CIDR.
            cidr: String,
            /// Id.
            id: String,
            /// Name.
            name: String,
        }
        optional {
            /// Tags.
            tags: Vec<String>,
        }
    }

    /// A router.
    RouterStatus {
        required {
            /// Id.
            id: String,
            /// Name.
            name: String,
        }
        optional {
            /// Addresses.
            ips: Vec<String>,
            /// Tags.
            tags: Vec<String>,
        }
    }
}
