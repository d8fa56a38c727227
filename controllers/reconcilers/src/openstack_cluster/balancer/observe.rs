//! Observation of a load balancer in the cloud.

use std::net::IpAddr;
use std::time::Duration;

use controllers_infrastructure::{
    CloudError, ErrorClass, FloatingIp, FloatingIpQuery, LoadBalancer, LoadBalancerQuery, NetworkQuery, Port,
    PortQuery, SubnetQuery,
};
use controllers_runtime::ReconcileError;

use super::super::observe::{Observed, Observer, one};
use super::member_address::{is_v6, member_address};
use super::{BalancerView, BalancerWish, ERROR, NAME_TAKEN, PoolView, health};
use crate::{cidrs, endpoint_hosts, names, queries};

/// Timeout of the connection that shows whether a broken load balancer still forwards.
const CONNECT: Duration = Duration::from_secs(2);

impl Observer<'_> {
    /// Finds the load balancer with its parts, or the place of a new one.
    pub(in super::super) async fn balancer(
        &self,
        observed: &mut Observed,
        wish: &BalancerWish,
    ) -> Result<(), ReconcileError> {
        let id = observed.journal.id(names::LOAD_BALANCER, &wish.name).map(str::to_owned);
        let found = self.owned_vip_ports(&wish.vip_name()).await?;
        let vip_port = observed.adopt(names::VIP_PORT, &wish.vip_name(), found);
        let port_id = observed.journal.id(names::VIP_PORT, &wish.vip_name()).map(str::to_owned);
        let view = &mut observed.balancing;
        view.limits = self.cloud.load_balancer_limits().await?;
        view.vip_port = vip_port;
        view.balancer = match self.owned_balancer(id.as_deref(), &wish.name, view.vip_port.as_ref()).await {
            // The other parts of the cluster are created anyway.
            Err(ReconcileError::Waiting { reason: NAME_TAKEN, message }) => {
                view.taken = Some(message);
                None
            }
            result => result?,
        };
        self.lost_port(view, port_id.as_deref()).await?;
        self.named_address(observed, wish).await;
        match &observed.balancing.balancer {
            None if wish.has_place() => match self.place(observed, wish).await {
                // The other parts of the cluster are created anyway.
                Err(ReconcileError::Cloud(error)) if is_unresolved(&error) => {
                    observed.balancing.misplaced = Some(error.to_string());
                }
                place => observed.balancing.place = place?,
            },
            Some(balancer) if balancer.provisioning_status == ERROR => {
                observed.balancing.answers = answers(observed.endpoint.as_ref()).await;
            }
            Some(_) | None => {}
        }
        if wish.has_place() {
            self.network_of_address(&mut observed.balancing).await?;
        }
        if !wish.allowed_cidrs.is_empty() {
            observed.balancing.egress = egress(target(wish, observed).as_ref()).await;
        }
        self.parts(&mut observed.balancing).await?;
        observed.balancing.given_up = health::given_up(wish, self.tag, &observed.balancing);
        self.addresses(observed).await
    }

    /// Notes if our port, which the load balancer still has, does not exist any more. A port of Octavia goes with its load
    /// balancer.
    async fn lost_port(&self, view: &mut BalancerView, noted: Option<&str>) -> Result<(), ReconcileError> {
        let Some(balancer) = view.balancer.as_ref().filter(|_| view.vip_port.is_none()) else {
            return Ok(());
        };
        if noted != Some(balancer.vip_port_id.as_str()) {
            return Ok(());
        }
        let query = PortQuery { id: Some(balancer.vip_port_id.clone()), ..PortQuery::default() };
        view.is_port_lost = self.cloud.ports(&query).await?.is_empty();
        Ok(())
    }

    /// Resolves the host name of the endpoint, if it decides about the address of a new load balancer.
    async fn named_address(&self, observed: &mut Observed, wish: &BalancerWish) {
        let view = &observed.balancing;
        let is_decided = wish.address.is_some() || view.last_address.is_some() || view.vip_port.is_some();
        let Some(name) = wish.host_name.as_ref().filter(|_| !wish.floating && !is_decided) else { return };
        match endpoint_hosts::addresses(name).await {
            Ok(found) => {
                let cidr = observed.own_subnet().map(|subnet| subnet.cidr.clone()).unwrap_or_default();
                let on_subnet = found.into_iter().find(|address| cidrs::contains(&cidr, *address));
                observed.balancing.named_address = on_subnet.map(|address| address.to_string());
            }
            Err(why) => observed.unresolvable = Some(unresolvable(&why)),
        }
    }

    /// Finds the floating IP of the load balancer: the one that it has, the one that the spec names, by its address or by
    /// the host name of the endpoint, else the one that was allocated.
    pub(in super::super) async fn floating_ip_of_balancer(
        &self,
        observed: &mut Observed,
        wish: &BalancerWish,
    ) -> Result<Option<FloatingIp>, ReconcileError> {
        let cloud = self.cloud.as_ref();
        let known = observed.balancing.known_ip.as_ref();
        for address in known.filter(|_| wish.floating).into_iter().chain(&wish.floating_ip) {
            let query = FloatingIpQuery { address: Some(address.clone()), ..FloatingIpQuery::default() };
            if let Some(found) = cloud.floating_ips(&query).await?.into_iter().next() {
                return Ok(Some(found));
            }
        }
        if !wish.floating || wish.floating_ip.is_some() {
            return Ok(None);
        }
        if let Some(allocated) = self.own_floating_ip(observed).await? {
            return Ok(Some(allocated));
        }
        match &wish.host_name {
            None => Ok(None),
            Some(name) => match endpoint_hosts::addresses(name).await {
                Ok(addresses) => Ok(endpoint_hosts::floating_ip_at(cloud, &addresses).await?),
                Err(why) => {
                    observed.unresolvable = Some(unresolvable(&why));
                    Ok(None)
                }
            },
        }
    }

    /// Finds the load balancer with our tag: by id, by name, or by our port.
    pub(in super::super) async fn owned_balancer(
        &self,
        id: Option<&str>,
        name: &str,
        vip_port: Option<&Port>,
    ) -> Result<Option<LoadBalancer>, ReconcileError> {
        let some = LoadBalancerQuery::default;
        let by_id = id.map(|id| LoadBalancerQuery { id: Some(id.to_owned()), ..some() });
        let by_name = LoadBalancerQuery { name: Some(name.to_owned()), ..some() };
        let by_port = vip_port.map(|port| LoadBalancerQuery { vip_port_id: Some(port.id.clone()), ..some() });
        let mut foreign = None;
        for query in by_id.into_iter().chain([by_name]).chain(by_port) {
            let found = self.cloud.load_balancers(&query).await?.into_iter();
            for balancer in found.filter(|it| it.provisioning_status != "DELETED") {
                if self.tag.is_on(&balancer.tags, &balancer.description) {
                    return Ok(Some(balancer));
                }
                foreign = Some(balancer);
            }
        }
        match foreign {
            None => Ok(None),
            Some(other) => Err(ReconcileError::waiting(NAME_TAKEN, taken(&other, id, &self.tag.text()))),
        }
    }

    /// Returns the network and subnet of a new address.
    async fn place(
        &self,
        observed: &Observed,
        wish: &BalancerWish,
    ) -> Result<Option<(String, String)>, ReconcileError> {
        let field = "spec.apiServer.managedLoadBalancer";
        let network = match &wish.network {
            Some(query) => {
                let found = self.cloud.networks(query).await?;
                Some(one(found, &format!("{field}.network"), &queries::describe(query))?.id)
            }
            None => observed.network.as_ref().map(|network| network.id.clone()),
        };
        let Some(network) = network else { return Ok(None) };
        let on_it = SubnetQuery { network_id: Some(network.clone()), ..SubnetQuery::default() };
        let mut named = Vec::new();
        for (index, query) in wish.subnets.iter().enumerate() {
            let query = SubnetQuery { network_id: Some(network.clone()), ..query.clone() };
            let found = self.cloud.subnets(&query).await?;
            named.push(one(found, &format!("{field}.subnets[{index}]"), &queries::describe(&query))?.id);
        }
        let subnet = match named.into_iter().next() {
            Some(first) => Some(first),
            None if wish.network.is_some() => {
                let found = self.cloud.subnets(&on_it).await?.into_iter();
                // Neutron's order may change; IPv4 comes first, and a tie is resolved by the id.
                found.min_by_key(|it| (it.cidr.contains(':'), it.id.clone())).map(|subnet| subnet.id)
            }
            None => observed.own_subnet().map(|subnet| subnet.id.clone()),
        };
        Ok(subnet.map(|subnet| (network, subnet)))
    }

    /// Reads the network of the address.
    async fn network_of_address(&self, view: &mut BalancerView) -> Result<(), ReconcileError> {
        let id = view.balancer.as_ref().map(|balancer| balancer.vip_network_id.clone());
        let Some(id) = id.filter(|id| !id.is_empty()) else { return Ok(()) };
        let on_it = SubnetQuery { network_id: Some(id.clone()), ..SubnetQuery::default() };
        let query = NetworkQuery { id: Some(id), ..NetworkQuery::default() };
        if let Some(network) = self.cloud.networks(&query).await?.into_iter().next() {
            view.network = Some((network, self.cloud.subnets(&on_it).await?));
        }
        Ok(())
    }

    pub(super) async fn parts(&self, view: &mut BalancerView) -> Result<(), ReconcileError> {
        let Some(balancer) = &view.balancer else { return Ok(()) };
        view.listeners = self.cloud.listeners(&balancer.id).await?;
        for pool in self.cloud.pools(&balancer.id).await? {
            let members = self.cloud.members(&pool.id).await?;
            let monitor = match &pool.health_monitor_id {
                Some(id) => match self.cloud.health_monitor(id).await {
                    // It was deleted between the two reads.
                    Err(error) if error.is_not_found() => None,
                    result => Some(result?),
                },
                None => None,
            };
            view.pools.push(PoolView { pool, members, monitor });
        }
        Ok(())
    }

    /// Finds the addresses of the machines on the cluster's network.
    async fn addresses(&self, observed: &mut Observed) -> Result<(), ReconcileError> {
        let Some(network) = observed.network.as_ref().map(|network| network.id.clone()) else {
            return Ok(());
        };
        let primary = observed.primary.as_ref().map(|subnet| subnet.id.clone());
        let is_v6 = is_v6(observed);
        for backend in &mut observed.balancing.backends {
            for id in &backend.ports {
                let query = PortQuery { id: Some(id.clone()), ..PortQuery::default() };
                let port = self.cloud.ports(&query).await?.into_iter().next();
                let fixed = port.filter(|port| port.network_id == network);
                let fixed = fixed.and_then(|port| member_address(&port, primary.as_ref(), is_v6).cloned());
                if let Some((address, subnet)) = fixed.and_then(|it| Some((it.ip_address?, it.subnet_id))) {
                    backend.address = Some((address, subnet));
                    break;
                }
            }
        }
        Ok(())
    }
}

/// Returns true for a reference that matches nothing, or several resources.
fn is_unresolved(error: &CloudError) -> bool {
    matches!(error.class, ErrorClass::NotFound | ErrorClass::Ambiguous)
}

/// Returns the message about a load balancer of our name or port that does not have our tag. `noted` is the id of ours.
fn taken(other: &LoadBalancer, noted: Option<&str>, tag: &str) -> String {
    let LoadBalancer { name, id, .. } = other;
    if noted == Some(id) {
        return format!(
            "load balancer {name} ({id}) has lost the tag {tag} of this cluster, and its description, so Capstan does not \
             change it. Add the tag to the load balancer again"
        );
    }
    format!("load balancer {name} ({id}) belongs to another owner. Rename or delete it")
}

/// Returns the message about a host name that has no address.
fn unresolvable(why: &str) -> String {
    format!("{why}. Correct spec.controlPlaneEndpoint.host")
}

/// Returns where clients reach the API. Before the first listener, the endpoint is not known yet; its address is.
pub(super) fn target(wish: &BalancerWish, observed: &Observed) -> Option<(String, i32)> {
    let known = observed.endpoint.clone().filter(|(_, port)| *port > 0);
    known.or_else(|| Some((observed.balanced_host(wish)?, *wish.ports.first()?)))
}

/// Returns the address of this process on the way to the endpoint. Nothing is sent. A router on the way may replace it.
async fn egress(endpoint: Option<&(String, i32)>) -> Option<IpAddr> {
    let (host, port) = endpoint?;
    let target: IpAddr = host.parse().ok()?;
    let any = if target.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = tokio::net::UdpSocket::bind(any).await.ok()?;
    socket.connect((target, u16::try_from(*port).ok()?)).await.ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// Returns true if the endpoint accepts a connection.
async fn answers(endpoint: Option<&(String, i32)>) -> bool {
    let Some((host, port)) = endpoint else { return false };
    let Ok(port) = u16::try_from(*port) else { return false };
    let connection = tokio::net::TcpStream::connect((host.as_str(), port));
    tokio::time::timeout(CONNECT, connection).await.is_ok_and(|result| result.is_ok())
}
