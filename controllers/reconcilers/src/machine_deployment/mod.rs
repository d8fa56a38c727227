//! MachineDeployment reconciler: one MachineSet per template, and the rollout from old sets to the new one.
//!
//! A pass observes once, then decides and acts until a step ends it, and reports once.

mod act;
mod decide;
mod desired;
mod observe;
mod paused_scaling;
mod report;
mod rollout;
pub(crate) mod sameness;
mod watch;

use std::time::Duration;

use apiserver_types::MachineDeployment;
use controllers_runtime::{
    ControllerContext, ControllerSpec, PolicyRule, ReconcileError, Requeue, Severity, paused, write_status,
};
use k8s_openapi::jiff::Timestamp;
use kube::{Api, ResourceExt};

use crate::applied::Applied;
use crate::replica_status::Now;
use act::Actor;
use decide::Step;
use observe::Observed;

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
            groups: &["cluster.x-k8s.io"],
            resources: &["clusters", "machines"],
            verbs: PolicyRule::READ,
        },
        PolicyRule {
            groups: &["bootstrap.cluster.x-k8s.io", "infrastructure.cluster.x-k8s.io"],
            resources: &["*"],
            verbs: PolicyRule::CHANGE,
        },
    ],
    standalone_only: false,
    run: |context, shutdown| Box::pin(watch::run(context, shutdown)),
};

/// Finalizer that keeps a MachineDeployment until its sets are deleted. Upstream's name.
pub(crate) const FINALIZER: &str = "cluster.x-k8s.io/machinedeployment";

/// Field manager of the sets. Upstream's name.
const MANAGER: &str = "capi-machinedeployment";

/// Interval of a MachineDeployment that waits for another object; watches report most changes sooner.
const WAITING: Duration = Duration::from_secs(10);

/// Reconciler of MachineDeployments.
#[derive(Debug)]
pub struct MachineDeploymentReconciler {
    context: ControllerContext,
    applied: Applied,
}

impl MachineDeploymentReconciler {
    /// Creates a reconciler.
    pub fn new(context: ControllerContext) -> Self {
        Self { context, applied: Applied::default() }
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
        let Some(mut deployment) = api.get_opt(&object.name_any()).await? else { return Ok(None) };
        let mut observed = observe::observe(&self.context, &deployment).await?;
        if observed.cluster.is_none() && deployment.metadata.deletion_timestamp.is_none() {
            let message = format!("Cluster {} does not exist", deployment.spec.cluster_name);
            observed.unusable.push(message.clone());
            report(&api, deployment, &observed, false).await?;
            return Err(ReconcileError::waiting("ClusterNotFound", message));
        }
        let sets = Api::namespaced(self.context.client.clone(), &namespace);
        let actor = Actor { context: &self.context, api: &api, sets, applied: &self.applied };
        let result = actor.work(&mut deployment, &mut observed).await;
        if matches!(&result, Ok(Step::Ignore)) || result.as_ref().is_err_and(ReconcileError::is_conflict) {
            return result.map(|_| None);
        }
        let before = report::obstacle(&deployment).map(str::to_owned);
        let deployment = report(&api, deployment, &observed, result.is_ok()).await?;
        if let Some(obstacle) = report::obstacle(&deployment).filter(|it| Some(*it) != before.as_deref()) {
            actor.event(&deployment, Severity::Warning, "FailedCreate", obstacle).await;
        }
        let step = result?;
        if step == Step::Release {
            crate::finalizers::remove(&api, &deployment, FINALIZER).await?;
        }
        Ok(decide::interval(&deployment, &step, &observed, Timestamp::now()))
    }
}

/// Writes the status. A paused MachineDeployment reports nothing but the pause.
async fn report(
    api: &Api<MachineDeployment>,
    deployment: MachineDeployment,
    observed: &Observed,
    succeeded: bool,
) -> Result<MachineDeployment, ReconcileError> {
    let (mut new, now) = (deployment.clone(), Now::read());
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
