//! What there is in the cloud of what a cluster wants.

use std::collections::BTreeMap;
use std::sync::Arc;

use controllers_infrastructure::{
    Cloud, FloatingIp, FloatingIpQuery, Network, NetworkQuery, PortQuery, Router, SecurityGroup,
    SecurityGroupQuery, Subnet, SubnetQuery,
};
use controllers_runtime::{Journal, OwnershipTag, ReconcileError};

use super::desired::{Desired, EndpointWish, NetworkWish, RouterWish, SubnetWish};
use super::rules::Role;
use crate::{names, queries};

/// What there is.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Observed {
    pub journal: Journal,
    pub network: Option<Network>,
    pub subnets: Vec<Subnet>,
    pub external: Option<Network>,
    pub router: Option<Router>,
    /// Addresses asked for on the router: subnet id and address.
    pub gateway_ips: Vec<(String, Option<String>)>,
    /// Whether the router has a port on the subnet made here.
    pub connected: bool,
    pub groups: BTreeMap<Role, SecurityGroup>,
    pub floating_ip: Option<FloatingIp>,
    pub zones: Vec<String>,
    /// The endpoint the spec already has.
    pub endpoint: Option<(String, i32)>,
    /// Whether a rule is there that reads as another: then none is removed as surplus.
    pub rules_read_otherwise: bool,
    /// Whether everything was looked at.
    pub looked: bool,
}

/// Looks at everything that a cluster wants.
pub(super) struct Observer<'a> {
    pub cloud: &'a Arc<dyn Cloud>,
    pub wanted: &'a Desired,
    pub mark: &'a OwnershipTag,
}

impl Observer<'_> {
    /// Looks. `seen` begins with what is known without the cloud.
    pub(super) async fn look(&self, seen: &mut Observed) -> Result<(), ReconcileError> {
        self.network(seen).await?;
        self.subnets(seen).await?;
        self.external(seen).await?;
        self.router(seen).await?;
        for wish in &self.wanted.groups {
            let found =
                self.owned_group(seen.journal.id(names::SECURITY_GROUP, &wish.name), &wish.name).await?;
            if let Some(group) = found {
                seen.groups.insert(wish.role, group);
            }
        }
        self.floating_ip(seen).await?;
        seen.zones = self.cloud.compute_zones().await?;
        seen.looked = true;
        Ok(())
    }

    async fn network(&self, seen: &mut Observed) -> Result<(), ReconcileError> {
        seen.network = match &self.wanted.network {
            NetworkWish::Managed { .. } => {
                self.owned_network(seen.journal.id(names::NETWORK, &self.wanted.name), &self.wanted.name)
                    .await?
            }
            NetworkWish::Existing(query) => Some(self.existing_network(query).await?),
        };
        Ok(())
    }

    async fn existing_network(&self, query: &NetworkQuery) -> Result<Network, ReconcileError> {
        let anything = NetworkQuery { external: Some(false), ..NetworkQuery::default() };
        let query = match &self.wanted.subnets {
            // Nothing is said of the network itself: it is the one its subnets are on.
            SubnetWish::Existing(subnets) if *query == anything => {
                let first = subnets.first().cloned().unwrap_or_default();
                let subnet =
                    one(self.cloud.subnets(&first).await?, "spec.subnets[0]", &queries::words(&first))?;
                NetworkQuery { id: Some(subnet.network_id), ..NetworkQuery::default() }
            }
            _ => query.clone(),
        };
        one(self.cloud.networks(&query).await?, "spec.network", &queries::words(&query))
    }

    async fn subnets(&self, seen: &mut Observed) -> Result<(), ReconcileError> {
        let Some(network) = &seen.network else { return Ok(()) };
        let on_it = SubnetQuery { network_id: Some(network.id.clone()), ..SubnetQuery::default() };
        seen.subnets = match &self.wanted.subnets {
            SubnetWish::Managed { .. } => {
                let id = seen.journal.id(names::SUBNET, &self.wanted.name);
                self.owned_subnets(id, &self.wanted.name, &network.id).await?
            }
            SubnetWish::All => self.cloud.subnets(&on_it).await?,
            SubnetWish::Existing(queries) => {
                let mut subnets = Vec::new();
                for (index, query) in queries.iter().enumerate() {
                    let query = SubnetQuery { network_id: Some(network.id.clone()), ..query.clone() };
                    let found = self.cloud.subnets(&query).await?;
                    subnets.push(one(found, &format!("spec.subnets[{index}]"), &queries::words(&query))?);
                }
                subnets
            }
        };
        Ok(())
    }

    async fn external(&self, seen: &mut Observed) -> Result<(), ReconcileError> {
        let Some(query) = &self.wanted.external else { return Ok(()) };
        let found = self.cloud.networks(query).await?;
        let unnamed = *query == NetworkQuery { external: Some(true), ..NetworkQuery::default() };
        if unnamed && found.is_empty() {
            // Nobody named one, and this cloud has none: so there is no way out.
            return Ok(());
        }
        seen.external = Some(one(found, "spec.externalNetwork", &queries::words(query))?);
        Ok(())
    }

    async fn router(&self, seen: &mut Observed) -> Result<(), ReconcileError> {
        seen.router = match &self.wanted.router {
            RouterWish::None => return Ok(()),
            RouterWish::Existing(query) => {
                Some(one(self.cloud.routers(query).await?, "spec.router", &queries::words(query))?)
            }
            RouterWish::Managed { external_ips } => {
                for (index, (query, address)) in external_ips.iter().enumerate() {
                    let field = format!("spec.managedRouter.externalIPs[{index}].subnet");
                    let subnet = one(self.cloud.subnets(query).await?, &field, &queries::words(query))?;
                    seen.gateway_ips.push((subnet.id, address.clone()));
                }
                self.owned_router(seen.journal.id(names::ROUTER, &self.wanted.name), &self.wanted.name)
                    .await?
            }
        };
        let (Some(router), Some(subnet)) = (&seen.router, seen.subnets.first()) else { return Ok(()) };
        seen.connected = self.connected(&router.id, &subnet.id).await?;
        if seen.connected && seen.journal.has(names::ROUTER_INTERFACE, &self.wanted.name) {
            // The subnet is made here, so nobody else has connected it.
            let id = format!("{}/{}", router.id, subnet.id);
            seen.journal.learn(names::ROUTER_INTERFACE, &self.wanted.name, &id);
        }
        Ok(())
    }

    async fn floating_ip(&self, seen: &mut Observed) -> Result<(), ReconcileError> {
        seen.floating_ip = match &self.wanted.endpoint {
            EndpointWish::Floating(Some(address)) | EndpointWish::Given { host: address, floating: true } => {
                let query = FloatingIpQuery { address: Some(address.clone()), ..FloatingIpQuery::default() };
                // A host name is not an address; then there is nothing to look for.
                let is_address = address.parse::<std::net::IpAddr>().is_ok();
                if is_address { self.cloud.floating_ips(&query).await?.into_iter().next() } else { None }
            }
            EndpointWish::Floating(None) => self.owned_floating_ip().await?,
            _ => None,
        };
        Ok(())
    }

    /// Whether a router has a port on a subnet.
    pub(super) async fn connected(&self, router: &str, subnet: &str) -> Result<bool, ReconcileError> {
        let query = PortQuery { device_id: Some(router.to_owned()), ..PortQuery::default() };
        let ports = self.cloud.ports(&query).await?;
        let on_subnet = |ip: &controllers_infrastructure::FixedIp| ip.subnet_id.as_deref() == Some(subnet);
        Ok(ports.iter().any(|port| port.fixed_ips.iter().any(on_subnet)))
    }

    /// The network that bears our mark, by its id or by its name: it may have been renamed by hand.
    pub(super) async fn owned_network(
        &self,
        id: Option<&str>,
        name: &str,
    ) -> Result<Option<Network>, ReconcileError> {
        for query in by_id_and_name(id, name) {
            let found = self.cloud.networks(&query).await?;
            let ours = found.into_iter().find(|it| self.mark.is_on(&it.tags, &it.description));
            if ours.is_some() {
                return Ok(ours);
            }
        }
        Ok(None)
    }

    /// The subnets that bear our mark, by id or by name.
    pub(super) async fn owned_subnets(
        &self,
        id: Option<&str>,
        name: &str,
        network: &str,
    ) -> Result<Vec<Subnet>, ReconcileError> {
        for NetworkQuery { id, name, .. } in by_id_and_name(id, name) {
            let network_id = (!network.is_empty()).then(|| network.to_owned());
            let query = SubnetQuery { id, name, network_id, ..SubnetQuery::default() };
            let found = self.cloud.subnets(&query).await?.into_iter();
            let ours: Vec<Subnet> = found.filter(|it| self.mark.is_on(&it.tags, &it.description)).collect();
            if !ours.is_empty() {
                return Ok(ours);
            }
        }
        Ok(Vec::new())
    }

    /// The router that bears our mark, by its id or by its name.
    pub(super) async fn owned_router(
        &self,
        id: Option<&str>,
        name: &str,
    ) -> Result<Option<Router>, ReconcileError> {
        for query in by_id_and_name(id, name) {
            let found = self.cloud.routers(&query).await?;
            let ours = found.into_iter().find(|it| self.mark.is_on(&it.tags, &it.description));
            if ours.is_some() {
                return Ok(ours);
            }
        }
        Ok(None)
    }

    /// The security group that bears our mark, by its id or by its name.
    pub(super) async fn owned_group(
        &self,
        id: Option<&str>,
        name: &str,
    ) -> Result<Option<SecurityGroup>, ReconcileError> {
        for NetworkQuery { id, name, .. } in by_id_and_name(id, name) {
            let query = SecurityGroupQuery { id, name, ..SecurityGroupQuery::default() };
            let found = self.cloud.security_groups(&query).await?;
            let ours = found.into_iter().find(|it| self.mark.is_on(&it.tags, &it.description));
            if ours.is_some() {
                return Ok(ours);
            }
        }
        Ok(None)
    }

    /// The floating IP that bears our mark. It has no name, so the mark alone finds it.
    pub(super) async fn owned_floating_ip(&self) -> Result<Option<FloatingIp>, ReconcileError> {
        let query =
            FloatingIpQuery { description: Some(self.mark.description()), ..FloatingIpQuery::default() };
        Ok(self.cloud.floating_ips(&query).await?.into_iter().next())
    }
}

/// What is known of a cluster without the cloud.
pub(super) fn begin(journal: Journal, endpoint: Option<(String, i32)>) -> Observed {
    Observed { journal, endpoint, ..Observed::default() }
}

/// The journal's entries for all that is to be made, so that they are written before anything is.
pub(super) fn intended(wanted: &Desired) -> Vec<(&'static str, String)> {
    let mut entries = Vec::new();
    if matches!(wanted.network, NetworkWish::Managed { .. }) {
        entries.push((names::NETWORK, wanted.name.clone()));
    }
    if matches!(wanted.subnets, SubnetWish::Managed { .. }) {
        entries.push((names::SUBNET, wanted.name.clone()));
    }
    match wanted.router {
        RouterWish::Managed { .. } => entries.push((names::ROUTER, wanted.name.clone())),
        RouterWish::Existing(_) => entries.push((names::ROUTER_INTERFACE, wanted.name.clone())),
        RouterWish::None => {}
    }
    entries.extend(wanted.groups.iter().map(|wish| (names::SECURITY_GROUP, wish.name.clone())));
    if matches!(wanted.endpoint, EndpointWish::Floating(_)) {
        entries.push((names::FLOATING_IP, wanted.name.clone()));
    }
    entries
}

/// The questions for something of ours: by its id, if that was written down, then by its name.
fn by_id_and_name(id: Option<&str>, name: &str) -> Vec<NetworkQuery> {
    let by_id = id.map(|id| NetworkQuery { id: Some(id.to_owned()), ..NetworkQuery::default() });
    let by_name = NetworkQuery { name: Some(name.to_owned()), ..NetworkQuery::default() };
    by_id.into_iter().chain([by_name]).collect()
}

/// Exactly one, or why not.
fn one<T>(mut found: Vec<T>, field: &str, wanted: &str) -> Result<T, ReconcileError> {
    match found.len() {
        1 => Ok(found.remove(0)),
        count => Err(ReconcileError::unresolved(count, field, wanted)),
    }
}
