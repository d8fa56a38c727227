//! Effects of the steps of a MachineDeployment.

use std::collections::BTreeMap;

use apiserver_types::rollout_settings::PROGRESS;
use apiserver_types::{MachineDeployment, MachineSet};
use controllers_runtime::{ControllerContext, ReconcileError, Severity};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::decide::{self, Roll, Step, TO_BE_CREATED};
use super::desired::{self, Revision};
use super::observe::{self, Observed};
use super::progress::Record;
use super::surge::Surge;
use super::updaters::Updaters;
use super::{MANAGER, finalizers_of, revisions, scale_down};
use crate::applied::Applied;
use crate::machine_labels::{DEPLOYMENT_NAME, REVISION};
use crate::replica_status::Clock;
use crate::{CLUSTER_NAME_LABEL, generated_names, ownership, protection, templates};

/// Limit of the steps of one pass: more than there are, so that a step that has no effect does not repeat for ever.
const STEPS: usize = 10;

/// Writer of a pass.
pub(super) struct Actor<'a> {
    pub context: &'a ControllerContext,
    pub api: &'a Api<MachineDeployment>,
    pub sets: Api<MachineSet>,
    pub applied: &'a Applied,
    pub clock: &'a Clock,
    pub surge: &'a Surge,
    pub updaters: &'a Updaters,
}

impl Actor<'_> {
    /// Decides and acts until a step ends the pass. Returns that step.
    pub(super) async fn work(
        &self,
        deployment: &mut MachineDeployment,
        observed: &mut Observed,
    ) -> Result<Step, ReconcileError> {
        for _ in 0..STEPS {
            let now = (self.clock)();
            let mut step = decide::next_step(deployment, observed, now);
            if matches!(step, Step::Roll(_)) {
                observed.in_place = self.updaters.judge(self.context, deployment, observed, now).await?;
                if decide::surges(deployment, observed, now) {
                    observed.shortage = self.surge.shortage(self.context, deployment, observed).await;
                }
                step = decide::next_step(deployment, observed, now);
            }
            Box::pin(self.act(&step, deployment, observed, now)).await?;
            if step.ends_pass() {
                return Ok(step);
            }
        }
        Err(crate::endless())
    }

    async fn act(
        &self,
        step: &Step,
        deployment: &mut MachineDeployment,
        observed: &mut Observed,
        now: Timestamp,
    ) -> Result<(), ReconcileError> {
        match step {
            Step::AddFinalizer => {
                crate::finalizers::add_all(self.api, deployment, &finalizers_of(deployment)).await
            }
            Step::Claim => self.claim(deployment, observed).await,
            Step::OwnTemplates => self.own_templates(deployment, observed).await,
            Step::Record(revisions) => self.record(deployment, revisions).await,
            Step::Adopt => self.adopt(deployment, observed).await,
            Step::DeleteAll(names) => self.delete(deployment, observed, names).await,
            Step::CleanUp(names) => self.delete(deployment, observed, names).await,
            Step::Roll(roll) => {
                // First, so that each set has copies of its templates, whatever happens to them.
                revisions::keep(self.context, deployment, observed).await?;
                self.roll(deployment, observed, roll, now).await?;
                observed.rolled = true;
                Ok(())
            }
            Step::Progress(record) => self.note(deployment, record).await,
            Step::Stop(record) => self.stop(deployment, record).await,
            _ => Ok(()),
        }
    }

    /// Adds the Cluster's label, and the Cluster as an owner that does not control.
    async fn claim(
        &self,
        deployment: &mut MachineDeployment,
        observed: &Observed,
    ) -> Result<(), ReconcileError> {
        let mut owners = deployment.owner_references().to_vec();
        if let Some(cluster) = &observed.cluster {
            owners = ownership::with_owner(&owners, ownership::shared(cluster));
        }
        let change = json!({"metadata": {
            "resourceVersion": deployment.resource_version(), "uid": deployment.uid(),
            "labels": {CLUSTER_NAME_LABEL: deployment.spec.cluster_name}, "ownerReferences": owners,
        }});
        self.patch(deployment, &change).await
    }

    /// Records the revisions of the templates from which Machines are made now.
    async fn record(
        &self,
        deployment: &mut MachineDeployment,
        revisions: &BTreeMap<&'static str, Option<String>>,
    ) -> Result<(), ReconcileError> {
        let metadata = json!({
            "resourceVersion": deployment.resource_version(), "uid": deployment.uid(), "annotations": revisions,
        });
        self.patch(deployment, &json!({"metadata": metadata})).await
    }

    /// Records the last progress.
    async fn note(&self, deployment: &mut MachineDeployment, record: &Record) -> Result<(), ReconcileError> {
        self.patch(deployment, &json!({"metadata": recorded(deployment, record)})).await
    }

    /// Pauses a MachineDeployment whose deadline is exceeded. The record says why, for later.
    async fn stop(&self, deployment: &mut MachineDeployment, record: &Record) -> Result<(), ReconcileError> {
        let change = json!({"metadata": recorded(deployment, record), "spec": {"paused": true}});
        self.patch(deployment, &change).await?;
        let message =
            "Set spec.paused, because the deadline is exceeded. Repair the cause, then set it to false";
        self.event(deployment, Severity::Warning, "RolloutPaused", message).await;
        Ok(())
    }

    async fn patch(&self, deployment: &mut MachineDeployment, change: &Value) -> Result<(), ReconcileError> {
        let (name, params) = (deployment.name_any(), PatchParams::default());
        *deployment = self.api.patch(&name, &params, &Patch::Merge(change)).await?;
        Ok(())
    }

    async fn own_templates(
        &self,
        deployment: &MachineDeployment,
        observed: &mut Observed,
    ) -> Result<(), ReconcileError> {
        let Some(cluster) = &observed.cluster else { return Ok(()) };
        for template in std::mem::take(&mut observed.unowned) {
            let types = template.types.clone().unwrap_or_default();
            let group = types.api_version.split_once('/').map_or("", |(group, _)| group);
            let namespace = deployment.namespace().unwrap_or_default();
            let (api, _) = templates::api(self.context, &namespace, group, &types.kind)?;
            templates::add_owner(&api, &template, ownership::shared(cluster)).await?;
        }
        Ok(())
    }

    async fn adopt(
        &self,
        deployment: &MachineDeployment,
        observed: &mut Observed,
    ) -> Result<(), ReconcileError> {
        for set in std::mem::take(&mut observed.orphans) {
            let mut owners = set.owner_references().to_vec();
            owners.push(ownership::reference(deployment, true));
            let change = json!({"metadata": {
                "resourceVersion": set.resource_version(), "uid": set.uid(),
                "labels": {DEPLOYMENT_NAME: deployment.name_any()}, "ownerReferences": owners,
            }});
            let name = set.name_any();
            let adopted = self.sets.patch(&name, &PatchParams::default(), &Patch::Merge(&change)).await;
            if let Err(error) = adopted {
                let error = ReconcileError::from(error);
                let message = format!("Failed to adopt MachineSet {name:?}: {error}");
                self.event(deployment, Severity::Warning, "FailedAdopt", &message).await;
                return Err(error);
            }
            let message = format!("Adopted MachineSet {name:?}");
            self.event(deployment, Severity::Normal, "SuccessfulAdopt", &message).await;
        }
        observe::sets(self.context, deployment, observed).await
    }

    /// Deletes sets by name. One that the server refuses to delete does not keep the others.
    async fn delete(
        &self,
        deployment: &MachineDeployment,
        observed: &mut Observed,
        names: &[String],
    ) -> Result<(), ReconcileError> {
        let mut result = Ok(());
        for name in names {
            let set = observed.sets.iter().find(|set| set.name_any() == *name);
            if let Err(error) = ownership::delete(&self.sets, name, set.and_then(ResourceExt::uid)).await {
                let message = format!("Failed to delete MachineSet {name:?}: {error}");
                self.event(deployment, Severity::Warning, "FailedDelete", &message).await;
                if !protection::is_refusal(&error) {
                    return Err(error);
                }
                result = result.and(Err(error));
                continue;
            }
            let message = format!("Deleted MachineSet {name:?}");
            self.event(deployment, Severity::Normal, "SuccessfulDelete", &message).await;
        }
        result?;
        observe::sets(self.context, deployment, observed).await
    }

    /// Brings all sets to their planned numbers, the new one first. `now` is the time of the plan.
    async fn roll(
        &self,
        deployment: &mut MachineDeployment,
        observed: &mut Observed,
        roll: &Roll,
        now: Timestamp,
    ) -> Result<(), ReconcileError> {
        let is_new = |set: &&MachineSet| Some(set.name_any()) == roll.new;
        let old: Vec<&MachineSet> = observed.sets.iter().filter(|set| !is_new(set)).collect();
        let new = observed.sets.iter().find(is_new);
        // While a scale-down waits, the sets keep the number that they were planned for.
        let waiting = new.filter(|_| roll.replicas.is_empty());
        let held = waiting.and_then(|new| scale_down::held(deployment, observed, new, now));
        let held = held.map(|replicas| scale_down::with_replicas(deployment, replicas));
        let sized = held.as_ref().unwrap_or(&*deployment);
        let revision = roll.new.is_some().then(|| desired::new_revision(new, &old));
        let is_missing = roll.new.as_deref() == Some(TO_BE_CREATED);
        if let (Some(revision), true) = (&revision, is_missing) {
            self.create(deployment, roll, revision).await?;
        }
        if let (Some(new), Some(revision)) = (new, &revision) {
            self.bring(sized, new, roll, (revision, false)).await?;
        }
        for set in old {
            self.bring(sized, set, roll, (&desired::old_revision(set), true)).await?;
        }
        if let Some(revision) =
            revision.filter(|it| deployment.annotations().get(REVISION) != Some(&it.number))
        {
            let metadata = json!({
                "resourceVersion": deployment.resource_version(), "uid": deployment.uid(),
                "annotations": {REVISION: revision.number},
            });
            self.patch(deployment, &json!({"metadata": metadata})).await?;
        }
        observe::sets(self.context, deployment, observed).await
    }

    async fn create(
        &self,
        deployment: &MachineDeployment,
        roll: &Roll,
        revision: &Revision,
    ) -> Result<(), ReconcileError> {
        let replicas = roll.replicas.get(TO_BE_CREATED).copied().unwrap_or_default();
        let intent = desired::new_set(deployment, &generated_names::random(), replicas, revision);
        let name = intent.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        match self.apply(name, &intent).await {
            Ok(_) => {
                let namespace = deployment.namespace().unwrap_or_default();
                let message = format!("Created MachineSet {namespace}/{name} with {replicas} replicas");
                self.event(deployment, Severity::Normal, "SuccessfulCreate", &message).await;
                Ok(())
            }
            Err(error) => {
                // Each attempt has another name; with it, each would be an Event of its own.
                let all = format!("{}-*", deployment.name_any());
                let text = error.to_string().replace(name, &all);
                let message = format!("Failed to create MachineSet {all:?}: {text}");
                self.event(deployment, Severity::Warning, "FailedCreate", &message).await;
                Err(error)
            }
        }
    }

    /// Brings an existing set to its planned number, and its metadata and settings up to date.
    async fn bring(
        &self,
        deployment: &MachineDeployment,
        set: &MachineSet,
        roll: &Roll,
        (revision, is_old): (&Revision, bool),
    ) -> Result<(), ReconcileError> {
        let (name, before) = (set.name_any(), i64::from(set.spec.replicas.unwrap_or_default()));
        let after = roll.replicas.get(&name).copied().unwrap_or(before);
        let mut intent = desired::existing_set(deployment, set, after, revision, is_old);
        for (key, value) in roll.marks.get(&name).into_iter().flatten() {
            intent["metadata"]["annotations"][*key] = json!(value);
        }
        let key = set.uid().unwrap_or_default();
        if set.metadata.deletion_timestamp.is_some() || self.applied.is_current(&key, &intent, set) {
            return Ok(());
        }
        match self.apply(&name, &intent).await {
            Ok(applied) => self.applied.note(&key, &intent, &applied),
            Err(error) => {
                let reason = if after == before { "FailedUpdate" } else { "FailedScale" };
                let message = format!("Failed to update MachineSet {name:?}: {error}");
                self.event(deployment, Severity::Warning, reason, &message).await;
                return Err(error);
            }
        }
        if after != before {
            let direction = match deployment.spec.paused {
                Some(true) => "Scaled",
                _ if after > before => "Scaled up",
                _ => "Scaled down",
            };
            let message = format!("{direction} MachineSet {name}: {before} -> {after}");
            self.event(deployment, Severity::Normal, "SuccessfulScale", &message).await;
        }
        Ok(())
    }

    async fn apply(&self, name: &str, intent: &Value) -> Result<MachineSet, ReconcileError> {
        let params = PatchParams::apply(MANAGER).force();
        Ok(self.sets.patch(name, &params, &Patch::Apply(intent)).await?)
    }

    pub(super) async fn event(
        &self,
        deployment: &MachineDeployment,
        severity: Severity,
        reason: &str,
        message: &str,
    ) {
        self.context.events.record(deployment, severity, reason, message).await;
    }
}

/// Returns the metadata that records the last progress, unless another client has changed the object.
fn recorded(deployment: &MachineDeployment, record: &Record) -> Value {
    json!({
        "resourceVersion": deployment.resource_version(), "uid": deployment.uid(),
        "annotations": {PROGRESS: record.text()},
    })
}
