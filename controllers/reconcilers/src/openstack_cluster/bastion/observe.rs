//! Observation of a bastion: its OpenStackServer in the API, and its port and floating IP in the cloud.

use apiserver_types::{OpenStackCluster, OpenStackServer};
use controllers_infrastructure::{FloatingIp, FloatingIpQuery, PortQuery};
use controllers_runtime::ReconcileError;
use jiff::Timestamp;
use kube::{Api, Client, ResourceExt};

use super::super::observe::{Observed, Observer};
use super::{BastionView, REPLACED, decide};
use crate::{names, ownership};

/// Reads the OpenStackServer of a cluster's bastion.
pub(in super::super) async fn find(
    client: &Client,
    object: &OpenStackCluster,
    cluster: &str,
) -> Result<BastionView, kube::Error> {
    let namespace = object.namespace().unwrap_or_default();
    let api: Api<OpenStackServer> = Api::namespaced(client.clone(), &namespace);
    let server = api.get_opt(&format!("{cluster}-bastion")).await?;
    let status = object.status.as_ref().and_then(|status| status.bastion.as_ref());
    let replaced = object.annotations().get(REPLACED).map(String::as_str).unwrap_or_default();
    Ok(BastionView {
        foreign: server.as_ref().is_some_and(|server| !ownership::is_owned(server, object)),
        server,
        last_floating_ip: status.and_then(|status| status.floating_ip.clone()),
        replaced: replaced.split(',').filter_map(|time| time.parse().ok()).collect(),
        now: Timestamp::now(),
        ..BastionView::default()
    })
}

impl Observer<'_> {
    /// Finds the port and the floating IP of the bastion, or those of an earlier one.
    pub(in super::super) async fn bastion(&self, observed: &mut Observed) -> Result<(), ReconcileError> {
        let name = &self.desired.bastion_group;
        let Some(wish) = &self.desired.bastion else {
            if observed.journal.has(names::FLOATING_IP, super::FLOATING_IP) {
                observed.bastion.floating_ip = self.bastion_floating_ip().await?;
            }
            if observed.journal.has(names::SECURITY_GROUP, name) {
                let id = observed.journal.id(names::SECURITY_GROUP, name);
                observed.bastion.retired_group = self.owned_groups(id, name).await?.into_iter().next();
            }
            return Ok(());
        };
        let server = observed.bastion.server.as_ref().filter(|_| !observed.bastion.foreign);
        let instance = server.and_then(|server| server.status.as_ref()?.instance_id.clone());
        let network = observed.network.as_ref().map(|network| network.id.clone());
        if let (Some(instance), Some(network)) = (instance, network) {
            let query = PortQuery { device_id: Some(instance), ..PortQuery::default() };
            let ports = self.cloud.ports(&query).await?;
            let port = ports.into_iter().find(|port| port.network_id == network);
            observed.bastion.port = port.map(|port| {
                let addresses = port.fixed_ips.into_iter().filter_map(|ip| ip.ip_address);
                // Neutron's order may change; IPv4 comes first.
                let address = addresses.min_by_key(|address| address.contains(':'));
                (port.id, address)
            });
        }
        if let Some(given) = &wish.floating {
            observed.bastion.floating_ip = self.wanted_floating_ip(&observed.bastion, given.as_ref()).await?;
        }
        Ok(())
    }

    /// Finds the floating IP: on the port, else that of an earlier pass, of the spec, or of a lost response.
    async fn wanted_floating_ip(
        &self,
        view: &BastionView,
        given: Option<&String>,
    ) -> Result<Option<FloatingIp>, ReconcileError> {
        let query = FloatingIpQuery::default;
        let on_port =
            view.port.as_ref().map(|(id, _)| FloatingIpQuery { port_id: Some(id.clone()), ..query() });
        let addresses = view.last_floating_ip.iter().chain(given);
        let by_address = addresses.map(|ip| FloatingIpQuery { address: Some(ip.clone()), ..query() });
        for query in on_port.into_iter().chain(by_address) {
            if let Some(found) = self.cloud.floating_ips(&query).await?.into_iter().next() {
                return Ok(Some(found));
            }
        }
        self.bastion_floating_ip().await
    }

    /// Finds the floating IP that was allocated for the bastion.
    pub(in super::super) async fn bastion_floating_ip(&self) -> Result<Option<FloatingIp>, ReconcileError> {
        let description = Some(decide::description(self.tag));
        let query = FloatingIpQuery { description, ..FloatingIpQuery::default() };
        Ok(self.cloud.floating_ips(&query).await?.into_iter().next())
    }
}
