//! Quota that the creation of a cluster takes.

use controllers_infrastructure::QuotaService;

use super::desired::{Desired, EndpointWish, NetworkWish, RouterWish, SubnetWish};
use super::observe::Observed;
use crate::preflight::Needs;

/// Rules that Neutron adds to each new group: egress for IPv4 and for IPv6.
const DEFAULT_RULES: usize = 2;

/// Returns what a cluster needs beside what exists already. Pure.
///
/// Ports of DHCP and of the gateway are not counted: not every cloud has the first, and the second is in no project.
pub(super) fn needs(desired: &Desired, observed: &Observed) -> Needs {
    let mut needs = Needs::default();
    network(&mut needs, desired, observed);
    let absent = desired.groups.iter().filter(|wish| !observed.groups.contains_key(&wish.role));
    for wish in absent {
        let rules = wish.rules.len().saturating_add(DEFAULT_RULES);
        let field = "spec.managedSecurityGroups";
        needs.add(QuotaService::Network, "security_group", 1, field);
        needs.add(QuotaService::Network, "security_group_rule", number(rules), field);
    }
    floating_ips(&mut needs, desired, observed);
    load_balancer(&mut needs, desired, observed);
    needs
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn network(needs: &mut Needs, desired: &Desired, observed: &Observed) {
    let neutron = QuotaService::Network;
    if matches!(desired.network, NetworkWish::Managed { .. }) && observed.network.is_none() {
        needs.add(neutron, "network", 1, "spec.managedSubnets");
    }
    if matches!(desired.subnets, SubnetWish::Managed { .. }) && observed.subnets.is_empty() {
        needs.add(neutron, "subnet", 1, "spec.managedSubnets");
    }
    let connects = match desired.router {
        RouterWish::Managed { .. } => observed.external.is_some(),
        RouterWish::Existing(_) => true,
        RouterWish::None | RouterWish::Connected(_) => false,
    };
    if connects && observed.router.is_none() {
        needs.add(neutron, "router", 1, "spec.externalNetwork");
    }
    if connects && !observed.connected {
        needs.add(neutron, "port", 1, "the interface of the router");
    }
}

fn floating_ips(needs: &mut Needs, desired: &Desired, observed: &Observed) {
    let neutron = QuotaService::Network;
    let floats = match &desired.endpoint {
        EndpointWish::Floating(_) => true,
        EndpointWish::LoadBalancer(wish) => wish.floating,
        _ => false,
    };
    if observed.external.is_none() {
        return;
    }
    if floats && observed.floating_ip.is_none() {
        needs.add(neutron, "floatingip", 1, "spec.apiServer.enableFloatingIP");
    }
    let bastion = desired.bastion.as_ref().is_some_and(|bastion| bastion.floating.is_some());
    if bastion && observed.bastion.floating_ip.is_none() {
        needs.add(neutron, "floatingip", 1, "spec.bastion");
    }
}

fn load_balancer(needs: &mut Needs, desired: &Desired, observed: &Observed) {
    let EndpointWish::LoadBalancer(wish) = &desired.endpoint else { return };
    let field = "spec.apiServer.managedLoadBalancer";
    if observed.balancing.vip_port.is_none() {
        needs.add(QuotaService::Network, "port", 1, field);
    }
    if observed.balancing.balancer.is_none() {
        needs.add(QuotaService::LoadBalancer, "load_balancer", 1, field);
        for part in ["listener", "pool", "health_monitor"] {
            needs.add(QuotaService::LoadBalancer, part, number(wish.ports.len()), field);
        }
        // Each pool gets a member for each machine of the control plane, of which there is one at least.
        let machines = observed.balancing.replicas.max(observed.balancing.backends.len()).max(1);
        let members = wish.ports.len().saturating_mul(machines);
        needs.add(QuotaService::LoadBalancer, "member", number(members), field);
    }
}

#[cfg(test)]
mod tests {
    use apiserver_types::OpenStackCluster;
    use controllers_infrastructure::Network;
    use serde_json::json;

    use super::*;

    #[test]
    fn r6_7_a_new_cluster_needs_quota_for_each_part_and_an_existing_one_none() {
        let spec = json!({
            "identityRef": {"name": "s", "cloudName": "c"},
            "managedSubnets": [{"cidr": "10.6.0.0/24"}],
            "managedSecurityGroups": {},
            "apiServer": {"managedLoadBalancer": {"enabled": true, "additionalPorts": [8132]}},
        });
        let desired = Desired::read(&OpenStackCluster::new("c", serde_json::from_value(spec).unwrap()), "c");
        let mut observed = Observed { external: Some(Network::default()), ..Observed::default() };
        observed.balancing.replicas = 3;
        let found = needs(&desired, &observed);
        let amount = |resource: &str| {
            let services = [QuotaService::Network, QuotaService::LoadBalancer];
            services.iter().map(|service| found.of(*service, resource)).sum::<i64>()
        };
        let amounts =
            ["network", "subnet", "router", "security_group", "floatingip", "load_balancer"].map(amount);
        assert_eq!(amounts, [1, 1, 1, 2, 1, 1]);
        let parts = ["port", "listener", "pool", "health_monitor", "member"].map(amount);
        assert_eq!(parts, [2, 2, 2, 2, 6]);
        let rules: usize = desired.groups.iter().map(|group| group.rules.len() + 2).sum();
        assert_eq!(amount("security_group_rule"), number(rules));
        observed.balancing.replicas = 0;
        assert_eq!(needs(&desired, &observed).of(QuotaService::LoadBalancer, "member"), 2);
        observed.network = Some(Network::default());
        assert_eq!(needs(&desired, &observed).of(QuotaService::Network, "network"), 0);
    }
}
