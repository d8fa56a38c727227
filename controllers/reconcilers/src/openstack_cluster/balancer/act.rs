//! Effects of the steps of a load balancer, each recorded in the observed state.

use std::collections::BTreeMap;

use apiserver_types::OpenStackCluster;
use controllers_infrastructure::{CloudError, ErrorClass};
use controllers_runtime::ReconcileError;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::super::act::{Actor, EventText, gone};
use super::super::observe::Observed;
use super::repairs::{PART_REPAIRS, RECREATIONS};
use super::{BalancerWish, ENABLED, FAILOVER, REPLACED, Step};

/// HTTP status of an option that a provider of Octavia does not have.
pub(super) const NOT_IMPLEMENTED: u16 = 501;

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

    /// Sets annotations of the cluster.
    pub(super) async fn annotate(
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
