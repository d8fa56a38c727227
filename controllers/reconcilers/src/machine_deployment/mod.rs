//! MachineDeployment reconciler: one MachineSet per template, and the rollout from old sets to the new one.
//!
//! A pass observes once, then decides and acts until a step ends it, and reports once.

mod act;
mod blocked;
mod decide;
mod desired;
mod held_scaling;
mod hold;
mod in_place;
mod observe;
mod paused_scaling;
mod plan;
mod progress;
mod quota;
mod report;
mod revisions;
mod rollout;
pub(crate) mod sameness;
mod scale_down;
mod surge;
mod template_revisions;
mod updaters;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use apiserver_types::MachineDeployment;
use controllers_extensions::{READ_HANDLERS, READ_NAMESPACES};
use controllers_runtime::{
    ControllerContext, ControllerSpec, PolicyRule, ReconcileError, Requeue, Severity, paused, write_status,
};
use k8s_openapi::jiff::Timestamp;
use kube::{Api, ResourceExt};

use crate::applied::Applied;
use crate::replica_status::{Clock, Now};
use crate::topology_templates;
use act::Actor;
use decide::Step;
use observe::Observed;
pub(crate) use plan::{plan, preflight};
use surge::Surge;
use updaters::Updaters;

/// Specification of this controller.
pub const CONTROLLER: ControllerSpec = ControllerSpec {
    identity: "machinedeployment-controller",
    rules: &[
        PolicyRule {
            groups: &["cluster.x-k8s.io"],
            resources: &["machinedeployments", "machinedeployments/status", "machinedeployments/finalizers"],
            verbs: PolicyRule::CHANGE,
        },
        PolicyRule { groups: &["cluster.x-k8s.io"], resources: &["machinesets"], verbs: PolicyRule::WRITE },
        PolicyRule {
            groups: &["capstan.dev"],
            resources: &["machinedeploymentrevisions"],
            verbs: PolicyRule::WRITE,
        },
        PolicyRule {
            groups: &["cluster.x-k8s.io"],
            resources: &["clusters", "machines"],
            verbs: PolicyRule::READ,
        },
        PolicyRule {
            groups: &["bootstrap.cluster.x-k8s.io", "infrastructure.cluster.x-k8s.io"],
            resources: &["*"],
            verbs: PolicyRule::DELETE,
        },
        // Credentials of the cloud, whose quotas decide on a surplus Machine. They are not watched.
        PolicyRule::SECRETS,
        // Their labels decide on the use of identities, and on calls of extension servers.
        READ_NAMESPACES,
        READ_HANDLERS,
    ],
    run: |context, shutdown| Box::pin(watch::run(context, shutdown)),
};

/// Finalizer that keeps a MachineDeployment until its sets are deleted. Upstream's name.
pub(crate) const FINALIZER: &str = "cluster.x-k8s.io/machinedeployment";

/// Field manager of the sets. Upstream's name.
const MANAGER: &str = "capi-machinedeployment";

/// Interval of a MachineDeployment that waits for another object; watches report most changes sooner.
const WAITING: Duration = Duration::from_secs(10);

/// Returns the finalizers of a MachineDeployment.
fn finalizers_of(deployment: &MachineDeployment) -> Vec<&'static str> {
    topology_templates::finalizers(deployment, FINALIZER, topology_templates::OF_DEPLOYMENT)
}

/// Reconciler of MachineDeployments.
pub struct MachineDeploymentReconciler {
    context: ControllerContext,
    applied: Applied,
    clock: Clock,
    surge: Surge,
    updaters: Updaters,
}

impl std::fmt::Debug for MachineDeploymentReconciler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MachineDeploymentReconciler").field("applied", &self.applied).finish_non_exhaustive()
    }
}

impl MachineDeploymentReconciler {
    /// Creates a reconciler.
    pub fn new(context: ControllerContext) -> Self {
        Self::with_clock(context, Arc::new(Timestamp::now))
    }

    /// Creates a reconciler whose deadlines end by this clock.
    pub fn with_clock(context: ControllerContext, clock: Arc<dyn Fn() -> Timestamp + Send + Sync>) -> Self {
        let (applied, surge, updaters) = Default::default();
        Self { context, applied, clock, surge, updaters }
    }

    /// Makes one pass. Returns when the next one is due.
    ///
    /// # Errors
    /// The API's own failure.
    pub async fn reconcile(&self, object: &MachineDeployment) -> Result<Requeue, kube::Error> {
        Requeue::after(Box::pin(self.pass(object)).await, WAITING)
    }

    async fn pass(&self, object: &MachineDeployment) -> Result<Option<Duration>, ReconcileError> {
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<MachineDeployment> = Api::namespaced(self.context.client.clone(), &namespace);
        let Some(mut deployment) = api.get_opt(&object.name_any()).await? else {
            self.updaters.forget(&object.uid().unwrap_or_default());
            return Ok(None);
        };
        let mut observed = observe::observe(&self.context, &deployment).await?;
        if observed.cluster.is_none() && deployment.metadata.deletion_timestamp.is_none() {
            let message = format!("Cluster {} does not exist", deployment.spec.cluster_name);
            observed.unusable.push(message.clone());
            self.report(&api, deployment, &observed, false).await?;
            return Err(ReconcileError::waiting("ClusterNotFound", message));
        }
        let sets = Api::namespaced(self.context.client.clone(), &namespace);
        let (context, applied, clock) = (&self.context, &self.applied, &self.clock);
        let (surge, updaters) = (&self.surge, &self.updaters);
        let actor = Actor { context, api: &api, sets, applied, clock, surge, updaters };
        let result = actor.work(&mut deployment, &mut observed).await;
        if matches!(&result, Ok(Step::Ignore)) || result.as_ref().is_err_and(ReconcileError::is_conflict) {
            return result.map(|_| None);
        }
        let before = deployment.clone();
        let deployment = self.report(&api, deployment, &observed, result.is_ok()).await?;
        warn(&actor, &before, &deployment).await;
        let step = result?;
        if step == Step::Release {
            topology_templates::delete(&self.context, &deployment, &deployment.spec.template.spec).await?;
            let held = [FINALIZER, topology_templates::OF_DEPLOYMENT];
            crate::finalizers::remove_all(&api, &deployment, &held).await?;
        }
        Ok(decide::interval(&deployment, &step, &observed, (self.clock)()))
    }

    /// Writes the status. A paused MachineDeployment reports nothing but the pause.
    async fn report(
        &self,
        api: &Api<MachineDeployment>,
        deployment: MachineDeployment,
        observed: &Observed,
        succeeded: bool,
    ) -> Result<MachineDeployment, ReconcileError> {
        let (mut new, now) = (deployment.clone(), Now::at((self.clock)()));
        if paused(&deployment, observed.cluster.as_ref()) {
            report::report_pause(&mut new, observed, &now);
            return write_status(api, &deployment, &new).await;
        }
        report::report(&mut new, observed, &now);
        if succeeded {
            new.status.get_or_insert_default().observed_generation = deployment.metadata.generation;
        }
        write_status(api, &deployment, &new).await
    }
}

/// Records Events about obstacles that are new, and about a deadline that is exceeded now.
async fn warn(actor: &Actor<'_>, before: &MachineDeployment, after: &MachineDeployment) {
    if let Some(obstacle) = report::obstacle(after).filter(|it| Some(*it) != report::obstacle(before)) {
        actor.event(after, Severity::Warning, "FailedCreate", obstacle).await;
    }
    if let Some(text) = progress::exceeded(after).filter(|_| progress::exceeded(before).is_none()) {
        actor.event(after, Severity::Warning, progress::EXCEEDED, text).await;
    }
}
