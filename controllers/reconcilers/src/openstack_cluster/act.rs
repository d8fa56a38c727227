//! Effects of the steps of an OpenStackCluster, each recorded in the observed state.

use std::slice;
use std::sync::Arc;

use apiserver_types::{ApiEndpoint, OpenStackCluster};
use controllers_infrastructure::{
    Cloud, CloudError, ErrorClass, FixedIp, NewFloatingIp, NewNetwork, NewRouter, NewSecurityGroupRule,
    NewSubnet, SecurityGroupRule, TaggedKind,
};
use controllers_runtime::{ControllerSettings, JOURNAL_ANNOTATION, OwnershipTag, ReconcileError};
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::decide::Step;
use super::desired::{Desired, EndpointWish, NetworkWish, RouterWish, SubnetWish};
use super::observe::Observed;
use super::rules::Role;
use super::{applied_rules, balancer, drift};
use crate::applied_tags::{self, TagChange};
use crate::endpoint_hosts::host_and_port;
use crate::{duplicates, lost_calls, names, project};

/// Writer of a pass.
pub(super) struct Actor<'a> {
    pub api: &'a Api<OpenStackCluster>,
    pub cloud: &'a Arc<dyn Cloud>,
    pub desired: &'a Desired,
    pub tag: &'a OwnershipTag,
    pub settings: &'a ControllerSettings,
}

/// Event of an effect: reason and message.
pub(super) type EventText = Option<(&'static str, String)>;

impl Actor<'_> {
    /// Makes one effect.
    pub(super) async fn act(
        &self,
        step: Step,
        object: &mut OpenStackCluster,
        observed: &mut Observed,
    ) -> Result<EventText, ReconcileError> {
        match step {
            Step::Journal(entries) => {
                for (kind, name) in entries {
                    observed.journal.intend(kind, &name);
                }
                self.write_journal(object, observed).await?;
                Ok(None)
            }
            Step::SetEndpoint { host, port } => self.set_endpoint(object, observed, host, port).await,
            Step::Balance(step) => self.change_balancer(step, object, observed).await,
            Step::Wait { reason, message } => Err(ReconcileError::waiting(reason, message)),
            Step::Nothing => Ok(None),
            step @ Step::SetGateway { .. } => self.change_gateway(step, object, observed).await,
            step => self.change_cloud(step, object, observed).await,
        }
    }

    /// Makes a step of the load balancer, unless it creates a part and the answer to the same call was lost a moment ago.
    async fn change_balancer(
        &self,
        step: balancer::Step,
        object: &mut OpenStackCluster,
        observed: &mut Observed,
    ) -> Result<EventText, ReconcileError> {
        let EndpointWish::LoadBalancer(wish) = &self.desired.endpoint else { return Ok(None) };
        let (attempt, failure, creates) = (step.attempt(&wish.name), step.failure(), step.creates());
        if creates {
            observed.lost_calls.check(&attempt, Timestamp::now())?;
        }
        let mut made = self.balance(step, wish, object, observed).await;
        if creates {
            made = observed.lost_calls.note(&attempt, made, Timestamp::now());
        }
        made.map_err(|error| balancer::busy::busy(error.during(|| attempt).of_step(Some(failure))))
    }

    /// Makes another step, unless it creates a resource and the answer to the same call was lost a moment ago.
    pub(super) async fn change_cloud(
        &self,
        step: Step,
        object: &mut OpenStackCluster,
        observed: &mut Observed,
    ) -> Result<EventText, ReconcileError> {
        if matches!(step, Step::Tag { .. }) {
            // A tag is noted before it is applied, so that it is removed with the spec's.
            self.write_journal(object, observed).await?;
        }
        let (attempt, failure, creates) = (step.attempt(self.desired), step.failure(), step.creates());
        if creates {
            observed.lost_calls.check(&attempt, Timestamp::now())?;
        }
        let mut made = self.in_cloud(step, observed).await;
        if creates {
            made = observed.lost_calls.note(&attempt, made, Timestamp::now());
        }
        made.map_err(|error| error.during(|| attempt).of_step(failure))
    }

    async fn in_cloud(&self, step: Step, observed: &mut Observed) -> Result<EventText, ReconcileError> {
        let event = match step {
            Step::CreateNetwork => self.create_network(observed).await?,
            Step::CreateSubnet { network } => self.create_subnet(observed, network).await?,
            Step::SetDnsNameservers { subnet, nameservers } => {
                self.cloud.set_dns_nameservers(&subnet, &nameservers).await?;
                for known in observed.subnets.iter_mut().filter(|known| known.id == subnet) {
                    known.dns_nameservers.clone_from(&nameservers);
                }
                Some(("UpdatedSubnet", format!("set DNS servers of subnet {subnet} to {nameservers:?}")))
            }
            Step::SetPools { subnet, pools } => {
                self.cloud.set_allocation_pools(&subnet, &pools).await?;
                for known in observed.subnets.iter_mut().filter(|known| known.id == subnet) {
                    known.allocation_pools.clone_from(&pools);
                }
                Some(("UpdatedSubnet", format!("set the allocation pools of subnet {subnet}")))
            }
            Step::CreateRouter { external } => self.create_router(observed, external).await?,
            Step::SetGateway { router, network } => self.set_gateway(observed, &router, &network).await?,
            Step::Connect { router, subnet } => {
                self.cloud.add_router_interface(&router, &subnet).await?;
                observed.connected = true;
                if observed.journal.has(names::ROUTER_INTERFACE, &self.desired.name) {
                    observed.journal.learn(
                        names::ROUTER_INTERFACE,
                        &self.desired.name,
                        &format!("{router}/{subnet}"),
                    );
                }
                Some(("RouterConnected", format!("connected subnet {subnet} to router {router}")))
            }
            Step::CreateGroup(role) => self.create_group(observed, role).await?,
            Step::AddRules { role, rules } => {
                self.add_rules(observed, role, rules).await?;
                None
            }
            Step::RemoveRule { role, id } => {
                gone(self.cloud.delete_security_group_rule(&id).await)?;
                if let Some(group) = observed.groups.get_mut(&role) {
                    group.rules.retain(|rule| rule.id != id);
                }
                Some(("DeletedSecurityGroupRule", format!("removed rule {id}, which the spec does not name")))
            }
            Step::ReserveAddress { network, subnet } => {
                self.reserve_address(observed, network, subnet).await?
            }
            Step::CreateFloatingIp { external, address } => {
                self.create_floating_ip(observed, external, address).await?
            }
            Step::DeleteDuplicate(duplicate) => {
                self.settings.removes_unknown(&duplicate.title()).await?;
                let event = duplicates::delete(self.cloud, &duplicate).await?;
                observed.duplicates.retain(|it| *it != duplicate);
                Some(event)
            }
            Step::Tag { kind, id, change } => {
                self.cloud.change_tags(kind, &id, &change.added, &change.removed).await?;
                note_tags(observed, kind, &id, &change);
                None
            }
            Step::Journal(_)
            | Step::SetEndpoint { .. }
            | Step::Balance(_)
            | Step::Wait { .. }
            | Step::Nothing => None,
        };
        Ok(event)
    }

    /// Adds rules with one call. If one of them exists already, each gets a call of its own.
    async fn add_rules(
        &self,
        observed: &mut Observed,
        role: Role,
        rules: Vec<NewSecurityGroupRule>,
    ) -> Result<(), ReconcileError> {
        let mut added = Vec::new();
        match self.cloud.create_security_group_rules(&rules).await {
            Err(error) if error.class == ErrorClass::Conflict => {
                for rule in rules {
                    let id = match self.cloud.create_security_group_rules(slice::from_ref(&rule)).await {
                        // Neutron has the rule in another notation.
                        Err(error) if error.class == ErrorClass::Conflict => {
                            observed.rules_read_otherwise = true;
                            String::new()
                        }
                        ids => ids?.pop().unwrap_or_default(),
                    };
                    added.push(SecurityGroupRule { id, rule });
                }
            }
            ids => {
                let made = ids?.into_iter().zip(rules);
                added.extend(made.map(|(id, rule)| SecurityGroupRule { id, rule }));
            }
        }
        if let Some(group) = observed.groups.get_mut(&role) {
            group.rules.extend(added);
        }
        Ok(())
    }

    async fn create_network(&self, observed: &mut Observed) -> Result<EventText, ReconcileError> {
        let (mtu, port_security) = match &self.desired.network {
            NetworkWish::Managed { mtu, port_security } => (*mtu, *port_security),
            _ => (None, None),
        };
        let name = self.desired.name.clone();
        let new = NewNetwork { name: name.clone(), description: self.tag.description(), mtu, port_security };
        let network = self.cloud.create_network(&new).await?;
        observed.journal.learn(names::NETWORK, &name, &network.id);
        let message = format!("created network {name} ({})", network.id);
        observed.network = Some(network);
        Ok(Some(("CreatedNetwork", message)))
    }

    async fn create_subnet(
        &self,
        observed: &mut Observed,
        network_id: String,
    ) -> Result<EventText, ReconcileError> {
        let SubnetWish::Managed { cidr, dns_nameservers, allocation_pools } = &self.desired.subnets else {
            return Ok(None);
        };
        let name = self.desired.name.clone();
        let new = NewSubnet {
            name: name.clone(),
            description: self.tag.description(),
            network_id,
            cidr: cidr.clone(),
            dns_nameservers: dns_nameservers.clone(),
            allocation_pools: allocation_pools.clone(),
            slaac: announces_addresses(cidr, &self.desired.router),
        };
        let subnet = self.cloud.create_subnet(&new).await?;
        observed.journal.learn(names::SUBNET, &name, &subnet.id);
        let message = format!("created subnet {name} {cidr} ({})", subnet.id);
        // Neutron may return the servers in another order; the requested one is in force.
        observed.subnets =
            vec![controllers_infrastructure::Subnet { dns_nameservers: dns_nameservers.clone(), ..subnet }];
        Ok(Some(("CreatedSubnet", message)))
    }

    async fn create_router(
        &self,
        observed: &mut Observed,
        external: String,
    ) -> Result<EventText, ReconcileError> {
        let name = self.desired.name.clone();
        let new = NewRouter {
            name: name.clone(),
            description: self.tag.description(),
            external_network_id: Some(external),
            external_ips: observed.gateway_ips.clone(),
        };
        let router = self.cloud.create_router(&new).await?;
        observed.journal.learn(names::ROUTER, &name, &router.id);
        let message = format!("created router {name} ({})", router.id);
        observed.router = Some(router);
        Ok(Some(("CreatedRouter", message)))
    }

    async fn create_group(&self, observed: &mut Observed, role: Role) -> Result<EventText, ReconcileError> {
        let Some(wish) = self.desired.groups.iter().find(|wish| wish.role == role) else { return Ok(None) };
        let group = self.cloud.create_security_group(&wish.name, &self.tag.description()).await?;
        observed.journal.learn(names::SECURITY_GROUP, &wish.name, &group.id);
        let message = format!("created security group {} ({})", wish.name, group.id);
        observed.groups.insert(role, group);
        Ok(Some(("CreatedSecurityGroup", message)))
    }

    /// Creates a port at the fixed address of the API. Nodes answer at the address; nothing uses the port.
    async fn reserve_address(
        &self,
        observed: &mut Observed,
        network_id: String,
        subnet: String,
    ) -> Result<EventText, ReconcileError> {
        let Some(wish) = &self.desired.reserved else { return Ok(None) };
        let fixed_ip = FixedIp { subnet_id: Some(subnet), ip_address: Some(wish.address.clone()) };
        let new = self.address_port(wish.port.clone(), network_id, fixed_ip);
        let port = self.cloud.create_port(&new).await?;
        observed.journal.learn(names::VIP_PORT, &new.name, &port.id);
        let message = format!("created port {} ({}), which keeps {}", new.name, port.id, wish.address);
        observed.reserved = Some(port);
        Ok(Some(("CreatedPort", message)))
    }

    async fn create_floating_ip(
        &self,
        observed: &mut Observed,
        network_id: String,
        address: Option<String>,
    ) -> Result<EventText, ReconcileError> {
        let description = self.tag.description();
        let new = NewFloatingIp { network_id, address, description, port_id: None };
        let created = self.cloud.create_floating_ip(&new).await;
        let floating_ip = created.map_err(|error| with_remedy(error, new.address.as_deref()))?;
        observed.journal.learn(names::FLOATING_IP, &self.desired.name, &floating_ip.id);
        let message = format!("allocated floating IP {} ({})", floating_ip.address, floating_ip.id);
        observed.floating_ip = Some(floating_ip);
        Ok(Some(("CreatedFloatingIP", message)))
    }

    async fn set_endpoint(
        &self,
        object: &mut OpenStackCluster,
        observed: &mut Observed,
        host: String,
        port: i32,
    ) -> Result<EventText, ReconcileError> {
        let change = json!({
            "metadata": {"resourceVersion": object.resource_version()},
            "spec": {"controlPlaneEndpoint": ApiEndpoint { host: Some(host.clone()), port: Some(port) }},
        });
        *object = self.api.patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(&change)).await?;
        let message = format!("the API will answer at {}", host_and_port(&host, port));
        observed.endpoint = Some((host, port));
        Ok(Some(("EndpointSet", message)))
    }

    /// Writes the journal if it differs from the stored one.
    pub(super) async fn write_journal(
        &self,
        object: &mut OpenStackCluster,
        observed: &Observed,
    ) -> Result<(), ReconcileError> {
        let text = observed.journal.text();
        let rules = applied_rules::text(self.desired, observed);
        let tags = applied_tags::text(&observed.applied_tags, &self.desired.tags);
        let lost = observed.lost_calls.text();
        let drift = observed.drift.text();
        let annotations = object.annotations();
        if annotations.get(JOURNAL_ANNOTATION) == Some(&text)
            && annotations.get(applied_rules::ANNOTATION) == rules.as_ref()
            && annotations.get(applied_tags::ANNOTATION) == tags.as_ref()
            && annotations.get(lost_calls::ANNOTATION) == lost.as_ref()
            && annotations.get(drift::ANNOTATION) == drift.as_ref()
        {
            return Ok(());
        }
        let change = json!({"metadata": {
            "resourceVersion": object.resource_version(),
            "annotations": {
                JOURNAL_ANNOTATION: text,
                project::ANNOTATION: observed.project,
                applied_rules::ANNOTATION: rules,
                applied_tags::ANNOTATION: tags,
                lost_calls::ANNOTATION: lost,
                drift::ANNOTATION: drift,
            },
        }});
        *object = self.api.patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(&change)).await?;
        Ok(())
    }
}

/// Adds what to do to the refusal of a floating IP with a chosen address. By default, Neutron lets only administrators
/// choose.
fn with_remedy(error: CloudError, address: Option<&str>) -> CloudError {
    let Some(address) = address.filter(|_| error.class == ErrorClass::Forbidden) else { return error };
    let message = format!(
        "{}. By default, only an administrator of the cloud can choose an address. Have one allocate {address} in \
         this project, then Capstan uses it",
        error.message
    );
    CloudError { message, ..error }
}

/// Returns true if servers form their own addresses: on an IPv6 subnet, if our own router announces it. Without that,
/// they get none.
fn announces_addresses(cidr: &str, router: &RouterWish) -> bool {
    cidr.contains(':') && matches!(router, RouterWish::Managed { .. })
}

/// Takes `NotFound` for success: the resource is deleted.
pub(super) fn gone(result: controllers_infrastructure::CloudResult<()>) -> Result<(), ReconcileError> {
    match result {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(()),
    }
}

fn note_tags(observed: &mut Observed, kind: TaggedKind, id: &str, change: &TagChange) {
    let change = |tags: &mut Vec<String>| change.apply(tags);
    match kind {
        TaggedKind::Network => observed.network.iter_mut().for_each(|it| change(&mut it.tags)),
        TaggedKind::Subnet => {
            observed.subnets.iter_mut().filter(|it| it.id == id).for_each(|it| change(&mut it.tags));
        }
        TaggedKind::Router => observed.router.iter_mut().for_each(|it| change(&mut it.tags)),
        TaggedKind::SecurityGroup => {
            observed.groups.values_mut().filter(|it| it.id == id).for_each(|it| change(&mut it.tags));
        }
        TaggedKind::FloatingIp => {
            let all = observed.floating_ip.iter_mut().chain(&mut observed.bastion.floating_ip);
            all.filter(|it| it.id == id).for_each(|it| change(&mut it.tags));
        }
        TaggedKind::Port => {
            let ports = observed.balancing.vip_port.iter_mut().chain(&mut observed.reserved);
            ports.filter(|it| it.id == id).for_each(|it| change(&mut it.tags));
        }
        // A cluster has no trunks and servers of its own, and its load balancer is read again after each change.
        TaggedKind::Trunk | TaggedKind::Server | TaggedKind::LoadBalancer => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refusal_of_a_chosen_address_says_that_an_administrator_has_to_allocate_it() {
        let error = |class| CloudError::new(class, "allocate", "disallowed by policy");
        let table = [
            (ErrorClass::Forbidden, Some("203.0.113.9"), true),
            (ErrorClass::Forbidden, None, false),
            (ErrorClass::Conflict, Some("203.0.113.9"), false),
        ];
        for (class, address, expected) in table {
            let found = with_remedy(error(class), address);
            assert_eq!(found.message.contains("Have one allocate 203.0.113.9"), expected, "{found}");
            assert!(found.message.starts_with("disallowed by policy"), "{found}");
        }
    }

    #[test]
    fn r5_5_servers_on_an_ipv6_subnet_form_their_addresses_if_the_router_is_ours() {
        let managed = RouterWish::Managed { external_ips: Vec::new() };
        assert!(announces_addresses("2001:db8::/64", &managed));
        assert!(!announces_addresses("10.6.0.0/24", &managed));
        assert!(!announces_addresses("2001:db8::/64", &RouterWish::Existing(Default::default())));
        assert!(!announces_addresses("2001:db8::/64", &RouterWish::None));
    }
}
