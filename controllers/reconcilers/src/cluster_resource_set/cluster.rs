//! A set on one Cluster: its resources are applied, and the binding records it before and after.

use std::collections::BTreeSet;
use std::time::Duration;

use apiserver_types::{Cluster, ClusterResourceSet, ClusterResourceSetBinding};
use controllers_runtime::{ControllerContext, ReconcileError, now};
use controllers_workload::ClusterKey;
use jiff::Timestamp;
use kube::api::PostParams;
use kube::core::DynamicObject;
use kube::{Api, ResourceExt};

use super::decide::{self, Progress, Step};
use super::outcome::{Outcome, Words};
use super::resources::{Contents, Resourced, State, shown};
use super::settings::Settings;
use super::workload::{Method, Workload, identity};
use super::{binding, notes};

/// A set, and what all of its Clusters have in common.
pub(super) struct Applier<'a> {
    pub context: &'a ControllerContext,
    pub set: &'a ClusterResourceSet,
    pub resources: &'a [Resourced],
    pub settings: Settings,
}

impl Applier<'_> {
    /// Applies the set to a Cluster. Returns the result, and the time until resources are applied again.
    ///
    /// # Errors
    /// The failure of the own API: a conflict, if another set has written the binding.
    pub(super) async fn apply(
        &self,
        cluster: &Cluster,
    ) -> Result<(Outcome, Option<Duration>), ReconcileError> {
        let mut record = Record::claim(self, &cluster.name_any()).await?;
        let outcome = self.outcome(cluster, &mut record).await?;
        let words = Words::of(&outcome);
        let name = self.set.name_any();
        let applied = outcome == Outcome::Applied;
        record
            .change(|binding| notes::set_state(binding, &name, applied, words.reason, &words.message, &now()))
            .await?;
        let (name, moment) = (self.set.name_any(), Timestamp::now());
        let repeats = self.set.spec.resources.iter().filter_map(|it| {
            decide::until_repeat(binding::record(&record.binding, &name, it)?, self.settings, moment)
        });
        Ok((outcome, repeats.min()))
    }

    async fn outcome(&self, cluster: &Cluster, record: &mut Record<'_>) -> Result<Outcome, ReconcileError> {
        let key = ClusterKey { namespace: cluster.namespace().unwrap_or_default(), name: cluster.name_any() };
        let client = match self.context.workloads.client(&key) {
            Ok(client) => client,
            Err(error) => return Ok(Outcome::NotConnected(error.to_string())),
        };
        let mut workload = Workload::new(client);
        let mut progress = self.progress(&record.binding);
        let mut failures = Vec::new();
        loop {
            match decide::next_step(&progress, self.settings) {
                Step::Apply(index) => {
                    failures.extend(self.apply_one(index, record, &mut workload).await?);
                    progress.iter_mut().skip(index).take(1).for_each(|it| it.attempted = true);
                }
                Step::LookAtReadiness(index) => match self.unready(index, &mut workload).await {
                    Ok(unready) if unready.is_empty() => {
                        progress.iter_mut().skip(index).take(1).for_each(|it| it.ready = true);
                    }
                    Ok(unready) if failures.is_empty() => return Ok(Outcome::Unready(unready.join(", "))),
                    Ok(_) => break,
                    Err(error) => {
                        failures.push(error);
                        break;
                    }
                },
                Step::Finish => break,
            }
        }
        if !failures.is_empty() {
            return Ok(Outcome::Failed(failures));
        }
        let missing = self.resources.iter().filter_map(|it| it.state.obstacle(&it.reference));
        let missing: Vec<String> = missing.collect();
        if !missing.is_empty() {
            return Ok(Outcome::Missing(missing));
        }
        let failures = self.prune(record, &mut workload).await?;
        Ok(if failures.is_empty() { Outcome::Applied } else { Outcome::Failed(failures) })
    }

    fn progress(&self, binding: &ClusterResourceSetBinding) -> Vec<Progress> {
        let (name, now) = (self.set.name_any(), Timestamp::now());
        let of = |it: &Resourced| {
            let record = binding::record(binding, &name, &it.reference);
            let is_due = |contents: &Contents| decide::is_due(record, &contents.hash(), self.settings, now);
            Progress { due: it.state.contents().is_some_and(is_due), ..Progress::default() }
        };
        self.resources.iter().map(of).collect()
    }

    /// Applies one resource, between two writes of the binding: after a crash in between it is applied again.
    async fn apply_one(
        &self,
        index: usize,
        record: &mut Record<'_>,
        workload: &mut Workload,
    ) -> Result<Vec<String>, ReconcileError> {
        let Some((resource, contents)) = self.found(index) else { return Ok(Vec::new()) };
        let name = shown(&resource.reference);
        let objects = match contents.objects() {
            Ok(objects) => objects,
            Err(error) => {
                record.change(|it| binding::put(it, self.set, &resource.reference, None, &now())).await?;
                return Ok(vec![format!("{name}: {error}")]);
            }
        };
        if let Err(error) = self.begin(&resource.reference, &objects, record).await? {
            return Ok(vec![error]);
        }
        let method = match (self.settings.reconcile, self.settings.reapply) {
            (false, _) => Method::Create,
            (true, None) => Method::Merge,
            (true, Some(_)) => Method::Apply,
        };
        let failures = workload.apply(&objects, method).await;
        let hash = failures.is_empty().then(|| contents.hash());
        record.change(|it| binding::put(it, self.set, &resource.reference, hash, &now())).await?;
        Ok(failures.into_iter().map(|error| format!("{name}: {error}")).collect())
    }

    /// Records that a resource is about to be applied, and its objects if they are deleted when they leave the set.
    async fn begin(
        &self,
        resource: &apiserver_types::ResourceRef,
        objects: &[DynamicObject],
        record: &mut Record<'_>,
    ) -> Result<Result<(), String>, ReconcileError> {
        let name = self.set.name_any();
        let mut fits = Ok(());
        let set = self.set;
        record
            .change(|it| {
                binding::put(it, set, resource, None, &now());
                if self.settings.prune {
                    let mut known = notes::inventory(it, &name);
                    known.extend(objects.iter().map(identity));
                    fits = notes::set_inventory(it, &name, known);
                }
            })
            .await?;
        Ok(fits)
    }

    async fn unready(&self, index: usize, workload: &mut Workload) -> Result<Vec<String>, String> {
        let Some((_, contents)) = self.found(index) else { return Ok(Vec::new()) };
        workload.unready(&contents.objects()?).await
    }

    /// Deletes the objects that have left the set. It is called when all resources were read and applied.
    async fn prune(
        &self,
        record: &mut Record<'_>,
        workload: &mut Workload,
    ) -> Result<Vec<String>, ReconcileError> {
        let name = self.set.name_any();
        if !self.settings.prune {
            return Ok(Vec::new());
        }
        let known = notes::inventory(&record.binding, &name);
        let mut present = BTreeSet::new();
        for contents in self.resources.iter().filter_map(|it| it.state.contents()) {
            match contents.objects() {
                Ok(objects) => present.extend(objects.iter().map(identity)),
                Err(error) => return Ok(vec![error]),
            }
        }
        let mut failures = Vec::new();
        let mut left = present.clone();
        for object in known.difference(&present) {
            match workload.prune(object).await {
                Ok(_) => {}
                Err(error) => {
                    failures.push(error);
                    left.insert(object.clone());
                }
            }
        }
        // Only objects that were recorded before have been applied by this set.
        left.retain(|object| known.contains(object));
        record
            .change(|it| {
                // Fewer objects than before always fit.
                let _ = notes::set_inventory(it, &name, left);
            })
            .await?;
        Ok(failures)
    }

    fn found(&self, index: usize) -> Option<(&Resourced, &Contents)> {
        let resource = self.resources.get(index)?;
        Some((resource, resource.state.contents()?))
    }
}

impl State {
    pub(super) fn contents(&self) -> Option<&Contents> {
        match self {
            Self::Found(contents) => Some(contents),
            _ => None,
        }
    }
}

/// Binding of a Cluster. Its revision guards each write.
struct Record<'a> {
    api: Api<ClusterResourceSetBinding>,
    binding: ClusterResourceSetBinding,
    applier: &'a Applier<'a>,
}

impl<'a> Record<'a> {
    /// Reads the binding, or makes it, with an entry of the set.
    async fn claim(applier: &'a Applier<'a>, cluster: &str) -> Result<Self, ReconcileError> {
        let namespace = applier.set.namespace().unwrap_or_default();
        let api = Api::namespaced(applier.context.client.clone(), &namespace);
        let binding = match api.get_opt(cluster).await? {
            Some(found) => found,
            None => {
                let mut new = binding::new(&namespace, cluster);
                binding::claim(&mut new, applier.set);
                api.create(&PostParams::default(), &new).await?
            }
        };
        let mut record = Self { api, binding, applier };
        let set = record.applier.set;
        record.change(|it| binding::claim(it, set)).await?;
        Ok(record)
    }

    /// Changes and writes the binding, if it differs then.
    async fn change(
        &mut self,
        change: impl FnOnce(&mut ClusterResourceSetBinding),
    ) -> Result<(), ReconcileError> {
        let mut new = self.binding.clone();
        change(&mut new);
        if new != self.binding {
            self.binding = self.api.replace(&new.name_any(), &PostParams::default(), &new).await?;
        }
        Ok(())
    }
}
