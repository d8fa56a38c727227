//! Clusters that the tests create, change and delete.

use serde_json::{Value, json};
use tests_scenarios::World;

/// Cluster with a part of the kinds of resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scene {
    /// Network, groups, a floating IP, and a machine with volumes.
    Plain,
    /// Also a load balancer, a bastion, a trunk, a server group and a pool of floating IPs.
    WithAllParts,
}

impl Scene {
    pub(crate) const ALL: [Self; 2] = [Self::Plain, Self::WithAllParts];

    pub(crate) fn manifest(self, world: &World, namespace: &str) -> String {
        let text = match self {
            Self::Plain => include_str!("../cluster.yaml"),
            Self::WithAllParts => include_str!("parts.yaml"),
        };
        let clouds = world.cloud.clouds_yaml("demo");
        let clouds: String = clouds.lines().map(|line| format!("    {line}\n")).collect();
        text.replace("NAMESPACE", namespace).replace("CLOUDS\n", &clouds)
    }

    /// Returns a change of the OpenStackCluster for whose effect other calls are needed than for a creation.
    pub(crate) fn change(self) -> Option<Value> {
        let balancer =
            json!({"additionalPorts": null, "allowedCIDRs": ["198.51.100.0/24"], "monitor": {"delay": 11}});
        let change = json!({"spec": {
            "managedSubnets": [{"cidr": "10.8.0.0/24", "dnsNameservers": ["192.0.2.54"]}],
            "managedSecurityGroups": {"allNodesSecurityGroupRules": null},
            "apiServer": {"managedLoadBalancer": balancer},
            "bastion": {"enabled": false},
        }});
        (self == Self::WithAllParts).then_some(change)
    }

    /// Returns true if a pool of floating IPs is deleted besides the cluster.
    pub(crate) fn has_pool(self) -> bool {
        self == Self::WithAllParts
    }
}
