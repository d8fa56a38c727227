//! Effects of the steps of a MachineSet.

use std::collections::BTreeMap;

use apiserver_types::{Machine, MachineSet};
use controllers_runtime::{ControllerContext, ReconcileError, Severity};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::decide::{self, Step};
use super::observe::{self, Observed};
use super::{MANAGER, finalizers_of};
use crate::applied::Applied;
use crate::replica_status::Clock;
use crate::{CLUSTER_NAME_LABEL, ownership, protection, templates};

/// Limit of the steps of one pass: more than there are, so that a step that has no effect does not repeat for ever.
const STEPS: usize = 12;

/// Writer of a pass.
pub(super) struct Actor<'a> {
    pub context: &'a ControllerContext,
    pub api: &'a Api<MachineSet>,
    pub machines: Api<Machine>,
    pub applied: &'a Applied,
    pub clock: &'a Clock,
    /// Held by the set that takes its share of the limit of a Cluster.
    pub turn: &'a Mutex<()>,
}

impl Actor<'_> {
    /// Decides and acts until a step ends the pass. Returns that step.
    pub(super) async fn work(
        &self,
        set: &mut MachineSet,
        observed: &mut Observed,
    ) -> Result<Step, ReconcileError> {
        for _ in 0..STEPS {
            let step = decide::next_step(set, observed, (self.clock)());
            Box::pin(self.act(&step, set, observed)).await?;
            if step.ends_pass() {
                return Ok(step);
            }
        }
        Err(crate::endless())
    }

    async fn act(
        &self,
        step: &Step,
        set: &mut MachineSet,
        observed: &mut Observed,
    ) -> Result<(), ReconcileError> {
        match step {
            Step::AddFinalizer => crate::finalizers::add_all(self.api, set, &finalizers_of(set)).await,
            Step::Claim => self.claim(set, observed).await,
            Step::OwnTemplates => self.own_templates(set, observed).await,
            Step::Adopt => self.adopt(set, observed).await,
            Step::DeleteAll(names) | Step::ScaleDown(names) => self.delete(set, observed, names).await,
            Step::Remediate(plan) => self.remediate(set, observed, plan).await,
            Step::Sync => {
                self.sync(set, observed).await?;
                observed.synced = true;
                Ok(())
            }
            Step::BeginUpdates(names) => self.begin_updates(set, observed, names).await,
            Step::Move(plan) => self.move_machines(set, observed, plan).await,
            Step::Sweep => self.sweep(set, observed).await,
            Step::Create(count) => {
                let created = self.create(set, observed, *count).await;
                observe::machines(self.context, set, observed).await?;
                created
            }
            _ => Ok(()),
        }
    }

    /// Adds the Cluster's label to set, selector and template, and the owner of a set that has none.
    async fn claim(&self, set: &mut MachineSet, observed: &Observed) -> Result<(), ReconcileError> {
        let Some(cluster) = &observed.cluster else { return Ok(()) };
        let mut owners = set.owner_references().to_vec();
        if observed.deployment.is_none() {
            owners = ownership::with_owner(&owners, ownership::shared(cluster));
        }
        let label = json!({CLUSTER_NAME_LABEL: set.spec.cluster_name});
        let change = json!({
            "metadata": {
                "resourceVersion": set.resource_version(), "uid": set.uid(),
                "labels": label, "ownerReferences": owners,
            },
            "spec": {"selector": {"matchLabels": label}, "template": {"metadata": {"labels": label}}},
        });
        *set = self.api.patch(&set.name_any(), &PatchParams::default(), &Patch::Merge(&change)).await?;
        Ok(())
    }

    async fn own_templates(&self, set: &MachineSet, observed: &mut Observed) -> Result<(), ReconcileError> {
        let Some(cluster) = &observed.cluster else { return Ok(()) };
        for template in std::mem::take(&mut observed.unowned) {
            let types = template.types.clone().unwrap_or_default();
            let group = types.api_version.split_once('/').map_or("", |(group, _)| group);
            let namespace = set.namespace().unwrap_or_default();
            let (api, _) = templates::api(self.context, &namespace, group, &types.kind)?;
            templates::add_owner(&api, &template, ownership::shared(cluster)).await?;
        }
        Ok(())
    }

    async fn adopt(&self, set: &MachineSet, observed: &mut Observed) -> Result<(), ReconcileError> {
        for mut machine in std::mem::take(&mut observed.orphans) {
            let owner = ownership::reference(set, true);
            let name = machine.name_any();
            match ownership::adopt(&self.machines, &mut machine, owner, &set.spec.cluster_name).await {
                Ok(()) => {
                    let message = format!("Adopted Machine {name:?}");
                    self.event(set, Severity::Normal, "SuccessfulAdopt", &message).await;
                    observed.machines.push(machine);
                }
                Err(error) => {
                    let message = format!("Failed to adopt Machine {name:?}: {error}");
                    self.event(set, Severity::Warning, "FailedAdopt", &message).await;
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Deletes Machines by name. One that is gone already is no error. One that the server refuses to delete does not keep
    /// the others.
    pub(super) async fn delete(
        &self,
        set: &MachineSet,
        observed: &mut Observed,
        names: &[String],
    ) -> Result<(), ReconcileError> {
        let mut result = Ok(());
        for name in names {
            let machine = observed.machines.iter().find(|machine| machine.name_any() == *name);
            let uid = machine.and_then(ResourceExt::uid);
            match ownership::delete(&self.machines, name, uid).await {
                Ok(()) => {
                    let message = format!("Deleted Machine {name:?}");
                    self.event(set, Severity::Normal, "SuccessfulDelete", &message).await;
                }
                Err(error) => {
                    let message = format!("Failed to delete Machine {name:?}: {error}");
                    self.event(set, Severity::Warning, "FailedDelete", &message).await;
                    if !protection::is_refusal(&error) {
                        return Err(error);
                    }
                    result = result.and(Err(error));
                }
            }
        }
        result?;
        observe::machines(self.context, set, observed).await
    }

    /// Brings metadata and settings of the existing Machines up to date.
    async fn sync(&self, set: &MachineSet, observed: &mut Observed) -> Result<(), ReconcileError> {
        for machine in &mut observed.machines {
            if machine.metadata.deletion_timestamp.is_some() {
                if let Some(change) = super::desired::deleting_machine(set, machine) {
                    let change = Patch::Merge(&change);
                    let (name, params) = (machine.name_any(), PatchParams::default());
                    *machine = self.machines.patch(&name, &params, &change).await?;
                }
                continue;
            }
            let intent = super::desired::existing_machine(set, machine);
            let key = machine.uid().unwrap_or_default();
            if !self.applied.is_current(&key, &intent, machine) {
                *machine = self.apply(&machine.name_any(), &intent).await?;
                self.applied.note(&key, &intent, machine);
            }
            self.sync_parts(set, machine).await?;
        }
        Ok(())
    }

    pub(super) async fn apply(&self, name: &str, intent: &Value) -> Result<Machine, ReconcileError> {
        let params = PatchParams::apply(MANAGER).force();
        Ok(self.machines.patch(name, &params, &Patch::Apply(intent)).await?)
    }

    /// Applies labels and annotations to the server and the bootstrap data of a Machine.
    async fn sync_parts(&self, set: &MachineSet, machine: &Machine) -> Result<(), ReconcileError> {
        let (labels, annotations) = (super::desired::labels(set), super::desired::annotations(set));
        let key = format!("{}/parts", machine.uid().unwrap_or_default());
        let intent = json!([labels, annotations]);
        if self.applied.is_current(&key, &intent, machine) {
            return Ok(());
        }
        let namespace = set.namespace().unwrap_or_default();
        let references = machine.spec.bootstrap.config_ref.iter().chain([&machine.spec.infrastructure_ref]);
        for reference in references {
            // The Machine names such a kind in its own condition.
            if !templates::is_served(self.context, reference) {
                continue;
            }
            let (api, _) = templates::api(self.context, &namespace, &reference.api_group, &reference.kind)?;
            let Some(object) = api.get_opt(&reference.name).await? else { continue };
            if object.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let origin = templates::ORIGIN
                .into_iter()
                .filter_map(|key| Some((key.to_owned(), object.annotations().get(key)?.clone())));
            let annotations: BTreeMap<String, String> =
                annotations.clone().into_iter().chain(origin).collect();
            let manager = super::METADATA_MANAGER;
            templates::apply_metadata(&api, &object, &labels, &annotations, manager).await?;
        }
        self.applied.note(&key, &intent, machine);
        Ok(())
    }

    /// Records an Event of the set.
    pub(super) async fn event(&self, set: &MachineSet, severity: Severity, reason: &str, message: &str) {
        self.context.events.record(set, severity, reason, message).await;
    }
}
