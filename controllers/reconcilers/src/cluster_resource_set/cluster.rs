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
use super::notes::AppliedObject;
use super::outcome::{Outcome, Words};
use super::resources::{Contents, Resourced, State, shown};
use super::settings::Settings;
use super::workload::{Method, Workload, identity};
use super::{binding, notes};

/// Most further attempts to write a binding that other sets write, too. A Cluster has few sets, and each writes the
/// binding twice per resource.
const ATTEMPTS: usize = 8;

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
        record.change(|it| binding::put(it, self.set, &resource.reference, hash.clone(), &now())).await?;
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
        if !self.settings.prune {
            return Ok(Vec::new());
        }
        let present = match self.present() {
            Ok(present) => present,
            Err(error) => return Ok(vec![error]),
        };
        let name = self.set.name_any();
        let known = notes::inventory(&record.binding, &name);
        let mut kept = notes::inventory_of_others(&record.binding, &name);
        kept.extend(present.iter().cloned());
        let mut failures = Vec::new();
        // All of them were applied, also those from before the set had the annotation.
        let mut inventory = present.clone();
        for object in known.difference(&present) {
            if let Err(error) = workload.prune(object, &kept).await {
                failures.push(error);
                inventory.insert(object.clone());
            }
        }
        let mut fits = Ok(());
        record.change(|it| fits = notes::set_inventory(it, &name, inventory.clone())).await?;
        failures.extend(fits.err());
        Ok(failures)
    }

    /// Returns all objects of the set.
    fn present(&self) -> Result<BTreeSet<AppliedObject>, String> {
        let mut present = BTreeSet::new();
        for contents in self.resources.iter().filter_map(|it| it.state.contents()) {
            present.extend(contents.objects()?.iter().map(identity));
        }
        Ok(present)
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

    /// Changes and writes the binding, if it differs then. A change concerns the entry of this set alone. So if another
    /// set has written its own entry since, the same change is made to the newer binding. A new pass would apply
    /// everything again, and two sets that take equally long would keep each other from completing.
    ///
    /// # Errors
    /// The failure of the own API; a conflict, if other sets have written first each time.
    async fn change(
        &mut self,
        mut change: impl FnMut(&mut ClusterResourceSetBinding),
    ) -> Result<(), ReconcileError> {
        let mut attempts = 0..ATTEMPTS;
        loop {
            let mut new = self.binding.clone();
            change(&mut new);
            if new == self.binding {
                return Ok(());
            }
            let written = self.api.replace(&new.name_any(), &PostParams::default(), &new).await;
            let error = match written {
                Ok(written) => {
                    self.binding = written;
                    return Ok(());
                }
                Err(error) => ReconcileError::from(error),
            };
            if attempts.next().is_none() || !error.is_conflict() {
                return Err(error);
            }
            let newer = self.api.get_opt(&new.name_any()).await?;
            match newer.filter(|it| it.metadata.uid == self.binding.metadata.uid) {
                Some(newer) => self.binding = newer,
                // It was deleted, and maybe made again: the record of this pass is lost.
                None => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use apiserver_types::ClusterResourceSetSpec;

    use super::*;
    use crate::api_in_memory::FakeApi;

    const BINDING: &str =
        "/apis/addons.cluster.x-k8s.io/v1beta2/namespaces/ns/clusterresourcesetbindings/blue";

    fn set(name: &str) -> ClusterResourceSet {
        let mut set = ClusterResourceSet::new(name, ClusterResourceSetSpec::default());
        set.metadata.namespace = Some("ns".to_owned());
        set.metadata.uid = Some(format!("uid-{name}"));
        set
    }

    fn applier<'a>(context: &'a ControllerContext, set: &'a ClusterResourceSet) -> Applier<'a> {
        Applier { context, set, resources: &[], settings: Settings::default() }
    }

    #[tokio::test]
    async fn sets_that_write_one_binding_at_the_same_time_do_not_begin_again() {
        let api = FakeApi::default();
        let context = api.context("clusterresourceset-controller");
        let (one, two) = (set("one"), set("two"));
        let (one, two) = (applier(&context, &one), applier(&context, &two));
        let mut first = Record::claim(&one, "blue").await.unwrap();
        let mut second = Record::claim(&two, "blue").await.unwrap();
        // The second set has written the binding since the first one read it.
        for (record, name) in [(&mut first, "one"), (&mut second, "two")] {
            record.change(|it| notes::set_state(it, name, true, "Applied", "", &now())).await.unwrap();
        }
        let stored: ClusterResourceSetBinding = serde_json::from_value(api.get(BINDING).unwrap()).unwrap();
        let bindings = stored.spec.bindings.as_deref().unwrap_or_default();
        let names: Vec<&str> = bindings.iter().map(|it| it.cluster_resource_set_name.as_str()).collect();
        assert_eq!(names, ["one", "two"]);
        assert_eq!(stored.owner_references().len(), 2);
        let states = &stored.annotations()["capstan.dev/resource-set-states"];
        assert!(states.contains(r#""one":{"status":"True""#) && states.contains(r#""two":{"status":"True""#));
    }
}
