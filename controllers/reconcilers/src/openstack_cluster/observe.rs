//! Observation of an OpenStackCluster's resources in the cloud.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use controllers_infrastructure::{
    Cloud, CloudError, FloatingIp, Network, NetworkQuery, Port, PortQuery, Router, SecurityGroup, Subnet,
    SubnetQuery,
};
use controllers_runtime::{Journal, OwnershipTag, ReconcileError};

use super::adoption::check_free;
use super::balancer::{BalancerView, BalancerWish};
use super::bastion::BastionView;
use super::desired::{Desired, EndpointWish, NetworkWish, RouterWish, SubnetWish};
use super::drift::Drift;
use super::rules::{Role, RuleContext};
use crate::duplicates::{Candidate, Duplicate, adopt};
use crate::lost_calls::LostCalls;
use crate::{endpoint_hosts, names, queries};

/// Number of ids in an error about several resources: enough to find them, and short enough for a condition.
const LISTED: usize = 5;

/// Observed cloud resources.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Observed {
    pub journal: Journal,
    /// Project of the resources; `None` if it is not to be written.
    pub project: Option<String>,
    pub network: Option<Network>,
    pub subnets: Vec<Subnet>,
    /// Subnet of the cluster's own addresses, if the spec names one.
    pub primary: Option<Subnet>,
    pub external: Option<Network>,
    pub router: Option<Router>,
    /// Requested addresses of the router: subnet id and address.
    pub gateway_ips: Vec<(String, Option<String>)>,
    /// Refusal of the gateway in this pass, because of the state of the cloud.
    pub gateway_refused: Option<CloudError>,
    /// The router has a port on the subnet that Capstan created.
    pub connected: bool,
    /// Machines of the cluster have resources in the cloud. It is looked up only if a part of the network is lost.
    pub has_machines: bool,
    pub groups: BTreeMap<Role, SecurityGroup>,
    pub floating_ip: Option<FloatingIp>,
    /// Resources of a name and tag of which another one is adopted.
    pub duplicates: Vec<Duplicate>,
    /// Create calls whose answers were lost.
    pub lost_calls: LostCalls,
    pub zones: Vec<String>,
    /// Zones that Machines name, if one of them may not exist any more.
    pub named_zones: BTreeSet<String>,
    /// Hashes of the rules that earlier passes wanted.
    pub applied_rules: BTreeSet<String>,
    /// Tags of the spec that passes have applied, those of earlier specs among them.
    pub applied_tags: BTreeSet<String>,
    /// Values that were set, and corrections, since the spec last changed.
    pub drift: Drift,
    /// Port that keeps the fixed address of the API, if one is desired.
    pub reserved: Option<Port>,
    /// Why the host name of the endpoint has no address.
    pub unresolvable: Option<String>,
    /// Endpoint that the spec already has.
    pub endpoint: Option<(String, i32)>,
    /// A rule exists that Neutron returns as another one; then none is removed as surplus.
    pub rules_read_otherwise: bool,
    /// Load balancer, if one is desired.
    pub balancing: BalancerView,
    /// Bastion, if there is one.
    pub bastion: BastionView,
    /// Warnings of the pass: reasons and messages of Events.
    pub warnings: Vec<(&'static str, String)>,
    /// Age of the copy of the credentials; zero if they are no copy, or if there are none.
    pub credentials_age: Duration,
    /// Time at which the credentials end, if the cloud says so.
    pub credentials_expire_at: Option<String>,
    /// The credentials were accepted, or earlier ones.
    pub logged_in: bool,
    /// Why the present credentials are not in use, but earlier ones.
    pub refused: Option<CloudError>,
    /// Everything has been observed.
    pub complete: bool,
}

impl Observed {
    /// Returns the subnet of the cluster's own addresses: the one that the spec names, else the first.
    pub(super) fn own_subnet(&self) -> Option<&Subnet> {
        self.primary.as_ref().or_else(|| self.subnets.first())
    }

    /// Adopts the first of the resources of a name, and notes its id, which a crash may have left unknown.
    pub(super) fn adopt<T: Candidate>(&mut self, kind: &'static str, name: &str, found: Vec<T>) -> Option<T> {
        let first = adopt(kind, found, &mut self.duplicates)?;
        if self.journal.has(kind, name) {
            self.journal.learn(kind, name, first.id());
        }
        Some(first)
    }

    /// Returns the resources that the rules of security groups name.
    pub(super) fn rule_context<'a>(&'a self, clients: &'a [String]) -> RuleContext<'a> {
        RuleContext { groups: &self.groups, subnets: &self.subnets, clients }
    }

    /// Returns the host of the endpoint at a load balancer: the floating IP, or the address itself.
    pub(super) fn balanced_host(&self, wish: &BalancerWish) -> Option<String> {
        if wish.floating {
            return self.floating_ip.as_ref().map(|ip| ip.address.clone());
        }
        let balancer = self.balancing.balancer.as_ref();
        balancer.map(|balancer| balancer.vip_address.clone()).filter(|address| !address.is_empty())
    }
}

/// Reader of a pass.
pub(super) struct Observer<'a> {
    pub cloud: &'a Arc<dyn Cloud>,
    pub desired: &'a Desired,
    pub tag: &'a OwnershipTag,
}

impl Observer<'_> {
    /// Observes everything. `observed` begins with what is known without the cloud.
    pub(super) async fn observe(&self, observed: &mut Observed) -> Result<(), ReconcileError> {
        self.network(observed).await?;
        self.subnets(observed).await?;
        self.external(observed).await?;
        self.router(observed).await?;
        for wish in &self.desired.groups {
            let id = observed.journal.id(names::SECURITY_GROUP, &wish.name);
            let found = self.owned_groups(id, &wish.name).await?;
            if let Some(group) = observed.adopt(names::SECURITY_GROUP, &wish.name, found) {
                observed.groups.insert(wish.role, group);
            }
        }
        if let Some(wish) = &self.desired.reserved {
            let found = self.owned_vip_ports(&wish.port).await?;
            observed.reserved = observed.adopt(names::VIP_PORT, &wish.port, found);
        }
        self.floating_ip(observed).await?;
        self.bastion(observed).await?;
        if let EndpointWish::LoadBalancer(wish) = &self.desired.endpoint {
            self.balancer(observed, wish).await?;
        }
        observed.zones = self.cloud.compute_zones().await?;
        observed.complete = true;
        Ok(())
    }

    async fn network(&self, observed: &mut Observed) -> Result<(), ReconcileError> {
        observed.network = match &self.desired.network {
            NetworkWish::Managed { .. } => {
                let (id, name) =
                    (observed.journal.id(names::NETWORK, &self.desired.name), &self.desired.name);
                let found = self.owned_networks(id, name).await?;
                let found = observed.adopt(names::NETWORK, name, found);
                if found.is_none() {
                    let query = NetworkQuery { name: Some(name.clone()), ..NetworkQuery::default() };
                    let other = self.cloud.networks(&query).await?;
                    let other = other.first().map(|network| network.id.as_str());
                    check_free(names::NETWORK, name, self.cloud.project(), other)?;
                }
                found
            }
            NetworkWish::Existing(query) => Some(self.existing_network(query).await?),
            NetworkWish::OfSubnets => Some(self.network_of_subnets().await?),
            NetworkWish::Unnamed => {
                let message = "spec names no network. Set managedSubnets to have one created, or name an existing \
                               one in network or subnets";
                return Err(ReconcileError::waiting("NetworkNotFound", message));
            }
        };
        Ok(())
    }

    async fn existing_network(&self, query: &NetworkQuery) -> Result<Network, ReconcileError> {
        one(self.cloud.networks(query).await?, "spec.network", &queries::describe(query))
    }

    /// Finds the network of the first subnet that the spec names.
    async fn network_of_subnets(&self) -> Result<Network, ReconcileError> {
        let SubnetWish::Existing(subnets) = &self.desired.subnets else {
            return Err(ReconcileError::unresolved(0, "spec.subnets", "any subnet"));
        };
        let first = subnets.first().cloned().unwrap_or_default();
        let subnet = one(self.cloud.subnets(&first).await?, "spec.subnets[0]", &queries::describe(&first))?;
        let query = NetworkQuery { id: Some(subnet.network_id), ..NetworkQuery::default() };
        one(self.cloud.networks(&query).await?, "the network of spec.subnets[0]", &queries::describe(&query))
    }

    async fn subnets(&self, observed: &mut Observed) -> Result<(), ReconcileError> {
        let Some(network) = observed.network.clone() else { return Ok(()) };
        let on_it = SubnetQuery { network_id: Some(network.id.clone()), ..SubnetQuery::default() };
        observed.subnets = match &self.desired.subnets {
            SubnetWish::Managed { .. } => {
                let id = observed.journal.id(names::SUBNET, &self.desired.name);
                let found = self.owned_subnets(id, &self.desired.name, &network.id).await?;
                observed.adopt(names::SUBNET, &self.desired.name, found).into_iter().collect()
            }
            SubnetWish::All => {
                let mut all = self.cloud.subnets(&on_it).await?;
                sort_subnets(&mut all);
                all
            }
            SubnetWish::Existing(queries) => {
                let mut subnets = Vec::new();
                for (index, query) in queries.iter().enumerate() {
                    let query = SubnetQuery { network_id: Some(network.id.clone()), ..query.clone() };
                    let found = self.cloud.subnets(&query).await?;
                    subnets.push(one(found, &format!("spec.subnets[{index}]"), &queries::describe(&query))?);
                }
                subnets
            }
        };
        let Some(query) = self.desired.primary.as_ref().filter(|_| !observed.subnets.is_empty()) else {
            return Ok(());
        };
        let query = SubnetQuery { network_id: Some(network.id.clone()), ..query.clone() };
        let found = self.cloud.subnets(&query).await?.into_iter();
        let chosen = found.filter(|found| observed.subnets.iter().any(|subnet| subnet.id == found.id));
        observed.primary = Some(one(chosen.collect(), "spec.primarySubnet", &queries::describe(&query))?);
        Ok(())
    }

    async fn external(&self, observed: &mut Observed) -> Result<(), ReconcileError> {
        let Some(query) = &self.desired.external else { return Ok(()) };
        let found = self.cloud.networks(query).await?;
        let unnamed = *query == NetworkQuery { external: Some(true), ..NetworkQuery::default() };
        if unnamed && found.is_empty() {
            // The spec names none, and the cloud has none, so there is no external network.
            return Ok(());
        }
        let network = one(found, "spec.externalNetwork", &queries::describe(query))?;
        if !network.external {
            let message = format!(
                "spec.externalNetwork: network {} ({}) is not external. Name an external network",
                network.name, network.id
            );
            return Err(ReconcileError::waiting("NotExternal", message));
        }
        observed.external = Some(network);
        Ok(())
    }

    async fn router(&self, observed: &mut Observed) -> Result<(), ReconcileError> {
        observed.router = match &self.desired.router {
            RouterWish::None => return Ok(()),
            RouterWish::Existing(query) | RouterWish::Connected(query) => {
                let words = queries::describe_router(query);
                Some(one(self.cloud.routers(query).await?, "spec.router", &words)?)
            }
            RouterWish::Managed { external_ips } => {
                for (index, (query, address)) in external_ips.iter().enumerate() {
                    let field = format!("spec.managedRouter.externalIPs[{index}].subnet");
                    let subnet = match &query.id {
                        // Neutron hides subnets of external networks from users, and takes their ids.
                        Some(id) => id.clone(),
                        None => one(self.cloud.subnets(query).await?, &field, &queries::describe(query))?.id,
                    };
                    observed.gateway_ips.push((subnet, address.clone()));
                }
                let (id, name) = (observed.journal.id(names::ROUTER, &self.desired.name), &self.desired.name);
                let found = self.owned_routers(id, name).await?;
                let found = observed.adopt(names::ROUTER, name, found);
                if found.is_none() {
                    let query = NetworkQuery { name: Some(name.clone()), ..NetworkQuery::default() };
                    let other = self.cloud.routers(&query).await?;
                    let other = other.first().map(|router| router.id.as_str());
                    check_free(names::ROUTER, name, self.cloud.project(), other)?;
                }
                found
            }
        };
        let (Some(router), Some(subnet)) = (&observed.router, observed.subnets.first()) else {
            return Ok(());
        };
        observed.connected = self.connected(&router.id, &subnet.id).await?;
        if observed.connected && observed.journal.has(names::ROUTER_INTERFACE, &self.desired.name) {
            // Capstan created the subnet, so no one else has connected it.
            let id = format!("{}/{}", router.id, subnet.id);
            observed.journal.learn(names::ROUTER_INTERFACE, &self.desired.name, &id);
        }
        Ok(())
    }

    async fn floating_ip(&self, observed: &mut Observed) -> Result<(), ReconcileError> {
        observed.floating_ip = match &self.desired.endpoint {
            EndpointWish::LoadBalancer(wish) => self.floating_ip_of_balancer(observed, wish).await?,
            EndpointWish::Floating(Some(host)) | EndpointWish::Given { host, floating: true } => {
                match endpoint_hosts::addresses(host).await {
                    Ok(addresses) => endpoint_hosts::floating_ip_at(self.cloud.as_ref(), &addresses).await?,
                    Err(why) => {
                        observed.unresolvable =
                            Some(format!("{why}. Correct spec.controlPlaneEndpoint.host"));
                        None
                    }
                }
            }
            EndpointWish::Floating(None) => self.own_floating_ip(observed).await?,
            _ => None,
        };
        Ok(())
    }

    /// Finds the floating IP that was allocated for the API.
    pub(super) async fn own_floating_ip(
        &self,
        observed: &mut Observed,
    ) -> Result<Option<FloatingIp>, ReconcileError> {
        let host = observed.endpoint.as_ref().map(|(host, _)| host.as_str());
        let found = self.owned_floating_ips(host).await?;
        Ok(observed.adopt(names::FLOATING_IP, &self.desired.name, found))
    }

    /// Returns true if a router has a port on a subnet.
    pub(super) async fn connected(&self, router: &str, subnet: &str) -> Result<bool, ReconcileError> {
        let query = PortQuery { device_id: Some(router.to_owned()), ..PortQuery::default() };
        let ports = self.cloud.ports(&query).await?;
        let on_subnet = |ip: &controllers_infrastructure::FixedIp| ip.subnet_id.as_deref() == Some(subnet);
        Ok(ports.iter().any(|port| port.fixed_ips.iter().any(on_subnet)))
    }
}

/// Returns what is known without the cloud.
pub(super) fn begin(journal: Journal, endpoint: Option<(String, i32)>) -> Observed {
    Observed { journal, endpoint, ..Observed::default() }
}

/// Returns the journal's entries of all resources that are to be created. They are written first.
pub(super) fn intended(desired: &Desired) -> Vec<(&'static str, String)> {
    let mut entries = Vec::new();
    if matches!(desired.network, NetworkWish::Managed { .. }) {
        entries.push((names::NETWORK, desired.name.clone()));
    }
    if matches!(desired.subnets, SubnetWish::Managed { .. }) {
        entries.push((names::SUBNET, desired.name.clone()));
    }
    match desired.router {
        RouterWish::Managed { .. } => entries.push((names::ROUTER, desired.name.clone())),
        RouterWish::Existing(_) => entries.push((names::ROUTER_INTERFACE, desired.name.clone())),
        RouterWish::None | RouterWish::Connected(_) => {}
    }
    entries.extend(desired.groups.iter().map(|wish| (names::SECURITY_GROUP, wish.name.clone())));
    if desired.bastion.as_ref().is_some_and(|bastion| bastion.floating.is_some()) {
        entries.push((names::FLOATING_IP, super::bastion::FLOATING_IP.to_owned()));
    }
    if let Some(wish) = &desired.reserved {
        entries.push((names::VIP_PORT, wish.port.clone()));
    }
    if matches!(desired.endpoint, EndpointWish::Floating(_)) {
        entries.push((names::FLOATING_IP, desired.name.clone()));
    }
    if let EndpointWish::LoadBalancer(wish) = &desired.endpoint {
        entries.push((names::VIP_PORT, wish.vip_name()));
        entries.push((names::LOAD_BALANCER, wish.name.clone()));
        if wish.floating {
            entries.push((names::FLOATING_IP, desired.name.clone()));
        }
    }
    entries
}

/// Sorts subnets: IPv4 comes first, then the oldest. Neutron's order may change.
pub(super) fn sort_subnets(subnets: &mut [Subnet]) {
    let key = |it: &Subnet| (it.cidr.contains(':'), it.created_at.clone(), it.id.clone());
    subnets.sort_by_key(key);
}

/// Returns the only element, or an error.
pub(super) fn one<T: Identified>(mut found: Vec<T>, field: &str, desired: &str) -> Result<T, ReconcileError> {
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(ReconcileError::unresolved(0, field, desired)),
        count => {
            let ids: Vec<&str> = found.iter().take(LISTED).map(Identified::id).collect();
            let desired = format!("{desired}: {}", ids.join(", "));
            Err(ReconcileError::unresolved(count, field, &desired))
        }
    }
}

/// Resource with an id.
pub(super) trait Identified {
    /// Returns the id.
    fn id(&self) -> &str;
}

impl Identified for Network {
    fn id(&self) -> &str {
        &self.id
    }
}

impl Identified for Subnet {
    fn id(&self) -> &str {
        &self.id
    }
}

impl Identified for Router {
    fn id(&self) -> &str {
        &self.id
    }
}
