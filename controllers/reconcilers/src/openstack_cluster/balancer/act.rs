//! Effects of the steps of a load balancer, each recorded in the observed state.

use std::collections::BTreeMap;

use apiserver_types::OpenStackCluster;
use controllers_infrastructure::{
    CloudError, ErrorClass, FixedIp, LoadBalancerPart, NewHealthMonitor, NewListener, NewLoadBalancer,
    NewMember, NewPool, NewPort, TaggedKind,
};
use controllers_runtime::ReconcileError;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::super::act::{Actor, EventText, gone};
use super::super::observe::Observed;
use super::lost_address::{self, Consequence};
use super::repairs::{PART_REPAIRS, RECREATIONS};
use super::{
    Backend, BalancerWish, ENABLED, FAILOVER, IDLE_TIMEOUT, RECREATED, REPLACED, Step, allowed_cidrs,
    clients, decide, limits, members, passes_clients,
};
use crate::names;

/// Neutron's `device_owner` of the port of the address. Octavia deletes only ports of its own.
const DEVICE_OWNER: &str = "capstan:api-vip";

/// HTTP status of an option that a provider of Octavia does not have.
const NOT_IMPLEMENTED: u16 = 501;

/// Reason of the Event about a failover that Octavia refuses.
const FAILOVER_REFUSED: &str = "LoadBalancerFailoverRefused";

/// Status that a change leaves until Octavia has finished it.
const CHANGING: &str = "PENDING_UPDATE";

impl Actor<'_> {
    /// Makes one effect on the load balancer.
    pub(in super::super) async fn balance(
        &self,
        step: Step,
        wish: &BalancerWish,
        object: &mut OpenStackCluster,
        observed: &mut Observed,
    ) -> Result<EventText, ReconcileError> {
        match step {
            Step::CreateVipPort { network, subnet } => {
                self.create_vip_port(wish, observed, network, subnet).await
            }
            Step::Create => self.create_balancer(wish, object, observed).await,
            Step::FailOver { id, at } => {
                let event = self.fail_over(observed, &id).await?;
                // Noted afterwards: a failover that is requested twice does no harm, and one that never was is needed.
                self.annotate(object, &[(FAILOVER, &at.to_string())]).await?;
                observed.balancing.failed_over = Some(at);
                Ok(event)
            }
            Step::Replace { id, why, failed } => {
                // Noted before the deletion, and once: a deletion that fails is repeated without another delay.
                if !observed.balancing.is_being_replaced(&id) {
                    let recreations = observed.balancing.recreations.after(observed.balancing.now);
                    self.annotate(object, &[(REPLACED, &id), (RECREATIONS, &recreations.text())]).await?;
                    observed.balancing.recreations = recreations;
                    observed.balancing.replaced = Some(id.clone());
                }
                gone(self.cloud.delete_load_balancer(&id).await)?;
                let message = format!("deleted load balancer {id} to create another one: {why}");
                if failed {
                    return Err(broken("create the load balancer", message));
                }
                set_status(observed, "PENDING_DELETE");
                Ok(Some(("LoadBalancerRecreated", message)))
            }
            Step::NoteActive => {
                let recreations = observed.balancing.recreations.proven();
                self.annotate(object, &[(RECREATIONS, &recreations.text())]).await?;
                observed.balancing.recreations = recreations;
                Ok(None)
            }
            Step::Wait { reason, message } => Err(ReconcileError::waiting(reason, message)),
            Step::Associate { floating_ip, port } => {
                self.cloud.associate_floating_ip(&floating_ip, Some(&port)).await?;
                if let Some(known) = &mut observed.floating_ip {
                    known.port_id = Some(port.clone());
                }
                let message = format!("associated floating IP {floating_ip} with port {port}");
                Ok(Some(("AssociatedFloatingIP", message)))
            }
            step => {
                if matches!(step, Step::SetTags { .. }) {
                    // A tag is noted before it is applied, so that it is removed with the spec's.
                    self.write_journal(object, observed).await?;
                }
                if let Step::Enable { at, .. } = &step {
                    self.annotate(object, &[(ENABLED, &at.to_string())]).await?;
                    observed.balancing.enabled = Some(*at);
                }
                if let Step::SetAgain { repairs, .. } | Step::RemoveBroken { repairs, .. } = &step {
                    // Noted first: a repair that is noted and not made only shortens the limit.
                    self.annotate(object, &[(PART_REPAIRS, &repairs.text())]).await?;
                    observed.balancing.repairs = repairs.clone();
                }
                let failed = step.heals();
                let had_none = observed.balancing.no_monitors;
                let event = self.change_parts(step, wish, observed).await?;
                // A provider that refused a monitor changes nothing, and the other parts follow in this pass.
                if observed.balancing.no_monitors == had_none {
                    set_status(observed, CHANGING);
                }
                match event {
                    // The next pass creates the part again; if that fails too, later ones are delayed.
                    Some((_, message)) if failed => Err(broken("change the load balancer", message)),
                    event => Ok(event),
                }
            }
        }
    }

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

    async fn create_vip_port(
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

    async fn create_balancer(
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
        let fixed = port.fixed_ips.first().cloned().unwrap_or_default();
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
                let vip_address = fixed.ip_address.clone();
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

    /// Requests a failover. One that Octavia refuses is a warning: the next step is another one.
    async fn fail_over(&self, observed: &mut Observed, id: &str) -> Result<EventText, ReconcileError> {
        match self.cloud.fail_over_load_balancer(id).await {
            Ok(()) => {}
            Err(error) if error.class == ErrorClass::Forbidden || error.status == Some(NOT_IMPLEMENTED) => {
                let message = format!(
                    "load balancer {id} is in ERROR, and Octavia refuses a failover: {error}. An operator of the cloud \
                     can request it. With role load-balancer_admin, Capstan can"
                );
                observed.warnings.push((FAILOVER_REFUSED, message));
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        }
        set_status(observed, CHANGING);
        Ok(Some(("LoadBalancerFailover", format!("requested a failover of load balancer {id}"))))
    }

    /// Makes one change of the parts.
    async fn change_parts(
        &self,
        step: Step,
        wish: &BalancerWish,
        observed: &mut Observed,
    ) -> Result<EventText, ReconcileError> {
        let cloud = self.cloud;
        Ok(match step {
            Step::Enable { id, .. } => {
                cloud.enable_load_balancer(&id).await?;
                Some(("LoadBalancerEnabled", format!("switched load balancer {id} on")))
            }
            Step::CreateListener { balancer, port } => {
                self.create_listener(wish, observed, balancer, port).await?
            }
            Step::SetCidrs { listener, cidrs } => {
                observed.warnings.extend(clients::warnings(wish, observed));
                cloud.set_allowed_cidrs(&listener, &cidrs).await?;
                Some(("UpdatedListener", format!("set the allowed CIDRs of listener {listener}")))
            }
            Step::SetIdleTimeout(listener) => {
                cloud.set_idle_timeout(&listener, IDLE_TIMEOUT).await?;
                Some(("UpdatedListener", format!("set the timeouts of listener {listener}")))
            }
            Step::SetAlgorithm { pool, algorithm } => {
                cloud.set_pool_algorithm(&pool, algorithm).await?;
                Some(("UpdatedPool", format!("set the algorithm of pool {pool} to {algorithm}")))
            }
            Step::SetTags { id, tags } => {
                cloud.set_tags(TaggedKind::LoadBalancer, &id, &tags).await?;
                Some(("LoadBalancerTagged", format!("set the tags of load balancer {id}")))
            }
            Step::CreatePool { listener, port } => {
                let algorithm = decide::algorithm(observed);
                let (name, tags) = (wish.part_name(port), self.tag.tags(None));
                let new = NewPool { listener_id: listener, name, tags, algorithm: algorithm.to_owned() };
                let pool = cloud.create_pool(&new).await?;
                Some(("CreatedPool", format!("created pool {} ({})", new.name, pool.id)))
            }
            Step::CreateMonitor { pool, port } => self.create_monitor(wish, observed, pool, port).await?,
            Step::UpdateMonitor(id) => {
                cloud.update_health_monitor(&id, &wish.times).await?;
                Some(("UpdatedHealthMonitor", format!("changed health monitor {id}")))
            }
            Step::AddMembers { pool, port, backends } => {
                let added = self.add_members(wish, &pool, port, &backends).await?;
                observed.balancing.added_members = Some(added.len());
                Some(("CreatedMember", format!("added {}", added.join(", "))))
            }
            Step::DrainMember { pool, id, name } => {
                self.keep_unknown_member(&name).await?;
                cloud.drain_member(&pool, &id).await?;
                Some(("MemberDrained", format!("{name} receives no new connections, because it leaves")))
            }
            Step::RemoveMember { pool, id, name } => {
                self.keep_unknown_member(&name).await?;
                gone(cloud.delete_member(&pool, &id).await)?;
                if observed.balancing.is_last_member(&pool, &id) {
                    let message =
                        format!("{name} was the last member, so the API has no server behind its address");
                    observed.warnings.push(("LoadBalancerEmpty", message));
                }
                Some(("DeletedMember", format!("removed {name} from the load balancer")))
            }
            Step::SetAgain { part, .. } => {
                let message = format!("set {part} again, which was in ERROR");
                gone(cloud.set_load_balancer_part_again(&part).await)?;
                Some(("RepairedLoadBalancerPart", message))
            }
            step => self.remove_part(step).await?,
        })
    }

    /// Waits if a member may be that of a machine which the objects of a restored backup do not have.
    async fn keep_unknown_member(&self, name: &str) -> Result<(), ReconcileError> {
        self.settings.removes_unknown(&format!("member {name} of the load balancer")).await
    }

    /// Removes a part.
    async fn remove_part(&self, step: Step) -> Result<EventText, ReconcileError> {
        let cloud = self.cloud;
        Ok(match step {
            Step::RemoveMonitor(id) => {
                gone(cloud.delete_health_monitor(&id).await)?;
                Some((
                    "DeletedHealthMonitor",
                    format!("removed health monitor {id}, which checks in another way"),
                ))
            }
            Step::RemoveListener(id) => {
                gone(cloud.delete_listener(&id).await)?;
                Some(("DeletedListener", format!("removed listener {id}")))
            }
            Step::RemovePool(id) => {
                gone(cloud.delete_pool(&id).await)?;
                Some(("DeletedPool", format!("removed pool {id}")))
            }
            Step::RemoveBroken { part, .. } => {
                let message = format!("removed {part}, which was in ERROR");
                let (event, result) = match &part {
                    LoadBalancerPart::Listener(id) => ("DeletedListener", cloud.delete_listener(id).await),
                    LoadBalancerPart::Pool(id) => ("DeletedPool", cloud.delete_pool(id).await),
                    LoadBalancerPart::HealthMonitor(id) => {
                        ("DeletedHealthMonitor", cloud.delete_health_monitor(id).await)
                    }
                    LoadBalancerPart::Member { pool, id } => {
                        ("DeletedMember", cloud.delete_member(pool, id).await)
                    }
                };
                gone(result)?;
                Some((event, message))
            }
            _ => None,
        })
    }

    async fn create_listener(
        &self,
        wish: &BalancerWish,
        observed: &mut Observed,
        load_balancer_id: String,
        protocol_port: i32,
    ) -> Result<EventText, ReconcileError> {
        let is_without = clients::passes_connections(wish, observed);
        observed.warnings.extend(limits::of_listener(&observed.balancing.limits));
        observed.warnings.extend(clients::warnings(wish, observed));
        let name = wish.part_name(protocol_port);
        let new = NewListener {
            load_balancer_id,
            name: name.clone(),
            description: self.tag.description(),
            tags: self.tag.tags(None),
            protocol_port,
            allowed_cidrs: if passes_clients(wish, observed) {
                Vec::new()
            } else {
                allowed_cidrs(wish, observed)
            },
            idle_timeout: (!is_without).then_some(IDLE_TIMEOUT),
        };
        let listener = self.cloud.create_listener(&new).await?;
        let message = format!("created listener {name} ({})", listener.id);
        observed.balancing.listeners.push(listener);
        Ok(Some(("CreatedListener", message)))
    }

    async fn create_monitor(
        &self,
        wish: &BalancerWish,
        observed: &mut Observed,
        pool_id: String,
        port: i32,
    ) -> Result<EventText, ReconcileError> {
        let (name, times) = (wish.part_name(port), wish.times.clone());
        let new = NewHealthMonitor { pool_id, name, tags: self.tag.tags(None), check: wish.check, times };
        match self.cloud.create_health_monitor(&new).await {
            Err(error) if error.status == Some(NOT_IMPLEMENTED) => {
                observed.balancing.no_monitors = true;
                observed.warnings.push(("HealthMonitorUnsupported", error.to_string()));
            }
            result => {
                let message = format!("created health monitor {} ({})", new.name, result?.id);
                return Ok(Some(("CreatedHealthMonitor", message)));
            }
        }
        Ok(None)
    }

    async fn add_members(
        &self,
        wish: &BalancerWish,
        pool: &str,
        port: i32,
        backends: &[Backend],
    ) -> Result<Vec<String>, ReconcileError> {
        let new: Vec<NewMember> =
            backends.iter().map(|backend| members::new_member(wish, self.tag, port, backend)).collect();
        let added = match new.as_slice() {
            [one] => self.cloud.create_member(pool, one).await.map(|_| 1)?,
            several => self.cloud.create_members(pool, several).await?,
        };
        let added = backends.iter().zip(&new).take(added);
        let added = added.map(|(backend, new)| format!("{} at {}:{port}", backend.machine, new.address));
        Ok(added.collect())
    }

    /// Sets annotations of the cluster.
    async fn annotate(
        &self,
        object: &mut OpenStackCluster,
        annotations: &[(&str, &str)],
    ) -> Result<(), ReconcileError> {
        let annotations: BTreeMap<&str, &str> = annotations.iter().copied().collect();
        let change = json!({"metadata": {
            "resourceVersion": object.resource_version(), "annotations": annotations,
        }});
        *object = self.api.patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(&change)).await?;
        Ok(())
    }
}

/// Returns the error of a change that Octavia could not make.
fn broken(operation: &str, message: String) -> ReconcileError {
    CloudError::new(ErrorClass::Broken, operation, message).into()
}

/// Notes the state that a change of the load balancer leads to, and the time of the change: with that of an earlier one,
/// the change would count as stuck.
pub(in super::super) fn set_status(observed: &mut Observed, status: &str) {
    let now = observed.balancing.now.to_string();
    if let Some(balancer) = &mut observed.balancing.balancer {
        status.clone_into(&mut balancer.provisioning_status);
        balancer.changed_at = now;
    }
}
