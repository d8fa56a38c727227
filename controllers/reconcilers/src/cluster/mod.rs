//! Cluster reconciler: owner references, endpoint, order of deletion, and one status for all parts.
//!
//! A pass observes once, then decides and acts until a step ends it, and reports once.

mod act;
mod aggregates;
mod conditions;
mod connections;
mod decide;
mod deprecated;
mod descendants;
mod kubeconfig;
mod observe;
mod report;
mod watch;
mod workload_cleanup;

use std::time::Duration;

use apiserver_types::Cluster;
use controllers_runtime::{
    ControllerContext, ControllerSpec, PolicyRule, ReconcileError, Requeue, Severity, now, write_status,
};
use kube::{Api, ResourceExt};

use act::Actor;
use decide::Step;
use observe::Observed;

use crate::first_attempts::FirstAttempts;

/// Specification of this controller.
pub const CONTROLLER: ControllerSpec = ControllerSpec {
    identity: "cluster-controller",
    rules: &[
        PolicyRule {
            groups: &["cluster.x-k8s.io"],
            resources: &["clusters", "clusters/status", "machines"],
            verbs: PolicyRule::DELETE,
        },
        PolicyRule {
            groups: &["cluster.x-k8s.io"],
            resources: &["machinehealthchecks", "machinepools", "machinedeployments", "machinesets"],
            verbs: &["get", "list", "watch", "delete"],
        },
        PolicyRule { groups: &["cluster.x-k8s.io"], resources: &["clusterclasses"], verbs: PolicyRule::READ },
        PolicyRule {
            groups: &["controlplane.cluster.x-k8s.io"],
            resources: &["kubeadmcontrolplanes"],
            verbs: PolicyRule::DELETE,
        },
        PolicyRule::WRITE_SECRETS,
        PolicyRule {
            groups: &["infrastructure.cluster.x-k8s.io"],
            resources: &["openstackclusters"],
            verbs: PolicyRule::DELETE,
        },
    ],
    run: |context, shutdown| Box::pin(watch::run(context, shutdown)),
};

/// Finalizer that keeps a Cluster until everything of it is deleted. Upstream's name.
pub(crate) const FINALIZER: &str = "cluster.cluster.x-k8s.io";

/// Interval of a Cluster that waits for another object; watches report most changes sooner.
const WAITING: Duration = Duration::from_secs(10);

/// Reconciler of Clusters.
#[derive(Debug)]
pub struct ClusterReconciler {
    context: ControllerContext,
    /// First looks at workload clusters that are cleaned before their Machines are deleted.
    looks: FirstAttempts,
}

impl ClusterReconciler {
    /// Creates a reconciler.
    pub fn new(context: ControllerContext) -> Self {
        Self { context, looks: FirstAttempts::default() }
    }

    /// Makes one pass. Returns when the next one is due.
    ///
    /// # Errors
    /// The API's own failure.
    pub async fn reconcile(&self, object: &Cluster) -> Result<Requeue, kube::Error> {
        Requeue::after(Box::pin(self.pass(object)).await, WAITING)
    }

    async fn pass(&self, object: &Cluster) -> Result<Option<Duration>, ReconcileError> {
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<Cluster> = Api::namespaced(self.context.client.clone(), &namespace);
        let Some(mut cluster) = api.get_opt(&object.name_any()).await? else {
            self.context.workloads.forget(&observe::key(object));
            self.looks.forget(&object.uid().unwrap_or_default());
            return Ok(None);
        };
        let mut observed = observe::observe(&self.context, &cluster, &self.looks).await?;
        if let Some(kubeconfig) = observed.kubeconfig.as_ref().filter(|_| !is_released(&cluster)) {
            self.context.workloads.follow(&observe::key(&cluster), kubeconfig);
        }
        let actor = Actor { context: &self.context, api: &api };
        let result = actor.work(&mut cluster, &mut observed).await;
        if matches!(&result, Ok(Step::Ignore)) || result.as_ref().is_err_and(ReconcileError::is_conflict) {
            return result.map(|_| None);
        }
        // An error is reported with the step that it ended.
        observed.error = result.as_ref().err().map(ToString::to_string);
        let last = result.as_ref().ok().cloned();
        let last = last.unwrap_or_else(|| decide::next_step(&cluster, &observed));
        let cluster = self.report(&api, cluster, &observed, &last).await?;
        let step = result?;
        if step == Step::Release {
            self.context.workloads.forget(&observe::key(&cluster));
            self.looks.forget(&cluster.uid().unwrap_or_default());
            crate::finalizers::remove(&api, &cluster, FINALIZER).await?;
            let message = format!("Cluster {} has been deleted", cluster.name_any());
            self.context.events.record(&cluster, Severity::Normal, "Deleted", &message).await;
        }
        Ok(decide::interval(&step, &observed))
    }

    /// Writes the status, and an Event if the phase is another one.
    async fn report(
        &self,
        api: &Api<Cluster>,
        cluster: Cluster,
        observed: &Observed,
        step: &Step,
    ) -> Result<Cluster, ReconcileError> {
        let mut new = cluster.clone();
        match step {
            Step::Pause => report::report_pause(&mut new, &now()),
            _ => report::report(&mut new, observed, step, &now()),
        }
        let before = cluster.status.as_ref().and_then(|status| status.phase);
        let after = new.status.as_ref().and_then(|status| status.phase);
        let written = write_status(api, &cluster, &new).await?;
        if let Some(phase) = after.filter(|phase| Some(*phase) != before) {
            let message = format!("Cluster {} is {phase:?}", written.name_any());
            self.context.events.record(&written, Severity::Normal, &format!("{phase:?}"), &message).await;
        }
        for (reason, milestone) in report::milestones(&cluster, &written) {
            let message = format!("Cluster {} {milestone} is now True", written.name_any());
            self.context.events.record(&written, Severity::Normal, reason, &message).await;
        }
        Ok(written)
    }
}

/// Reports whether this controller has released a Cluster that another client's finalizer still holds.
fn is_released(cluster: &Cluster) -> bool {
    let is_held = cluster.finalizers().iter().any(|finalizer| finalizer == FINALIZER);
    cluster.metadata.deletion_timestamp.is_some() && !is_held
}
