//! Resources of a cluster in the cloud: those with its ownership tag, and those that it takes over.

use controllers_infrastructure::{
    FloatingIp, FloatingIpQuery, Network, NetworkQuery, Router, SecurityGroup, SecurityGroupQuery, Subnet,
    SubnetQuery,
};
use controllers_runtime::ReconcileError;

use super::observe::Observer;
use crate::names;

impl Observer<'_> {
    /// Returns true if a resource has our tag, or is taken over.
    fn is_ours(&self, id: &str, tags: &[String], description: &str) -> bool {
        self.tag.is_on(tags, description) || self.desired.adopted.has(id)
    }

    /// Returns the id of a resource: that of the journal, else that of one that is taken over.
    fn known<'a>(&'a self, kind: &str, id: Option<&'a str>) -> Option<&'a str> {
        id.or_else(|| self.desired.adopted.of_kind(kind))
    }

    /// Finds the network with our tag, by its id or by its name: it may have been renamed by hand.
    pub(super) async fn owned_network(
        &self,
        id: Option<&str>,
        name: &str,
    ) -> Result<Option<Network>, ReconcileError> {
        for query in by_id_and_name(self.known(names::NETWORK, id), name) {
            let found = self.cloud.networks(&query).await?;
            let ours = found.into_iter().find(|it| self.is_ours(&it.id, &it.tags, &it.description));
            if ours.is_some() {
                return Ok(ours);
            }
        }
        Ok(None)
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
            let found = self.cloud.subnets(&query).await?.into_iter();
            let ours: Vec<Subnet> =
                found.filter(|it| self.is_ours(&it.id, &it.tags, &it.description)).collect();
            if !ours.is_empty() {
                return Ok(ours);
            }
        }
        Ok(Vec::new())
    }

    /// Finds the router with our tag, by its id or by its name.
    pub(super) async fn owned_router(
        &self,
        id: Option<&str>,
        name: &str,
    ) -> Result<Option<Router>, ReconcileError> {
        for query in by_id_and_name(self.known(names::ROUTER, id), name) {
            let found = self.cloud.routers(&query).await?;
            let ours = found.into_iter().find(|it| self.is_ours(&it.id, &it.tags, &it.description));
            if ours.is_some() {
                return Ok(ours);
            }
        }
        Ok(None)
    }

    /// Finds the security group with our tag, by its id or by its name.
    pub(super) async fn owned_group(
        &self,
        id: Option<&str>,
        name: &str,
    ) -> Result<Option<SecurityGroup>, ReconcileError> {
        for NetworkQuery { id, name, .. } in by_id_and_name(id, name) {
            let query = SecurityGroupQuery { id, name, ..SecurityGroupQuery::default() };
            let found = self.cloud.security_groups(&query).await?;
            let ours = found.into_iter().find(|it| self.is_ours(&it.id, &it.tags, &it.description));
            if ours.is_some() {
                return Ok(ours);
            }
        }
        Ok(None)
    }

    /// Finds the floating IP with our tag. It has no name, so the tag alone identifies it.
    pub(super) async fn owned_floating_ip(&self) -> Result<Option<FloatingIp>, ReconcileError> {
        let query =
            FloatingIpQuery { description: Some(self.tag.description()), ..FloatingIpQuery::default() };
        Ok(self.cloud.floating_ips(&query).await?.into_iter().next())
    }
}

/// Returns the queries for a created resource: by its id, if the journal has it, then by its name.
fn by_id_and_name(id: Option<&str>, name: &str) -> Vec<NetworkQuery> {
    let by_id = id.map(|id| NetworkQuery { id: Some(id.to_owned()), ..NetworkQuery::default() });
    let by_name = NetworkQuery { name: Some(name.to_owned()), ..NetworkQuery::default() };
    by_id.into_iter().chain([by_name]).collect()
}
