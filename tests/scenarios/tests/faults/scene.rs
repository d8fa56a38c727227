//! Clusters that the tests create, change and delete.

use std::time::Duration;

use controllers_infrastructure::{CloudResult, LoadBalancerQuery, MonitorTimes};
use serde_json::{Value, json};
use tests_scenarios::World;

/// Time in which the simulated Octavia ends a change, after which it accepts the next one.
const OCTAVIA: Duration = Duration::from_millis(50);

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
        let balancer = json!({"allowedCIDRs": ["198.51.100.0/24"]});
        let change = json!({"spec": {
            "managedSubnets": [{"cidr": "10.8.0.0/24", "dnsNameservers": ["192.0.2.54"]}],
            "managedSecurityGroups": {"allNodesSecurityGroupRules": null},
            "apiServer": {"managedLoadBalancer": balancer},
            "bastion": {"enabled": false},
        }});
        (self == Self::WithAllParts).then_some(change)
    }

    /// Changes the monitors of the load balancer, as another user of the project can.
    pub(crate) async fn change_monitors(self, world: &World) -> CloudResult<()> {
        let cloud = world.project().await?;
        for balancer in cloud.load_balancers(&LoadBalancerQuery::default()).await? {
            for pool in cloud.pools(&balancer.id).await? {
                let Some(monitor) = pool.health_monitor_id else { continue };
                let times = MonitorTimes { delay: 60, timeout: 30, max_retries: 2, max_retries_down: 2 };
                cloud.update_health_monitor(&monitor, &times).await?;
                tokio::time::sleep(OCTAVIA).await;
            }
        }
        Ok(())
    }

    /// Returns true if a pool of floating IPs is deleted besides the cluster.
    pub(crate) fn has_pool(self) -> bool {
        self == Self::WithAllParts
    }
}
