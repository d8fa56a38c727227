//! MachineSet reconciler: a fixed number of Machines from one template, and their replacement when they are unhealthy.
//!
//! A pass observes once, then decides and acts until a step ends it, and reports once.

mod act;
mod chains;
mod create;
mod decide;
mod deletion_order;
mod desired;
mod in_place;
mod limits;
mod moves;
mod names;
mod observe;
pub(crate) mod preflight;
mod remediate;
mod remediation;
mod report;
pub(crate) mod spread;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use apiserver_types::MachineSet;
use controllers_runtime::{
    ControllerContext, ControllerSpec, PolicyRule, ReconcileError, Requeue, paused, write_status,
};
use k8s_openapi::jiff::Timestamp;
use kube::{Api, ResourceExt};
use tokio::sync::Mutex;

use crate::applied::Applied;
use crate::replica_status::{Clock, Now};
use crate::topology_templates;
use act::Actor;
use decide::Step;
use observe::Observed;

/// Specification of this controller.
pub const CONTROLLER: ControllerSpec = ControllerSpec {
    identity: "machineset-controller",
    rules: &[
        PolicyRule {
            groups: &["cluster.x-k8s.io"],
            resources: &["machinesets", "machinesets/status", "machinesets/finalizers"],
            verbs: PolicyRule::CHANGE,
        },
        PolicyRule {
            groups: &["cluster.x-k8s.io"],
            resources: &["machines", "machines/status"],
            verbs: PolicyRule::WRITE,
        },
        PolicyRule {
            groups: &["cluster.x-k8s.io"],
            resources: &["clusters", "machinedeployments"],
            verbs: PolicyRule::READ,
        },
        PolicyRule {
            groups: &["capstan.dev"],
            resources: &["machinedeploymentrevisions"],
            verbs: PolicyRule::READ,
        },
        PolicyRule {
            groups: &["bootstrap.cluster.x-k8s.io", "infrastructure.cluster.x-k8s.io"],
            resources: &["*"],
            verbs: PolicyRule::WRITE,
        },
        PolicyRule { groups: &["controlplane.cluster.x-k8s.io"], resources: &["*"], verbs: PolicyRule::READ },
    ],
    run: |context, shutdown| Box::pin(watch::run(context, shutdown)),
};

/// Finalizer that keeps a set until its Machines are deleted. Upstream's name.
pub(crate) const FINALIZER: &str = "cluster.x-k8s.io/machineset";

/// Field manager of the Machines and of the specs of their parts. Upstream's name.
const MANAGER: &str = "capi-machineset";

/// Field manager of the labels and annotations of the parts of a Machine. Upstream's name.
const METADATA_MANAGER: &str = "capi-machineset-metadata";

/// Interval of a set that waits for another object; watches report most changes sooner.
const WAITING: Duration = Duration::from_secs(10);

/// Returns the finalizers of a MachineSet.
fn finalizers_of(set: &MachineSet) -> Vec<&'static str> {
    topology_templates::finalizers(set, FINALIZER, topology_templates::OF_SET)
}

/// Reconciler of MachineSets.
pub struct MachineSetReconciler {
    context: ControllerContext,
    applied: Applied,
    clock: Clock,
    turn: Mutex<()>,
}

impl std::fmt::Debug for MachineSetReconciler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MachineSetReconciler").field("applied", &self.applied).finish_non_exhaustive()
    }
}

impl MachineSetReconciler {
    /// Creates a reconciler.
    pub fn new(context: ControllerContext) -> Self {
        Self::with_clock(context, Arc::new(Timestamp::now))
    }

    /// Creates a reconciler whose periods end by this clock.
    pub fn with_clock(context: ControllerContext, clock: Arc<dyn Fn() -> Timestamp + Send + Sync>) -> Self {
        Self { context, applied: Applied::default(), clock, turn: Mutex::default() }
    }

    /// Makes one pass. Returns when the next one is due.
    ///
    /// # Errors
    /// The API's own failure.
    pub async fn reconcile(&self, object: &MachineSet) -> Result<Requeue, kube::Error> {
        Requeue::after(Box::pin(self.pass(object)).await, WAITING)
    }

    async fn pass(&self, object: &MachineSet) -> Result<Option<Duration>, ReconcileError> {
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<MachineSet> = Api::namespaced(self.context.client.clone(), &namespace);
        let Some(mut set) = api.get_opt(&object.name_any()).await? else { return Ok(None) };
        let mut observed = observe::observe(&self.context, &set).await?;
        if let Some((reason, message)) = observed.stuck.clone() {
            observed.unusable.push(message.clone());
            self.report(&api, set, &observed, false).await?;
            return Err(ReconcileError::waiting(reason, message));
        }
        let machines = Api::namespaced(self.context.client.clone(), &namespace);
        let (context, applied, turn) = (&self.context, &self.applied, &self.turn);
        let actor = Actor { context, api: &api, machines, applied, clock: &self.clock, turn };
        let result = actor.work(&mut set, &mut observed).await;
        if matches!(&result, Ok(Step::Ignore)) || result.as_ref().is_err_and(ReconcileError::is_conflict) {
            return result.map(|_| None);
        }
        let set = self.report(&api, set, &observed, result.is_ok()).await?;
        let step = result?;
        if step == Step::Release {
            topology_templates::delete(&self.context, &set, &set.spec.template.spec).await?;
            let held = [FINALIZER, topology_templates::OF_SET];
            crate::finalizers::remove_all(&api, &set, &held).await?;
        }
        Ok(decide::interval(&set, &step, &observed, (self.clock)()))
    }

    /// Writes the status. A paused set reports nothing but the pause.
    async fn report(
        &self,
        api: &Api<MachineSet>,
        set: MachineSet,
        observed: &Observed,
        succeeded: bool,
    ) -> Result<MachineSet, ReconcileError> {
        let (mut new, now) = (set.clone(), Now::at((self.clock)()));
        if paused(&set, observed.cluster.as_ref()) {
            report::report_pause(&mut new, observed, &now);
            return write_status(api, &set, &new).await;
        }
        report::report(&mut new, observed, &now);
        if succeeded {
            new.status.get_or_insert_default().observed_generation = set.metadata.generation;
        }
        write_status(api, &set, &new).await
    }
}
