//! Effects of moves and of the begin of updates in place. Each can be repeated: an update begins with the last write.

use apiserver_types::{ContractVersionedObjectReference, Machine, MachineSet};
use controllers_runtime::{ReconcileError, Severity};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::act::Actor;
use super::create::is_refused;
use super::moves::Move;
use super::observe::{self, Observed};
use super::{MANAGER, desired, spread};
use crate::in_place::{PENDING_ACKNOWLEDGE, PENDING_HOOKS, RECEIVE_FROM, listed, with_hook};
use crate::machine_labels::{TEMPLATE_HASH, UPDATING};
use crate::{ownership, templates};

impl Actor<'_> {
    /// Lets Machines leave for another set. That set updates them.
    pub(super) async fn move_machines(
        &self,
        set: &MachineSet,
        observed: &mut Observed,
        plan: &Move,
    ) -> Result<(), ReconcileError> {
        if !plan.deletions.is_empty() {
            self.delete(set, observed, &plan.deletions).await?;
        }
        if plan.machines.is_empty() {
            return Ok(());
        }
        let target = self.receiver(set, &plan.target).await?;
        for name in &plan.machines {
            let Some(machine) = observed.machines.iter().find(|it| it.name_any() == *name) else { continue };
            let change = json!({"metadata": moved(set, &target, machine)});
            self.machines.patch(name, &PatchParams::default(), &Patch::Merge(&change)).await?;
            let message =
                format!("Moved Machine {name:?} to MachineSet {} for an update in place", plan.target);
            self.event(set, Severity::Normal, "SuccessfulMove", &message).await;
        }
        observe::machines(self.context, set, observed).await
    }

    /// Reads the set that receives the Machines of a set. Both have to name each other.
    async fn receiver(&self, set: &MachineSet, name: &str) -> Result<MachineSet, ReconcileError> {
        let found = self.api.get_opt(name).await?.filter(|it| it.metadata.deletion_timestamp.is_none());
        let own = set.name_any();
        let accepts = |it: &MachineSet| {
            let receives = listed(it.annotations().get(RECEIVE_FROM)).contains(own.as_str());
            receives && it.labels().contains_key(TEMPLATE_HASH)
        };
        found.filter(accepts).ok_or_else(|| {
            let message = format!(
                "MachineSet {own} is to move Machines to MachineSet {name}, which does not accept them (annotation \
                 {RECEIVE_FROM}). The MachineDeployment corrects one of both"
            );
            ReconcileError::waiting("MoveNotAccepted", message)
        })
    }

    /// Begins the updates of moved Machines. One whose objects cannot be changed does not keep the others.
    pub(super) async fn begin_updates(
        &self,
        set: &MachineSet,
        observed: &mut Observed,
        names: &[String],
    ) -> Result<(), ReconcileError> {
        for name in names {
            let Some(machine) = observed.machines.iter().find(|it| it.name_any() == *name) else { continue };
            let events = &self.context.events;
            match self.begin_update(set, observed, machine).await {
                Ok(()) => {
                    let (reason, message) = ("SuccessfulStartInPlaceUpdate", "The update in place begins");
                    events.record(machine, Severity::Normal, reason, message).await;
                }
                Err(error) if is_refused(&error) || matches!(error, ReconcileError::Waiting { .. }) => {
                    let message = format!("The update in place cannot begin: {error}");
                    events.record(machine, Severity::Warning, "FailedStartInPlaceUpdate", &message).await;
                    observed.is_unbegun = true;
                }
                Err(error) => return Err(error),
            }
        }
        observed.begun = true;
        observe::machines(self.context, set, observed).await
    }

    /// Brings a Machine and its objects to the template of the set. The object of the server comes first, because it is the
    /// one that is most likely refused. The hook comes last: with it, the controller of Machines calls the extension server.
    async fn begin_update(
        &self,
        set: &MachineSet,
        observed: &Observed,
        machine: &Machine,
    ) -> Result<(), ReconcileError> {
        let template = &set.spec.template.spec;
        let server = (&template.infrastructure_ref, &machine.spec.infrastructure_ref);
        self.update_part(set, observed, "infrastructureRef", server).await?;
        let config = template.bootstrap.config_ref.as_ref().zip(machine.spec.bootstrap.config_ref.as_ref());
        if let Some(config) = config {
            self.update_part(set, observed, "bootstrap.configRef", config).await?;
        }
        let is_spread = observed.deployment.as_ref().is_some_and(spread::is_spread);
        let name = machine.name_any();
        let updated = self.apply(&name, &desired::updated_machine(set, machine, is_spread)).await?;
        let change = json!({"metadata": {
            "resourceVersion": updated.resource_version(), "uid": updated.uid(),
            "annotations": {PENDING_ACKNOWLEDGE: null, PENDING_HOOKS: with_hook(&updated)},
        }});
        self.machines.patch(&name, &PatchParams::default(), &Patch::Merge(&change)).await?;
        Ok(())
    }

    /// Brings an object of a Machine to its template. `field` is that of the reference to the template.
    async fn update_part(
        &self,
        set: &MachineSet,
        observed: &Observed,
        field: &'static str,
        (template, part): (&ContractVersionedObjectReference, &ContractVersionedObjectReference),
    ) -> Result<(), ReconcileError> {
        let namespace = set.namespace().unwrap_or_default();
        let live = templates::read(self.context, &namespace, part).await?;
        let Some(live) = live.filter(|it| it.metadata.deletion_timestamp.is_none()) else {
            let message = format!("{} {} does not exist", part.kind, part.name);
            return Err(ReconcileError::waiting("ObjectDoesNotExist", message));
        };
        let (labels, annotations) = (desired::labels(set), desired::annotations(set));
        let wish = templates::Clone {
            template,
            namespace: &namespace,
            name: &part.name,
            cluster: &set.spec.cluster_name,
            labels: &labels,
            annotations: &annotations,
            owner: ownership::reference(set, false),
            earlier: observed.earlier.get(field),
        };
        templates::apply_update(self.context, &wish, live.uid(), MANAGER, false).await.map(drop)
    }
}

/// Returns the metadata of a Machine that leaves a set for another one: owner, label of the selector, and marks.
fn moved(set: &MachineSet, target: &MachineSet, machine: &Machine) -> Value {
    let others = machine.owner_references().iter().filter(|it| Some(&it.uid) != set.metadata.uid.as_ref());
    let mut owners: Vec<OwnerReference> = others.cloned().collect();
    owners.push(ownership::reference(target, true));
    json!({
        "resourceVersion": machine.resource_version(), "uid": machine.uid(), "ownerReferences": owners,
        "labels": {TEMPLATE_HASH: target.labels().get(TEMPLATE_HASH)},
        "annotations": {UPDATING: "", PENDING_ACKNOWLEDGE: ""},
    })
}

#[cfg(test)]
mod tests {
    use apiserver_types::{MachineSetSpec, MachineSpec};

    use super::*;

    #[test]
    fn a_moved_machine_has_the_other_set_as_its_only_controller_and_does_not_count_there_yet() {
        let set = |name: &str| {
            let mut set = MachineSet::new(name, MachineSetSpec::default());
            set.metadata.uid = Some(format!("uid-{name}"));
            set.labels_mut().insert(TEMPLATE_HASH.to_owned(), format!("hash-{name}"));
            set
        };
        let mut machine = Machine::new("m", MachineSpec::default());
        machine.metadata.owner_references = Some(vec![ownership::reference(&set("old"), true)]);
        let moved = moved(&set("old"), &set("new"), &machine);
        assert_eq!(moved["ownerReferences"], json!([ownership::reference(&set("new"), true)]));
        assert_eq!(moved["labels"], json!({TEMPLATE_HASH: "hash-new"}));
        assert_eq!(moved["annotations"], json!({UPDATING: "", PENDING_ACKNOWLEDGE: ""}));
    }
}
