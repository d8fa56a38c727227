//! Effects of the steps of a bastion, each recorded in the observed state.

use apiserver_types::{OpenStackCluster, OpenStackServer, OpenStackServerSpec};
use controllers_infrastructure::{ErrorClass, NewFloatingIp};
use controllers_runtime::{OwnershipTag, ReconcileError};
use jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::super::act::{Actor, EventText, gone};
use super::super::observe::Observed;
use super::decide::{self, Step};
use super::{DELETING, FLOATING_IP, HASH, Progress, REPLACED};
use crate::{CLUSTER_NAME_LABEL, names, ownership};

/// Limit of the steps of one pass: more than any bastion needs, so that an endless loop ends.
const STEPS: usize = 16;

impl Actor<'_> {
    /// Works on the bastion until it waits or is complete, and records its progress. Returns the Events.
    ///
    /// # Errors
    /// The API's own. A failure of the cloud is a progress, because the cluster works without a bastion.
    pub(in super::super) async fn work_on_bastion(
        &self,
        object: &mut OpenStackCluster,
        observed: &mut Observed,
    ) -> Result<Vec<(&'static str, String)>, ReconcileError> {
        let mut events = Vec::new();
        for _ in 0..STEPS {
            let step = match decide::next_step(self.desired, self.tag, observed) {
                Step::Nothing => return Ok(events),
                Step::Wait { reason, message } => {
                    observed.bastion.progress = Progress::Waiting(reason, message);
                    return Ok(events);
                }
                step => step,
            };
            let (reason, attempt) = step.attempt(&self.bastion_name(observed));
            let result = self.once(step, &attempt, object, observed).await;
            match result.map_err(|error| error.during(|| attempt)) {
                Ok(event) => events.extend(event),
                Err(error) if is_refusal(&error) => {
                    observed.bastion.progress = Progress::Waiting(reason, error.to_string());
                    return Ok(events);
                }
                Err(error) => return Err(error),
            }
        }
        observed.bastion.progress = Progress::Waiting("BastionCreateFailed", crate::endless().to_string());
        Ok(events)
    }

    /// Makes a step, unless it creates a resource and the answer to the same call was lost a moment ago.
    async fn once(
        &self,
        step: Step,
        attempt: &str,
        object: &mut OpenStackCluster,
        observed: &mut Observed,
    ) -> Result<EventText, ReconcileError> {
        if !matches!(step, Step::CreateFloatingIp { .. }) {
            return self.step_of_bastion(step, object, observed).await;
        }
        observed.lost_calls.check(attempt, Timestamp::now())?;
        let made = self.step_of_bastion(step, object, observed).await;
        observed.lost_calls.note(attempt, made, Timestamp::now())
    }

    fn bastion_name(&self, observed: &Observed) -> String {
        let wish = self.desired.bastion.as_ref().map(|wish| wish.name.clone());
        wish.or_else(|| observed.bastion.server.as_ref().map(ResourceExt::name_any)).unwrap_or_default()
    }

    async fn step_of_bastion(
        &self,
        step: Step,
        object: &mut OpenStackCluster,
        observed: &mut Observed,
    ) -> Result<EventText, ReconcileError> {
        Ok(match step {
            Step::Create(spec) => self.create_bastion(*spec, object, observed).await?,
            Step::SetIdentity => self.set_identity(object, observed).await?,
            Step::SetTags => self.set_tags_of_bastion(object, observed).await?,
            Step::Delete { why, failed } => self.delete_bastion(why, failed, object, observed).await?,
            Step::CreateFloatingIp { external, address } => {
                self.create_bastion_ip(external, address, observed).await?
            }
            Step::Associate { floating_ip, port } => {
                self.cloud.associate_floating_ip(&floating_ip, Some(&port)).await?;
                if let Some(known) = &mut observed.bastion.floating_ip {
                    known.port_id = Some(port.clone());
                }
                let message = format!("associated floating IP {floating_ip} with port {port} of the bastion");
                Some(("AssociatedFloatingIP", message))
            }
            Step::Release { floating_ip } => {
                gone(self.cloud.delete_floating_ip(&floating_ip).await)?;
                observed.bastion.floating_ip = None;
                Some(("DeletedFloatingIP", format!("released floating IP {floating_ip} of the bastion")))
            }
            Step::RemoveGroup { id, name } => {
                match self.cloud.delete_security_group(&id).await {
                    // A port that is being deleted still has the group.
                    Err(error) if error.class == ErrorClass::Conflict => {
                        return Err(ReconcileError::waiting(DELETING, error.to_string()));
                    }
                    result => gone(result)?,
                }
                observed.bastion.retired_group = None;
                Some(("DeletedSecurityGroup", format!("deleted security group {name} ({id})")))
            }
            Step::Strike { kind, name } => {
                observed.journal.strike(kind, &name);
                None
            }
            Step::Wait { .. } | Step::Nothing => None,
        })
    }

    fn servers(&self, object: &OpenStackCluster) -> Api<OpenStackServer> {
        Api::namespaced(self.api.clone().into_client(), &object.namespace().unwrap_or_default())
    }

    async fn create_bastion(
        &self,
        spec: OpenStackServerSpec,
        object: &OpenStackCluster,
        observed: &mut Observed,
    ) -> Result<EventText, ReconcileError> {
        let Some(wish) = &self.desired.bastion else { return Ok(None) };
        let mut server = OpenStackServer::new(&wish.name, spec);
        server.metadata.namespace = object.namespace();
        server.metadata.owner_references = Some(vec![ownership::reference(object, true)]);
        let cluster = object.labels().get(CLUSTER_NAME_LABEL);
        server.metadata.labels = cluster.map(|name| [(CLUSTER_NAME_LABEL.to_owned(), name.clone())].into());
        let id = OwnershipTag::id(object);
        server.metadata.annotations =
            Some([(HASH.to_owned(), wish.hash.clone()), (names::CLUSTER_ID.to_owned(), id)].into());
        let server = self.servers(object).create(&PostParams::default(), &server).await?;
        observed.bastion.server = Some(server);
        observed.bastion.foreign = false;
        Ok(Some(("CreatedBastion", format!("created OpenStackServer {}", wish.name))))
    }

    async fn set_identity(
        &self,
        object: &OpenStackCluster,
        observed: &mut Observed,
    ) -> Result<EventText, ReconcileError> {
        let Some(wish) = &self.desired.bastion else { return Ok(None) };
        let change = Patch::Merge(json!({"spec": {"identityRef": wish.identity}}));
        let server = self.servers(object).patch(&wish.name, &PatchParams::default(), &change).await?;
        observed.bastion.server = Some(server);
        Ok(None)
    }

    async fn set_tags_of_bastion(
        &self,
        object: &OpenStackCluster,
        observed: &mut Observed,
    ) -> Result<EventText, ReconcileError> {
        let Some(wish) = &self.desired.bastion else { return Ok(None) };
        let change = json!({"metadata": {"annotations": {names::TAGS: wish.tags().join(",")}}});
        let patch = Patch::Merge(change);
        let server = self.servers(object).patch(&wish.name, &PatchParams::default(), &patch).await?;
        observed.bastion.server = Some(server);
        Ok(None)
    }

    async fn delete_bastion(
        &self,
        why: &str,
        failed: bool,
        object: &mut OpenStackCluster,
        observed: &mut Observed,
    ) -> Result<EventText, ReconcileError> {
        let Some(server) = observed.bastion.server.clone() else { return Ok(None) };
        if failed {
            self.note_replacement(object, observed).await?;
        }
        let api = self.servers(object);
        // One of the same name that was created since is not deleted.
        let same = Preconditions { uid: server.uid(), resource_version: None };
        let params = DeleteParams { preconditions: Some(same), ..DeleteParams::background() };
        match api.delete(&server.name_any(), &params).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            result => drop(result?),
        }
        observed.bastion.server = api.get_opt(&server.name_any()).await?;
        observed.bastion.port = None;
        Ok(Some(("DeletedBastion", format!("deleted OpenStackServer {}: {why}", server.name_any()))))
    }

    /// Records that a bastion in ERROR is replaced.
    async fn note_replacement(
        &self,
        object: &mut OpenStackCluster,
        observed: &mut Observed,
    ) -> Result<(), ReconcileError> {
        let view = &mut observed.bastion;
        view.replaced.push(view.now);
        let times: Vec<String> = view.replaced.iter().rev().take(4).map(Timestamp::to_string).collect();
        let times = times.join(",");
        let change = json!({"metadata": {
            "resourceVersion": object.resource_version(), "annotations": {REPLACED: times},
        }});
        *object = self.api.patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(&change)).await?;
        Ok(())
    }

    async fn create_bastion_ip(
        &self,
        network_id: String,
        address: Option<String>,
        observed: &mut Observed,
    ) -> Result<EventText, ReconcileError> {
        let description = decide::description(self.tag);
        let new = NewFloatingIp { network_id, address, description, port_id: None };
        let ip = self.cloud.create_floating_ip(&new).await?;
        observed.journal.learn(names::FLOATING_IP, FLOATING_IP, &ip.id);
        let message = format!("allocated floating IP {} ({}) for the bastion", ip.address, ip.id);
        observed.bastion.floating_ip = Some(ip);
        Ok(Some(("CreatedFloatingIP", message)))
    }
}

/// Returns true for the failure of a step that the cluster does not depend on: of the cloud, or an OpenStackServer that
/// the API refuses.
fn is_refusal(error: &ReconcileError) -> bool {
    match error {
        ReconcileError::Api(kube::Error::Api(status)) => {
            (400..500).contains(&status.code) && status.code != 409
        }
        ReconcileError::Api(_) => false,
        _ => true,
    }
}
