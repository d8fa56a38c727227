//! Makes one step's effect, and notes what came of it.

use std::sync::Arc;

use apiserver_types::{ApiEndpoint, OpenStackCluster};
use controllers_infrastructure::{
    Cloud, ErrorClass, NewFloatingIp, NewNetwork, NewRouter, NewSubnet, SecurityGroupRule, TaggedKind,
};
use controllers_runtime::{JOURNAL_ANNOTATION, OwnershipTag, ReconcileError};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::decide::Step;
use super::desired::{Desired, NetworkWish, SubnetWish};
use super::observe::Observed;
use super::rules::Role;
use crate::names;

/// What is worked with.
pub(super) struct Actor<'a> {
    pub api: &'a Api<OpenStackCluster>,
    pub cloud: &'a Arc<dyn Cloud>,
    pub wanted: &'a Desired,
    pub mark: &'a OwnershipTag,
}

/// What was made or changed, for an Event: reason and message.
pub(super) type EventText = Option<(&'static str, String)>;

impl Actor<'_> {
    /// Makes one effect.
    pub(super) async fn act(
        &self,
        step: Step,
        object: &mut OpenStackCluster,
        seen: &mut Observed,
    ) -> Result<EventText, ReconcileError> {
        match step {
            Step::Journal(entries) => {
                for (kind, name) in entries {
                    seen.journal.intend(kind, &name);
                }
                self.write_journal(object, seen).await?;
                Ok(None)
            }
            Step::SetEndpoint { host, port } => self.set_endpoint(object, seen, host, port).await,
            Step::Nothing => Ok(None),
            step => {
                let attempt = step.attempt(self.wanted);
                self.in_cloud(step, seen).await.map_err(|trouble| trouble.during(|| attempt))
            }
        }
    }

    async fn in_cloud(&self, step: Step, seen: &mut Observed) -> Result<EventText, ReconcileError> {
        let told = match step {
            Step::CreateNetwork => self.create_network(seen).await?,
            Step::CreateSubnet { network } => self.create_subnet(seen, network).await?,
            Step::SetDnsNameservers { subnet, nameservers } => {
                self.cloud.set_dns_nameservers(&subnet, &nameservers).await?;
                for known in seen.subnets.iter_mut().filter(|known| known.id == subnet) {
                    known.dns_nameservers.clone_from(&nameservers);
                }
                Some(("SubnetChanged", format!("set DNS servers of subnet {subnet} to {nameservers:?}")))
            }
            Step::CreateRouter { external } => self.create_router(seen, external).await?,
            Step::Connect { router, subnet } => {
                self.cloud.add_router_interface(&router, &subnet).await?;
                seen.connected = true;
                if seen.journal.has(names::ROUTER_INTERFACE, &self.wanted.name) {
                    seen.journal.learn(
                        names::ROUTER_INTERFACE,
                        &self.wanted.name,
                        &format!("{router}/{subnet}"),
                    );
                }
                Some(("RouterConnected", format!("connected subnet {subnet} to router {router}")))
            }
            Step::CreateGroup(role) => self.create_group(seen, role).await?,
            Step::AddRule { role, rule } => {
                let id = match self.cloud.create_security_group_rule(&rule).await {
                    // Neutron has it, in words that read as another rule: it is there.
                    Err(error) if error.class == ErrorClass::Conflict => {
                        seen.rules_read_otherwise = true;
                        String::new()
                    }
                    result => result?,
                };
                if let Some(group) = seen.groups.get_mut(&role) {
                    group.rules.push(SecurityGroupRule { id, rule });
                }
                None
            }
            Step::RemoveRule { role, id } => {
                gone(self.cloud.delete_security_group_rule(&id).await)?;
                if let Some(group) = seen.groups.get_mut(&role) {
                    group.rules.retain(|rule| rule.id != id);
                }
                Some(("SecurityGroupRuleRemoved", format!("removed rule {id}, which the spec does not name")))
            }
            Step::CreateFloatingIp { external, address } => {
                self.create_floating_ip(seen, external, address).await?
            }
            Step::Tag { kind, id, tags } => {
                self.cloud.set_tags(kind, &id, &tags).await?;
                note_tags(seen, kind, &id, &tags);
                None
            }
            Step::Journal(_) | Step::SetEndpoint { .. } | Step::Nothing => None,
        };
        Ok(told)
    }

    async fn create_network(&self, seen: &mut Observed) -> Result<EventText, ReconcileError> {
        let (mtu, port_security) = match &self.wanted.network {
            NetworkWish::Managed { mtu, port_security } => (*mtu, *port_security),
            NetworkWish::Existing(_) => (None, None),
        };
        let name = self.wanted.name.clone();
        let new = NewNetwork { name: name.clone(), description: self.mark.description(), mtu, port_security };
        let network = self.cloud.create_network(&new).await?;
        seen.journal.learn(names::NETWORK, &name, &network.id);
        let told = format!("created network {name} ({})", network.id);
        seen.network = Some(network);
        Ok(Some(("NetworkCreated", told)))
    }

    async fn create_subnet(
        &self,
        seen: &mut Observed,
        network_id: String,
    ) -> Result<EventText, ReconcileError> {
        let SubnetWish::Managed { cidr, dns_nameservers, allocation_pools } = &self.wanted.subnets else {
            return Ok(None);
        };
        let name = self.wanted.name.clone();
        let new = NewSubnet {
            name: name.clone(),
            description: self.mark.description(),
            network_id,
            cidr: cidr.clone(),
            dns_nameservers: dns_nameservers.clone(),
            allocation_pools: allocation_pools.clone(),
        };
        let subnet = self.cloud.create_subnet(&new).await?;
        seen.journal.learn(names::SUBNET, &name, &subnet.id);
        let told = format!("created subnet {name} {cidr} ({})", subnet.id);
        // What Neutron answers may order the servers in its own way; what was asked for is in force.
        seen.subnets =
            vec![controllers_infrastructure::Subnet { dns_nameservers: dns_nameservers.clone(), ..subnet }];
        Ok(Some(("SubnetCreated", told)))
    }

    async fn create_router(
        &self,
        seen: &mut Observed,
        external: String,
    ) -> Result<EventText, ReconcileError> {
        let name = self.wanted.name.clone();
        let new = NewRouter {
            name: name.clone(),
            description: self.mark.description(),
            external_network_id: Some(external),
            external_ips: seen.gateway_ips.clone(),
        };
        let router = self.cloud.create_router(&new).await?;
        seen.journal.learn(names::ROUTER, &name, &router.id);
        let told = format!("created router {name} ({})", router.id);
        seen.router = Some(router);
        Ok(Some(("RouterCreated", told)))
    }

    async fn create_group(&self, seen: &mut Observed, role: Role) -> Result<EventText, ReconcileError> {
        let Some(wish) = self.wanted.groups.iter().find(|wish| wish.role == role) else { return Ok(None) };
        let group = self.cloud.create_security_group(&wish.name, &self.mark.description()).await?;
        seen.journal.learn(names::SECURITY_GROUP, &wish.name, &group.id);
        let told = format!("created security group {} ({})", wish.name, group.id);
        seen.groups.insert(role, group);
        Ok(Some(("SecurityGroupCreated", told)))
    }

    async fn create_floating_ip(
        &self,
        seen: &mut Observed,
        network_id: String,
        address: Option<String>,
    ) -> Result<EventText, ReconcileError> {
        let description = self.mark.description();
        let new = NewFloatingIp { network_id, address, description, port_id: None };
        let floating_ip = self.cloud.create_floating_ip(&new).await?;
        seen.journal.learn(names::FLOATING_IP, &self.wanted.name, &floating_ip.id);
        let told = format!("allocated floating IP {} ({})", floating_ip.address, floating_ip.id);
        seen.floating_ip = Some(floating_ip);
        Ok(Some(("FloatingIPCreated", told)))
    }

    async fn set_endpoint(
        &self,
        object: &mut OpenStackCluster,
        seen: &mut Observed,
        host: String,
        port: i32,
    ) -> Result<EventText, ReconcileError> {
        let change = json!({
            "metadata": {"resourceVersion": object.resource_version()},
            "spec": {"controlPlaneEndpoint": ApiEndpoint { host: Some(host.clone()), port: Some(port) }},
        });
        *object = self.api.patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(&change)).await?;
        let told = format!("the API will answer at {host}:{port}");
        seen.endpoint = Some((host, port));
        Ok(Some(("EndpointSet", told)))
    }

    /// Writes the journal if it is not what is stored.
    pub(super) async fn write_journal(
        &self,
        object: &mut OpenStackCluster,
        seen: &Observed,
    ) -> Result<(), ReconcileError> {
        let text = seen.journal.text();
        if object.annotations().get(JOURNAL_ANNOTATION) == Some(&text) {
            return Ok(());
        }
        let change = json!({"metadata": {
            "resourceVersion": object.resource_version(),
            "annotations": {JOURNAL_ANNOTATION: text},
        }});
        *object = self.api.patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(&change)).await?;
        Ok(())
    }
}

/// What is gone already was deleted.
pub(super) fn gone(result: controllers_infrastructure::CloudResult<()>) -> Result<(), ReconcileError> {
    match result {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(()),
    }
}

fn note_tags(seen: &mut Observed, kind: TaggedKind, id: &str, tags: &[String]) {
    let tags = tags.to_vec();
    match kind {
        TaggedKind::Network => seen.network.iter_mut().for_each(|it| it.tags.clone_from(&tags)),
        TaggedKind::Subnet => {
            seen.subnets.iter_mut().filter(|it| it.id == id).for_each(|it| it.tags.clone_from(&tags));
        }
        TaggedKind::Router => seen.router.iter_mut().for_each(|it| it.tags.clone_from(&tags)),
        TaggedKind::SecurityGroup => {
            seen.groups.values_mut().filter(|it| it.id == id).for_each(|it| it.tags.clone_from(&tags));
        }
        TaggedKind::FloatingIp => seen.floating_ip.iter_mut().for_each(|it| it.tags.clone_from(&tags)),
        TaggedKind::Port => {}
    }
}
