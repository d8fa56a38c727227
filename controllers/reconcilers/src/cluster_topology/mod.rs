//! Controller of managed topologies: makes the objects of a Cluster from its ClusterClass, and keeps them as the class and
//! the Cluster describe them.
//!
//! A pass observes the class with its templates (`blueprint`) and the objects of the Cluster (`current`). It checks the
//! variables and sets their defaults (`variables`). It decides on versions (`upgrade`) and on objects (`desired`) by pure
//! functions, writes the differences (`act`), and reports one condition (`report`). The servers of hooks are called between two
//! decisions (`lifecycle`), and those that patch templates or plan upgrades before the decisions about both (`external`).
//!
//! It also upgrades Clusters without a topology, if the verb `upgrade` requests it (`classless`).

mod act;
mod blueprint;
mod classless;
mod compare;
mod current;
mod desired;
mod external;
mod lifecycle;
mod metadata;
mod naming;
mod patching;
mod preview;
mod report;
mod revision;
mod sweep;
mod taken;
mod upgrade;
mod variables;
mod watch;
mod write;

use std::time::Duration;

use apiserver_types::Cluster;
use controllers_extensions::{ExtensionServers, Extensions, READ_HANDLERS, READ_NAMESPACES};
use controllers_runtime::{
    ControllerContext, ControllerSpec, PolicyRule, ReconcileError, Requeue, now, paused,
};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use blueprint::FAILED;
use external::Plans;
use lifecycle::Lifecycle;
pub(crate) use preview::{
    ObjectEffect, Owner, Preview, PreviewedObject, Refusal, UpgradePreview, UpgradeStep, VersionStep,
    preview, upgrade_preview,
};
use report::Report;
use upgrade::Upgrade;
use upgrade::hooks::{Hook, Hooks};
pub(crate) use watch::uses;

/// Specification of this controller.
pub const CONTROLLER: ControllerSpec = ControllerSpec {
    identity: "topology-controller",
    rules: &[
        PolicyRule {
            groups: &["cluster.x-k8s.io"],
            resources: &["clusters", "clusters/status"],
            verbs: PolicyRule::CHANGE,
        },
        PolicyRule {
            groups: &["cluster.x-k8s.io"],
            resources: &["machinedeployments", "machinehealthchecks"],
            verbs: PolicyRule::WRITE,
        },
        PolicyRule {
            groups: &["cluster.x-k8s.io"],
            resources: &["clusterclasses", "machines", "machinesets", "machinepools"],
            verbs: PolicyRule::READ,
        },
        PolicyRule {
            groups: &[
                "bootstrap.cluster.x-k8s.io",
                "controlplane.cluster.x-k8s.io",
                "infrastructure.cluster.x-k8s.io",
            ],
            resources: &["*"],
            verbs: PolicyRule::WRITE,
        },
        PolicyRule::USE_IDENTITIES,
        READ_HANDLERS,
        READ_NAMESPACES,
    ],
    run: |context, shutdown| Box::pin(watch::run(context, shutdown)),
};

/// Label of the objects of a topology. Its value is empty.
pub(crate) const OWNED: &str = "topology.cluster.x-k8s.io/owned";

/// Label with the name of a worker group in the topology.
pub(crate) const DEPLOYMENT: &str = "topology.cluster.x-k8s.io/deployment-name";

/// Annotation of a Cluster with the version that its upgrade takes now.
const UPGRADE_STEP: &str = "topology.internal.cluster.x-k8s.io/upgrade-step";

/// Annotation of a Cluster whose deletion may proceed.
pub(crate) const OK_TO_DELETE: &str = "runtime.cluster.x-k8s.io/ok-to-delete";

/// Field manager of the objects. Upstream's name.
const MANAGER: &str = "capi-topology";

/// Interval of a Cluster whose topology waits for another object, or failed.
const WAITING: Duration = Duration::from_secs(10);

/// Interval of a Cluster at rest: upstream's full resync. Templates that accept no edits are not watched.
const RESYNC: Duration = Duration::from_mins(10);

/// Interval of a Cluster that an annotation of a user holds up; its removal triggers a pass at once. Upstream's.
const HELD: Duration = Duration::from_mins(20);

/// Reconciler of managed topologies.
#[derive(Debug)]
pub struct ClusterTopologyReconciler {
    context: ControllerContext,
    servers: ExtensionServers,
    lifecycle: Lifecycle,
    plans: Plans,
}

impl ClusterTopologyReconciler {
    /// Creates a reconciler.
    pub fn new(context: ControllerContext) -> Self {
        let (servers, lifecycle, plans) = Default::default();
        Self { context, servers, lifecycle, plans }
    }

    /// Makes one pass. Returns when the next one is due.
    ///
    /// # Errors
    /// The API's own failure.
    pub async fn reconcile(&self, object: &Cluster) -> Result<Requeue, kube::Error> {
        if object.spec.topology.is_none() && !classless::concerns(object) {
            return Ok(Requeue::OnChange);
        }
        match Box::pin(self.pass(object)).await {
            // The condition names it; a refusal does not pass within seconds.
            Err(ReconcileError::Api(kube::Error::Api(status))) if status.code != 409 && status.code < 500 => {
                Ok(Requeue::Retry(WAITING))
            }
            result => Requeue::after(result, WAITING),
        }
    }

    async fn pass(&self, object: &Cluster) -> Result<Option<Duration>, ReconcileError> {
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<Cluster> = Api::namespaced(self.context.client.clone(), &namespace);
        let Some(cluster) = api.get_opt(&object.name_any()).await? else { return Ok(None) };
        if cluster.spec.topology.is_none() {
            return Box::pin(classless::pass(&self.context, &api, cluster)).await;
        }
        if paused(&cluster, Some(&cluster)) {
            report::write(&api, &cluster, &Report::Paused, &now()).await?;
            return Ok(None);
        }
        if cluster.metadata.deletion_timestamp.is_some() {
            return self.deletion(&api, cluster).await;
        }
        let mut cluster = cluster;
        let servers = (&self.servers, &self.lifecycle, &self.plans);
        let result = Box::pin(act::work(&self.context, servers, &api, &mut cluster)).await;
        if result.as_ref().is_err_and(ReconcileError::is_conflict) {
            return result.map(|_| None);
        }
        let report = match &result {
            Ok(outcome) => report::of(&cluster, outcome),
            Err(error) => report::of_error(error),
        };
        report::write(&api, &cluster, &report, &now()).await?;
        Ok(Some(interval(&result?.upgrade.hooks)))
    }

    /// Makes a pass over a Cluster that is being deleted. It needs no class.
    async fn deletion(
        &self,
        api: &Api<Cluster>,
        mut cluster: Cluster,
    ) -> Result<Option<Duration>, ReconcileError> {
        let result = Box::pin(self.release(api, &mut cluster)).await;
        if result.as_ref().is_err_and(ReconcileError::is_conflict) {
            return result.map(|_| None);
        }
        let report = match &result {
            Ok(hooks) => Report::Deleting(hooks.clone()),
            Err(error) => report::of_error(error),
        };
        report::write(api, &cluster, &report, &now()).await?;
        let hooks = result?;
        Ok((!hooks.is_free()).then(|| interval(&hooks)))
    }

    /// Lets the deletion of a Cluster proceed, unless an annotation or an extension server holds it up. Returns the hooks.
    async fn release(&self, api: &Api<Cluster>, cluster: &mut Cluster) -> Result<Hooks, ReconcileError> {
        if cluster.annotations().contains_key(OK_TO_DELETE) {
            return Ok(Hooks::default());
        }
        let hooks = self.hooks_of_deletion(cluster).await?;
        if hooks.is_free() {
            let change = json!({"metadata": {"uid": cluster.uid(), "annotations": {OK_TO_DELETE: ""}}});
            let (name, params) = (cluster.name_any(), PatchParams::default());
            *cluster = api.patch(&name, &params, &Patch::Merge(&change)).await?;
        }
        Ok(hooks)
    }

    async fn hooks_of_deletion(&self, cluster: &Cluster) -> Result<Hooks, ReconcileError> {
        let extensions = Extensions::read(&self.context, &self.servers).await?;
        let decision = |mut hooks: Hooks| {
            hooks.blocks(Hook::BeforeClusterDelete);
            Ok(Upgrade { hooks, ..Upgrade::default() })
        };
        let decided = self.lifecycle.decide(&extensions, cluster, decision).await;
        let decided = decided.map_err(|message| ReconcileError::waiting(FAILED, message))?;
        match decided.failure {
            Some(failure) => Err(failure.waiting(FAILED)),
            None => Ok(decided.upgrade.hooks),
        }
    }
}

/// Returns true if the deletion of a Cluster waits for the annotation of this controller.
pub(crate) fn holds_deletion(cluster: &Cluster) -> bool {
    cluster.spec.topology.is_some() && !cluster.annotations().contains_key(OK_TO_DELETE)
}

/// Returns the interval after a pass with these hooks and without an error. Handlers of servers are not watched: while one holds
/// the Cluster up, they are read again as at rest.
fn interval(hooks: &Hooks) -> Duration {
    match hooks.retry() {
        Some(rest) => rest.min(RESYNC),
        None if hooks.blocking.is_empty() => RESYNC,
        None => HELD,
    }
}
