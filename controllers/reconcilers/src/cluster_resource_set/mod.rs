//! ClusterResourceSet reconciler: manifests in ConfigMaps and Secrets, applied to the Clusters with certain labels.
//!
//! The ClusterResourceSetBinding of a Cluster records each resource before and after it is applied.

mod binding;
#[cfg(test)]
mod bundles_tests;
mod cluster;
mod decide;
mod manifests;
mod notes;
mod outcome;
mod readiness;
mod report;
mod resources;
mod settings;
mod watch;
mod workload;

use std::time::Duration;

use apiserver_types::{Cluster, ClusterResourceSet, ClusterResourceSetBinding};
use controllers_runtime::{
    ControllerContext, ControllerSpec, PolicyRule, ReconcileError, Requeue, Severity, now, paused,
    write_status,
};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use kube::api::{DeleteParams, ListParams, PostParams, Preconditions};
use kube::{Api, ResourceExt};

use crate::retries::Retries;
use crate::{finalizers, selectors};
use cluster::Applier;
use outcome::Outcome;
use report::{APPLIED, Result as Reported};
use resources::{Resourced, State};

/// Specification of this controller.
pub const CONTROLLER: ControllerSpec = ControllerSpec {
    identity: "clusterresourceset-controller",
    rules: &[
        PolicyRule {
            groups: &["addons.cluster.x-k8s.io"],
            resources: &[
                "clusterresourcesets",
                "clusterresourcesets/status",
                "clusterresourcesets/finalizers",
            ],
            verbs: PolicyRule::CHANGE,
        },
        PolicyRule {
            groups: &["addons.cluster.x-k8s.io"],
            resources: &["clusterresourcesetbindings"],
            verbs: PolicyRule::WRITE,
        },
        PolicyRule { groups: &["cluster.x-k8s.io"], resources: &["clusters"], verbs: PolicyRule::READ },
        PolicyRule { groups: &[""], resources: &["configmaps"], verbs: PolicyRule::CHANGE },
        PolicyRule { groups: &[""], resources: &["secrets"], verbs: &["get", "list", "watch", "update"] },
        PolicyRule { groups: &[""], resources: &["namespaces"], verbs: PolicyRule::READ },
    ],
    run: |context, shutdown| Box::pin(watch::run(context, shutdown)),
};

/// Finalizer that keeps a set until its entries in bindings are removed. Upstream's name.
const FINALIZER: &str = "addons.cluster.x-k8s.io";

/// Number of Clusters of one set that are worked on at the same time.
const CLUSTERS: usize = 8;

/// Interval after a conflict about a binding, which the sets of a Cluster share. Upstream's.
const CONFLICT: Duration = Duration::from_millis(100);

/// Longest interval of a set whose resources cannot be applied: changes in a host cluster, and objects that become ready
/// in a workload cluster, are not reported by a watch.
const WAITING: Duration = Duration::from_secs(30);

/// Interval behind the watches. It bounds the time without a connection of which no event came.
const RESYNC: Duration = Duration::from_mins(10);

/// Interval after a failure of the API itself.
const AGAIN: Duration = Duration::from_secs(5);

/// Reconciler of ClusterResourceSets.
#[derive(Debug)]
pub struct ClusterResourceSetReconciler {
    context: ControllerContext,
    retries: Retries,
}

impl ClusterResourceSetReconciler {
    /// Creates a reconciler.
    pub fn new(context: ControllerContext) -> Self {
        Self { context, retries: Retries::default() }
    }

    /// Makes one pass. Returns when the next one is due.
    ///
    /// # Errors
    /// The API's own failure.
    pub async fn reconcile(&self, object: &ClusterResourceSet) -> Result<Requeue, kube::Error> {
        match Box::pin(self.pass(object)).await {
            Err(error) if error.is_conflict() => Ok(Requeue::After(CONFLICT)),
            result => Requeue::after(result, AGAIN),
        }
    }

    async fn pass(&self, object: &ClusterResourceSet) -> Result<Option<Duration>, ReconcileError> {
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<ClusterResourceSet> = Api::namespaced(self.context.client.clone(), &namespace);
        let Some(mut set) = api.get_opt(&object.name_any()).await? else {
            self.retries.forget(&object.uid().unwrap_or_default());
            return Ok(None);
        };
        if paused(&set, None) {
            let mut new = set.clone();
            report::report_pause(&mut new, &now());
            write_status(&api, &set, &new).await?;
            return Ok(None);
        }
        if set.metadata.deletion_timestamp.is_some() {
            self.release(&set).await?;
            finalizers::remove(&api, &set, FINALIZER).await?;
            return Ok(None);
        }
        finalizers::add(&api, &mut set, FINALIZER).await?;
        let (result, repeat) = self.apply(&set).await?;
        self.report(&api, &set, &result).await?;
        Ok(self.interval(&set, &result, repeat))
    }

    /// Applies the set to all of its Clusters. Returns the results, and the time until resources are applied again.
    async fn apply(&self, set: &ClusterResourceSet) -> Result<(Reported, Option<Duration>), ReconcileError> {
        let settings = match settings::read(set) {
            Ok(settings) => settings,
            Err(message) => return Ok((Reported::Refused("NotApplied", message, "ApplyFailed"), None)),
        };
        let clusters = self.clusters(set).await?;
        if clusters.is_empty() {
            return Ok((Reported::Clusters(Vec::new()), None));
        }
        let resources = resources::read(&self.context, set).await?;
        if let Some(message) = wrong_type(&resources) {
            return Ok((Reported::Refused("WrongSecretType", message, "WrongSecretType"), None));
        }
        let applier = Applier { context: &self.context, set, resources: &resources, settings };
        let work: Vec<BoxFuture<'_, _>> =
            clusters.iter().map(|cluster| applier.apply(cluster).boxed()).collect();
        // In the order of the Clusters.
        let results: Vec<_> = futures::stream::iter(work).buffered(CLUSTERS).collect().await;
        let (mut outcomes, mut repeat) = (Vec::new(), None::<Duration>);
        for (cluster, result) in clusters.iter().zip(results) {
            let (outcome, again) = result?;
            repeat = repeat.into_iter().chain(again).min();
            outcomes.push((cluster.name_any(), outcome));
        }
        Ok((Reported::Clusters(outcomes), repeat))
    }

    /// Returns the Clusters that the set selects, without those that are being deleted.
    async fn clusters(&self, set: &ClusterResourceSet) -> Result<Vec<Cluster>, ReconcileError> {
        let namespace = set.namespace().unwrap_or_default();
        let api: Api<Cluster> = Api::namespaced(self.context.client.clone(), &namespace);
        let all = api.list(&ListParams::default()).await?.items;
        let is_selected = |cluster: &Cluster| {
            cluster.metadata.deletion_timestamp.is_none()
                && selectors::selects(&set.spec.cluster_selector, cluster.labels())
        };
        Ok(all.into_iter().filter(is_selected).collect())
    }

    /// Removes the set from all bindings. Bindings without an entry are deleted. Applied objects stay.
    async fn release(&self, set: &ClusterResourceSet) -> Result<(), ReconcileError> {
        let namespace = set.namespace().unwrap_or_default();
        let api: Api<ClusterResourceSetBinding> = Api::namespaced(self.context.client.clone(), &namespace);
        for mut it in api.list(&ListParams::default()).await?.items {
            if !binding::concerns(&it, set) {
                continue;
            }
            let name = it.name_any();
            if binding::release(&mut it, set) {
                // Another set may have added an entry.
                let preconditions = Preconditions { resource_version: it.resource_version(), uid: it.uid() };
                let parameters = DeleteParams::default().preconditions(preconditions);
                match api.delete(&name, &parameters).await {
                    Err(kube::Error::Api(status)) if status.code == 404 => {}
                    result => drop(result?),
                }
            } else {
                api.replace(&name, &PostParams::default(), &it).await?;
            }
        }
        Ok(())
    }

    /// Writes the status, and an Event if the result is another one.
    async fn report(
        &self,
        api: &Api<ClusterResourceSet>,
        set: &ClusterResourceSet,
        result: &Reported,
    ) -> Result<(), ReconcileError> {
        let mut new = set.clone();
        report::report(&mut new, result, &now());
        let written = write_status(api, set, &new).await?;
        let words = |set: &ClusterResourceSet| {
            set.condition(APPLIED).map(|it| (it.status, it.reason.clone(), it.message.clone()))
        };
        let Some(condition) = written.condition(APPLIED).filter(|_| words(set) != words(&written)) else {
            return Ok(());
        };
        let events = &self.context.events;
        let has_clusters = !matches!(result, Reported::Clusters(all) if all.is_empty());
        match condition.holds() {
            true if has_clusters => {
                let message = "the resources are applied to all selected Clusters";
                events.record(&written, Severity::Normal, "Applied", message).await;
            }
            true => {}
            false => events.record(&written, Severity::Warning, &condition.reason, &condition.message).await,
        }
        Ok(())
    }

    fn interval(
        &self,
        set: &ClusterResourceSet,
        result: &Reported,
        repeat: Option<Duration>,
    ) -> Option<Duration> {
        let uid = set.uid().unwrap_or_default();
        let outcomes: &[(String, Outcome)] = match result {
            Reported::Refused(..) => return Some(WAITING),
            Reported::Clusters(all) => all,
        };
        let fails = |it: &Outcome| matches!(it, Outcome::Failed(_) | Outcome::Unready(_));
        let failed = outcomes.iter().any(|(_, outcome)| fails(outcome));
        let missing = outcomes.iter().any(|(_, outcome)| matches!(outcome, Outcome::Missing(_)));
        let longest = if failed || missing { WAITING } else { RESYNC };
        let waited = self.retries.after(&uid, failed, Some(longest));
        waited.into_iter().chain(repeat).min()
    }
}

/// Returns the message about Secrets that may not be resources. Nothing is applied then: the set has a wrong name.
fn wrong_type(resources: &[Resourced]) -> Option<String> {
    let wrong = resources.iter().filter(|it| matches!(it.state, State::WrongType));
    let all: Vec<String> = wrong.filter_map(|it| it.state.obstacle(&it.reference)).collect();
    (!all.is_empty()).then(|| all.join("; "))
}
