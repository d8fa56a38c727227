//! Creation of the load balancer and of the port of its address.

use apiserver_types::OpenStackCluster;
use controllers_infrastructure::{FixedIp, NewLoadBalancer, NewPort, Port};
use controllers_runtime::ReconcileError;

use super::super::act::{Actor, EventText, gone};
use super::super::observe::Observed;
use super::lost_address::{self, Consequence};
use super::repairs::RECREATIONS;
use super::{BalancerWish, RECREATED, decide, limits};
use crate::names;

/// Neutron's `device_owner` of the port of the address. Octavia deletes only ports of its own.
const DEVICE_OWNER: &str = "capstan:api-vip";

/// Returns the address of a port on a subnet. Neutron adds addresses of subnets on which ports form their own, and its order
/// means nothing.
fn address_of(port: &Port, subnet: Option<&String>) -> FixedIp {
    let on_subnet = port.fixed_ips.iter().find(|ip| subnet.is_some() && ip.subnet_id.as_ref() == subnet);
    on_subnet.or_else(|| port.fixed_ips.first()).cloned().unwrap_or_default()
}

/// Returns true if a port may have formed an address by itself. Neutron gives it to no other port on request.
fn is_formed(address: &str) -> bool {
    address.contains(':')
}

impl Actor<'_> {
    /// Describes a port that only keeps an address of the API.
    pub(in super::super) fn address_port(
        &self,
        name: String,
        network_id: String,
        fixed_ip: FixedIp,
    ) -> NewPort {
        NewPort {
            name,
            description: self.tag.description(),
            network_id,
            fixed_ips: vec![fixed_ip],
            security_groups: Some(Vec::new()),
            admin_state_up: Some(false),
            value_specs: [("device_owner".to_owned(), DEVICE_OWNER.to_owned())].into(),
            ..NewPort::default()
        }
    }

    pub(super) async fn create_vip_port(
        &self,
        wish: &BalancerWish,
        observed: &mut Observed,
        network_id: String,
        subnet: String,
    ) -> Result<EventText, ReconcileError> {
        let address = observed.balancing.wanted_address(wish).cloned();
        let fixed_ip = FixedIp { subnet_id: Some(subnet), ip_address: address };
        let new = self.address_port(wish.vip_name(), network_id, fixed_ip);
        let last = observed.balancing.last_address.as_ref();
        let (endpoint, is_floating) = (observed.endpoint.as_ref(), wish.floating);
        let port = match self.cloud.create_port(&new).await {
            Err(error) => match lost_address::consequence(error, last, endpoint, is_floating) {
                Consequence::Stop(error) => return Err(error),
                Consequence::AnyAddress => {
                    let any = new.fixed_ips.iter().map(|ip| FixedIp { ip_address: None, ..ip.clone() });
                    let new = NewPort { fixed_ips: any.collect(), ..new.clone() };
                    self.cloud.create_port(&new).await?
                }
            },
            Ok(port) => port,
        };
        observed.journal.learn(names::VIP_PORT, &new.name, &port.id);
        let message = format!("created port {} ({}) for the load balancer", new.name, port.id);
        observed.balancing.vip_port = Some(port);
        Ok(Some(("CreatedPort", message)))
    }

    pub(super) async fn create_balancer(
        &self,
        wish: &BalancerWish,
        object: &mut OpenStackCluster,
        observed: &mut Observed,
    ) -> Result<EventText, ReconcileError> {
        // The port's id must be in the journal before anything depends on it.
        self.write_journal(object, observed).await?;
        if let Some(request) = observed.balancing.recreate.take() {
            self.annotate(object, &[(RECREATED, &request)]).await?;
        }
        self.note_recreation(object, observed).await?;
        let port = observed.balancing.vip_port.clone().unwrap_or_default();
        let fixed = address_of(&port, decide::place(wish, observed).map(|(_, subnet)| subnet).as_ref());
        let new = NewLoadBalancer {
            name: wish.name.clone(),
            description: self.tag.description(),
            tags: self.tag.tags(Some(&self.desired.tags)),
            vip_port_id: Some(port.id.clone()),
            vip_subnet_id: fixed.subnet_id.clone(),
            vip_address: None,
            provider: self.provider(wish, observed).await?,
            flavor_id: self.flavor(wish, observed).await?,
            availability_zone: self.zone(wish).await?,
        };
        let balancer = match self.cloud.create_load_balancer(&new).await {
            // This cloud lets only Octavia choose the port.
            Err(error) if error.message.contains("vip_port_id is disallowed") => {
                gone(self.cloud.delete_port(&port.id).await)?;
                observed.balancing.vip_port = None;
                let is_free = observed.balancing.wanted_address(wish).is_none();
                let vip_address = fixed.ip_address.clone().filter(|it| !(is_free && is_formed(it)));
                let new = NewLoadBalancer { vip_port_id: None, vip_address, ..new };
                self.cloud.create_load_balancer(&new).await?
            }
            result => result?,
        };
        observed.journal.learn(names::LOAD_BALANCER, &wish.name, &balancer.id);
        observed.warnings.extend(limits::of_load_balancer(&observed.balancing.limits));
        let message = format!("created load balancer {} ({})", wish.name, balancer.id);
        observed.balancing.balancer = Some(balancer);
        Ok(Some(("CreatedLoadBalancer", message)))
    }

    /// Notes a load balancer in place of one that another client deleted, so that the new one has to prove itself.
    async fn note_recreation(
        &self,
        object: &mut OpenStackCluster,
        observed: &mut Observed,
    ) -> Result<(), ReconcileError> {
        let worked = observed.endpoint.as_ref().is_some_and(|(_, port)| *port > 0);
        if !worked || observed.balancing.recreations.is_unproven() {
            return Ok(());
        }
        let recreations = observed.balancing.recreations.after(observed.balancing.now);
        self.annotate(object, &[(RECREATIONS, &recreations.text())]).await?;
        observed.balancing.recreations = recreations;
        Ok(())
    }

    /// Returns the requested provider, or none with a warning if the cloud does not have it.
    async fn provider(
        &self,
        wish: &BalancerWish,
        observed: &mut Observed,
    ) -> Result<Option<String>, ReconcileError> {
        let Some(name) = &wish.provider else { return Ok(None) };
        if self.cloud.load_balancer_providers().await?.contains(name) {
            return Ok(Some(name.clone()));
        }
        let message = format!("Octavia has no provider {name:?}, so its default is used");
        observed.warnings.push(("OctaviaProviderNotFound", message));
        Ok(None)
    }

    /// Returns the requested availability zone.
    async fn zone(&self, wish: &BalancerWish) -> Result<Option<String>, ReconcileError> {
        let Some(zone) = &wish.zone else { return Ok(None) };
        let known = match self.cloud.load_balancer_zones().await {
            // An old Octavia has no list; it judges the name itself.
            Err(error) if error.is_not_found() => return Ok(Some(zone.clone())),
            result => result?,
        };
        if known.contains(zone) {
            return Ok(Some(zone.clone()));
        }
        let message = format!(
            "spec.apiServer.managedLoadBalancer.availabilityZone: Octavia has no zone {zone:?}; its zones are: {}",
            known.join(", ")
        );
        Err(ReconcileError::waiting("APIEndpointConfigFailed", message))
    }

    /// Returns the id of the requested flavor, or none with a warning if the cloud does not have it.
    async fn flavor(
        &self,
        wish: &BalancerWish,
        observed: &mut Observed,
    ) -> Result<Option<String>, ReconcileError> {
        let Some(name) = &wish.flavor else { return Ok(None) };
        let flavors = self.cloud.load_balancer_flavors().await?;
        let named = flavors.into_iter().filter(|it| it.enabled && (it.name == *name || it.id == *name));
        let named: Vec<_> = named.collect();
        match named.as_slice() {
            [one] => Ok(Some(one.id.clone())),
            [] => {
                let message = format!("Octavia has no flavor {name:?}, so its default is used");
                observed.warnings.push(("OctaviaFlavorNotFound", message));
                Ok(None)
            }
            several => Err(ReconcileError::unresolved(
                several.len(),
                "spec.apiServer.managedLoadBalancer.flavor",
                name,
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_the_one_on_the_subnet_wherever_neutron_lists_it() {
        let fixed = |subnet: &str, address: &str| FixedIp {
            subnet_id: Some(subnet.to_owned()),
            ip_address: Some(address.to_owned()),
        };
        let fixed_ips = vec![fixed("six", "fd00:20::f816:3eff:fe01:203"), fixed("four", "10.6.0.5")];
        let port = Port { fixed_ips, ..Port::default() };
        let of = |subnet: Option<&str>| address_of(&port, subnet.map(str::to_owned).as_ref()).ip_address;
        assert_eq!(of(Some("four")).as_deref(), Some("10.6.0.5"));
        assert_eq!(of(Some("six")).as_deref(), Some("fd00:20::f816:3eff:fe01:203"));
        assert_eq!(of(None).as_deref(), Some("fd00:20::f816:3eff:fe01:203"));
    }
}
