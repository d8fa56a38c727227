//! Resources of a cluster in the cloud: those with its ownership tag, and those that it takes over.
//!
//! If there are several of one name, the one to adopt comes first.

use std::collections::BTreeSet;

use controllers_infrastructure::{
    FloatingIp, FloatingIpQuery, Network, NetworkQuery, Port, PortQuery, Router, SecurityGroup,
    SecurityGroupQuery, Subnet, SubnetQuery,
};
use controllers_runtime::ReconcileError;

use super::adoption::Adopted;
use super::observe::Observer;
use crate::duplicates::{Candidate, sort};
use crate::names;

/// Beginning of the owners of ports that Neutron has for itself on every subnet. They use nothing.
const OF_NEUTRON: [&str; 2] = ["network:dhcp", "network:distributed"];

impl Observer<'_> {
    /// Returns true if a resource has our tag, or is taken over.
    fn is_ours(&self, id: &str, tags: &[String], description: &str) -> bool {
        self.tag.is_on(tags, description) || self.desired.adopted.has(id)
    }

    /// Returns the id of a resource: that of the journal, else that of one that is taken over.
    fn known<'a>(&'a self, kind: &str, id: Option<&'a str>) -> Option<&'a str> {
        id.or_else(|| self.desired.adopted.of_kind(kind))
    }

    /// Sorts resources, after it has looked which of several are in use.
    async fn sorted<T: Candidate>(
        &self,
        mut found: Vec<T>,
        is_used: impl Fn(&Port, &str) -> bool,
    ) -> Result<Vec<T>, ReconcileError> {
        if found.len() > 1 {
            found = without_adopted(found, &self.desired.adopted);
        }
        if found.len() < 2 {
            return Ok(found);
        }
        let ports = self.cloud.ports(&PortQuery::default()).await?;
        let counts = |port: &&Port| !OF_NEUTRON.iter().any(|owner| port.device_owner.starts_with(owner));
        let ports: Vec<&Port> = ports.iter().filter(counts).collect();
        let ids = found.iter().map(Candidate::id);
        let used = ids.filter(|id| ports.iter().any(|port| is_used(port, id))).map(str::to_owned);
        let used: BTreeSet<String> = used.collect();
        sort(&mut found, &used);
        Ok(found)
    }

    /// Finds the networks with our tag, by id or by name: one may have been renamed by hand.
    pub(super) async fn owned_networks(
        &self,
        id: Option<&str>,
        name: &str,
    ) -> Result<Vec<Network>, ReconcileError> {
        for query in by_id_and_name(self.known(names::NETWORK, id), name) {
            let mut found = self.cloud.networks(&query).await?;
            found.retain(|it| self.is_ours(&it.id, &it.tags, &it.description));
            if !found.is_empty() {
                return self.sorted(found, |port, id| port.network_id == id).await;
            }
        }
        Ok(Vec::new())
    }

    /// Finds the subnets with our tag, by id or by name.
    pub(super) async fn owned_subnets(
        &self,
        id: Option<&str>,
        name: &str,
        network: &str,
    ) -> Result<Vec<Subnet>, ReconcileError> {
        for NetworkQuery { id, name, .. } in by_id_and_name(self.known(names::SUBNET, id), name) {
            let network_id = (!network.is_empty()).then(|| network.to_owned());
            let query = SubnetQuery { id, name, network_id, ..SubnetQuery::default() };
            let mut found = self.cloud.subnets(&query).await?;
            found.retain(|it| self.is_ours(&it.id, &it.tags, &it.description));
            if !found.is_empty() {
                return self.sorted(found, has_address_on).await;
            }
        }
        Ok(Vec::new())
    }

    /// Finds the routers with our tag, by id or by name.
    pub(super) async fn owned_routers(
        &self,
        id: Option<&str>,
        name: &str,
    ) -> Result<Vec<Router>, ReconcileError> {
        for query in by_id_and_name(self.known(names::ROUTER, id), name) {
            let mut found = self.cloud.routers(&query).await?;
            found.retain(|it| self.is_ours(&it.id, &it.tags, &it.description));
            if !found.is_empty() {
                return self.sorted(found, |port, id| port.device_id == id).await;
            }
        }
        Ok(Vec::new())
    }

    /// Finds the security groups with our tag, by id or by name.
    pub(super) async fn owned_groups(
        &self,
        id: Option<&str>,
        name: &str,
    ) -> Result<Vec<SecurityGroup>, ReconcileError> {
        for NetworkQuery { id, name, .. } in by_id_and_name(id, name) {
            let query = SecurityGroupQuery { id, name, ..SecurityGroupQuery::default() };
            let mut found = self.cloud.security_groups(&query).await?;
            found.retain(|it| self.is_ours(&it.id, &it.tags, &it.description));
            if !found.is_empty() {
                return self.sorted(found, |port, id| port.security_groups.iter().any(|it| it == id)).await;
            }
        }
        Ok(Vec::new())
    }

    /// Finds the floating IPs with our tag. They have no names. The one at the address `host` comes first.
    pub(super) async fn owned_floating_ips(
        &self,
        host: Option<&str>,
    ) -> Result<Vec<FloatingIp>, ReconcileError> {
        let query =
            FloatingIpQuery { description: Some(self.tag.description()), ..FloatingIpQuery::default() };
        let mut found = self.cloud.floating_ips(&query).await?;
        sort(&mut found, &BTreeSet::new());
        found.sort_by_key(|ip| Some(ip.address.as_str()) != host);
        Ok(found)
    }

    /// Finds the floating IPs with our tag: those that the spec gives, which stay, and those that go with the cluster.
    pub(super) async fn given_and_own_floating_ips(
        &self,
    ) -> Result<(Vec<FloatingIp>, Vec<FloatingIp>), ReconcileError> {
        let found = self.owned_floating_ips(None).await?;
        Ok(found.into_iter().partition(|ip| self.desired.gives(ip)))
    }

    /// Finds the ports of this name with our tag, which keep an address.
    pub(super) async fn owned_vip_ports(&self, name: &str) -> Result<Vec<Port>, ReconcileError> {
        let query = PortQuery { name: Some(name.to_owned()), ..PortQuery::default() };
        let mut found = self.cloud.ports(&query).await?;
        found.retain(|port| self.tag.is_on(&port.tags, &port.description));
        sort(&mut found, &BTreeSet::new());
        Ok(found)
    }
}

/// Returns the resources that were created for the cluster, so that those of users are no duplicates of them. If there are
/// none, returns one that it takes over.
fn without_adopted<T: Candidate>(found: Vec<T>, adopted: &Adopted) -> Vec<T> {
    let (mut adopted, own): (Vec<T>, Vec<T>) = found.into_iter().partition(|it| adopted.has(it.id()));
    if !own.is_empty() {
        return own;
    }
    adopted.truncate(1);
    adopted
}

fn has_address_on(port: &Port, subnet: &str) -> bool {
    port.fixed_ips.iter().any(|ip| ip.subnet_id.as_deref() == Some(subnet))
}

/// Returns the queries for a created resource: by its id, if the journal has it, then by its name.
fn by_id_and_name(id: Option<&str>, name: &str) -> Vec<NetworkQuery> {
    let by_id = id.map(|id| NetworkQuery { id: Some(id.to_owned()), ..NetworkQuery::default() });
    let by_name = NetworkQuery { name: Some(name.to_owned()), ..NetworkQuery::default() };
    by_id.into_iter().chain([by_name]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r2_5_a_resource_of_a_user_that_is_taken_over_is_no_duplicate() {
        let network = |id: &str| Network { id: id.to_owned(), ..Network::default() };
        let annotation = ("capstan.dev/adopt".to_owned(), "network/a,network/b".to_owned());
        let adopted = Adopted::read(Some(&[annotation].into()));
        let left = |ids: &[&str]| -> Vec<String> {
            let found = ids.iter().map(|id| network(id)).collect();
            without_adopted(found, &adopted).into_iter().map(|it| it.id).collect()
        };
        assert_eq!(left(&["a", "c", "d"]), ["c", "d"]);
        assert_eq!(left(&["a", "b"]), ["a"]);
    }
}
