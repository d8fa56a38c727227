//! Changes of the parts of a load balancer: listeners, pools, monitors and members.

use controllers_infrastructure::{
    LoadBalancerPart, NewHealthMonitor, NewListener, NewMember, NewPool, TaggedKind,
};
use controllers_runtime::ReconcileError;

use super::super::act::{Actor, EventText, gone};
use super::super::observe::Observed;
use super::act::NOT_IMPLEMENTED;
use super::{
    Backend, BalancerWish, IDLE_TIMEOUT, Step, allowed_cidrs, clients, decide, limits, members,
    passes_clients,
};
use crate::endpoint_hosts::host_and_port;

impl Actor<'_> {
    /// Makes one change of the parts.
    pub(super) async fn change_parts(
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
        let at = |new: &NewMember| host_and_port(&new.address, port);
        let added = added.map(|(backend, new)| format!("{} at {}", backend.machine, at(new)));
        Ok(added.collect())
    }
}
