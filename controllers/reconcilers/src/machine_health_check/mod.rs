//! MachineHealthCheck reconciler: marks unhealthy Machines, so that their owners or an external remediator act.
//!
//! A pass observes once, decides on each Machine, marks those that changed, and reports once. It never deletes a Machine.

mod act;
mod annotation;
mod decide;
mod judge;
mod nodes;
mod observe;
mod release;
mod report;
mod requests;
mod requeue;
mod short_circuit;
mod sightings;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use apiserver_types::MachineHealthCheck;
use controllers_runtime::{
    ControllerContext, ControllerSpec, PolicyRule, ReconcileError, Requeue, Severity, paused, write_status,
};
use jiff::Timestamp;
use kube::{Api, ResourceExt};

use crate::ownership;
use crate::replica_status::Now;
use act::Actor;
pub(crate) use act::order_replacement;
use decide::Plan;
use observe::Observed;
use requeue::Pace;
use sightings::Sightings;

/// Specification of this controller.
pub const CONTROLLER: ControllerSpec = ControllerSpec {
    identity: "machinehealthcheck-controller",
    rules: &[
        PolicyRule {
            groups: &["cluster.x-k8s.io"],
            resources: &["machinehealthchecks", "machinehealthchecks/status", "machines", "machines/status"],
            verbs: PolicyRule::CHANGE,
        },
        PolicyRule { groups: &["cluster.x-k8s.io"], resources: &["clusters"], verbs: PolicyRule::READ },
        // Templates of requests, and the requests that are made from them.
        PolicyRule {
            groups: &["bootstrap.cluster.x-k8s.io", "infrastructure.cluster.x-k8s.io"],
            resources: &["*"],
            verbs: PolicyRule::WRITE,
        },
        PolicyRule {
            groups: &["capstan.dev"],
            resources: &["capstanremediations", "capstanremediationtemplates"],
            verbs: PolicyRule::WRITE,
        },
    ],
    run: |context, shutdown| Box::pin(watch::run(context, shutdown)),
};

/// Interval of a health check that waits for another object; watches report most changes sooner.
const WAITING: Duration = Duration::from_secs(30);

/// Interval of a health check that waits for nothing. Upstream's. During a short circuit no time-out wakes it sooner.
const RESYNC: Duration = Duration::from_mins(10);

/// Source of the present time.
type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Reconciler of MachineHealthChecks.
pub struct MachineHealthCheckReconciler {
    context: ControllerContext,
    sightings: Sightings,
    pace: Pace,
    clock: Clock,
}

impl std::fmt::Debug for MachineHealthCheckReconciler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MachineHealthCheckReconciler").field("pace", &self.pace).finish_non_exhaustive()
    }
}

impl MachineHealthCheckReconciler {
    /// Creates a reconciler.
    pub fn new(context: ControllerContext) -> Self {
        Self::with_clock(context, Arc::new(Timestamp::now))
    }

    /// Creates a reconciler whose time-outs end by this clock.
    pub fn with_clock(context: ControllerContext, clock: Clock) -> Self {
        Self { context, sightings: Sightings::default(), pace: Pace::default(), clock }
    }

    /// Makes one pass, unless the last one was too short a time ago. Returns when the next one is due.
    ///
    /// # Errors
    /// The API's own failure.
    pub async fn reconcile(&self, object: &MachineHealthCheck) -> Result<Requeue, kube::Error> {
        let uid = object.uid().unwrap_or_default();
        if let Some(rest) = self.pace.remaining(&uid, self.context.settings.health_check_distance) {
            return Ok(Requeue::After(rest));
        }
        let result = Box::pin(self.pass(object)).await;
        if result.is_ok() {
            self.pace.passed(&uid);
        }
        Requeue::after(result, WAITING)
    }

    async fn pass(&self, object: &MachineHealthCheck) -> Result<Option<Duration>, ReconcileError> {
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<MachineHealthCheck> = Api::namespaced(self.context.client.clone(), &namespace);
        let Some(mut check) = api.get_opt(&object.name_any()).await? else {
            let uid = object.uid().unwrap_or_default();
            self.pace.forget(&uid);
            self.sightings.forget(&uid);
            return Ok(None);
        };
        if check.metadata.deletion_timestamp.is_some() {
            return Ok(None);
        }
        let cluster = observe::cluster(&self.context, &check).await?;
        if paused(&check, cluster.as_ref()) {
            let mut new = check.clone();
            report::report_pause(&mut new, cluster.as_ref(), &Now::read());
            write_status(&api, &check, &new).await?;
            return Ok(None);
        }
        let Some(cluster) = cluster else {
            let message = format!(
                "Cluster {} does not exist; create it, or delete MachineHealthCheck {}",
                check.spec.cluster_name,
                check.name_any()
            );
            return self.blocked(&api, &check, "ClusterNotFound", message).await;
        };
        if !ownership::is_adopted(&check.metadata, &cluster) {
            ownership::adopt(&api, &mut check, ownership::shared(&cluster), &cluster.name_any()).await?;
        }
        let observed =
            observe::observe(&self.context, &self.sightings, &check, cluster, (self.clock)()).await?;
        if let Some(message) = &observed.unreachable {
            return self.blocked(&api, &check, "ConnectionDown", message.clone()).await;
        }
        match decide::plan(&check, &observed) {
            Ok(plan) => self.follow(&api, check, &observed, &plan).await,
            Err(message) => self.blocked(&api, &check, "InternalError", message).await,
        }
    }

    /// Ends the marks of a health check that does not exist any more, as the watch has last seen it. One that exists does so
    /// in its passes.
    ///
    /// # Errors
    /// The API's own failure.
    async fn forget_deleted(&self, check: &MachineHealthCheck) -> Result<(), ReconcileError> {
        let namespace = check.namespace().unwrap_or_default();
        let api: Api<MachineHealthCheck> = Api::namespaced(self.context.client.clone(), &namespace);
        let found = api.get_opt(&check.name_any()).await?;
        if found.is_some_and(|it| it.uid() == check.uid()) {
            return Ok(());
        }
        let uid = check.uid().unwrap_or_default();
        self.pace.forget(&uid);
        self.sightings.forget(&uid);
        match observe::cluster(&self.context, check).await? {
            Some(cluster) => release::release(&self.context, check, &cluster, &[]).await,
            None => Ok(()),
        }
    }

    /// Acts by a plan, and reports.
    async fn follow(
        &self,
        api: &Api<MachineHealthCheck>,
        mut check: MachineHealthCheck,
        observed: &Observed,
        plan: &Plan,
    ) -> Result<Option<Duration>, ReconcileError> {
        let actor = Actor { context: &self.context };
        let outcome = actor.act(&check, observed, plan).await;
        release::release(&self.context, &check, &observed.cluster, &plan.targets).await?;
        annotation::write(&self.context, api, &mut check, observed, plan).await?;
        let mut new = check.clone();
        report::report(&mut new, plan, &outcome, &Now::read());
        let written = write_status(api, &check, &new).await?;
        if let Some(message) = report::new_restriction(&check, &written).filter(|_| plan.has_unhealthy()) {
            let reason = "RemediationRestricted";
            self.context.events.record(&written, Severity::Warning, reason, message).await;
        }
        match outcome.error {
            Some(error) => Err(error),
            None => {
                let next = plan.next.and_then(|next| Duration::try_from(next).ok());
                Ok(Some(next.map_or(RESYNC, |next| next.min(RESYNC))))
            }
        }
    }

    /// Reports why no Machine can be judged. What was reported about them stays.
    async fn blocked(
        &self,
        api: &Api<MachineHealthCheck>,
        check: &MachineHealthCheck,
        reason: &'static str,
        message: String,
    ) -> Result<Option<Duration>, ReconcileError> {
        let mut new = check.clone();
        report::report_blocked(&mut new, reason, &message, &Now::read());
        write_status(api, check, &new).await?;
        Err(ReconcileError::waiting(reason, message))
    }
}
