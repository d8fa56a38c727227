//! Cluster: references, owner references, and what its parts say, in one status.

mod deletion;
mod descendants;
mod observe;
mod report;
mod watch;

use std::time::Duration;

use apiserver_types::{Cluster, OpenStackCluster};
use controllers_runtime::{ControllerContext, ReconcileError, Requeue, Severity, now, paused, write_status};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::ownership;
use deletion::Step;
use observe::Observed;

pub use watch::run;

/// Keeps a Cluster until everything of it is gone; upstream's name.
pub(crate) const FINALIZER: &str = "cluster.cluster.x-k8s.io";

/// How often a Cluster that waits for nothing is looked at; watches tell of all changes sooner.
const RESYNC: Duration = Duration::from_mins(5);

/// How often one that waits is looked at.
const WAITING: Duration = Duration::from_secs(10);

/// How often one that waits for its descendants is looked at: upstream's interval. Only Machines are
/// watched.
const DESCENDANTS: Duration = Duration::from_secs(5);

/// Reconciles Clusters.
#[derive(Debug)]
pub struct ClusterReconciler {
    context: ControllerContext,
}

impl ClusterReconciler {
    /// A reconciler.
    pub fn new(context: ControllerContext) -> Self {
        Self { context }
    }

    /// One pass. Says when to look again.
    ///
    /// # Errors
    /// When the API fails.
    pub async fn reconcile(&self, object: &Cluster) -> Result<Requeue, kube::Error> {
        Requeue::after(Box::pin(self.pass(object)).await, WAITING)
    }

    async fn pass(&self, object: &Cluster) -> Result<Option<Duration>, ReconcileError> {
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<Cluster> = Api::namespaced(self.context.client.clone(), &namespace);
        let Some(mut cluster) = api.get_opt(&object.name_any()).await? else { return Ok(None) };
        let mut seen = observe::look(&self.context.client, &cluster).await?;
        if paused(&cluster, Some(&cluster)) {
            self.write(&api, cluster, &seen, None, None).await?;
            return Ok(None);
        }
        if cluster.metadata.deletion_timestamp.is_some() {
            return self.delete(&api, cluster, &seen).await;
        }
        crate::finalizers::add(&api, &mut cluster, FINALIZER).await?;
        let taken = self.take(&cluster, &mut seen).await;
        if matches!(taken, Err(ReconcileError::Api(_))) {
            return taken.map(|()| None);
        }
        let trouble = taken.as_ref().err().map(ToString::to_string);
        self.adopt_endpoint(&api, &mut cluster, &seen).await?;
        self.write(&api, cluster, &seen, None, trouble.as_deref()).await?;
        Ok(Some(if taken.is_ok() && seen.provisioned() { RESYNC } else { WAITING }))
    }

    /// Makes the infrastructure its own.
    async fn take(&self, cluster: &Cluster, seen: &mut Observed) -> Result<(), ReconcileError> {
        let Some(infrastructure) = &mut seen.infrastructure else { return Ok(()) };
        let namespace = cluster.namespace().unwrap_or_default();
        let api: Api<OpenStackCluster> = Api::namespaced(self.context.client.clone(), &namespace);
        let owner = ownership::reference(cluster, true);
        let taken = ownership::take(&api, infrastructure, owner, &cluster.name_any()).await;
        if taken.is_err() {
            // What another Cluster controls says nothing of this one.
            seen.infrastructure = None;
        }
        taken
    }

    async fn adopt_endpoint(
        &self,
        api: &Api<Cluster>,
        cluster: &mut Cluster,
        seen: &Observed,
    ) -> Result<(), ReconcileError> {
        let known = cluster.spec.control_plane_endpoint.as_ref().is_some_and(|it| it.host.is_some());
        let found = seen.infrastructure.as_ref().and_then(|it| it.spec.control_plane_endpoint.clone());
        let Some(found) =
            found.filter(|it| !known && it.host.is_some() && it.port.is_some_and(|port| port > 0))
        else {
            return Ok(());
        };
        let change = json!({
            "metadata": {"resourceVersion": cluster.resource_version()},
            "spec": {"controlPlaneEndpoint": found},
        });
        *cluster = api.patch(&cluster.name_any(), &PatchParams::default(), &Patch::Merge(&change)).await?;
        Ok(())
    }

    async fn write(
        &self,
        api: &Api<Cluster>,
        cluster: Cluster,
        seen: &Observed,
        deletion: Option<&Step>,
        trouble: Option<&str>,
    ) -> Result<Cluster, ReconcileError> {
        let mut new = cluster.clone();
        report::report(&mut new, seen, deletion, trouble, &now());
        let before = cluster.status.as_ref().and_then(|status| status.phase);
        let after = new.status.as_ref().and_then(|status| status.phase);
        let written = write_status(api, &cluster, &new).await?;
        if let Some(phase) = after.filter(|phase| Some(*phase) != before) {
            let message = format!("Cluster is {phase:?}");
            self.context.events.record(&written, Severity::Normal, &format!("{phase:?}"), &message).await;
        }
        Ok(written)
    }

    async fn delete(
        &self,
        api: &Api<Cluster>,
        cluster: Cluster,
        seen: &Observed,
    ) -> Result<Option<Duration>, ReconcileError> {
        if !cluster.finalizers().iter().any(|finalizer| finalizer == FINALIZER) {
            return Ok(None);
        }
        let step = deletion::next_step(&cluster, seen);
        self.act(&cluster, seen, &step).await?;
        let cluster = self.write(api, cluster, seen, Some(&step), None).await?;
        if step == Step::Release {
            crate::finalizers::remove(api, &cluster, FINALIZER).await?;
            return Ok(None);
        }
        Ok(Some(match step {
            Step::DeleteDescendants(..) => DESCENDANTS,
            _ => WAITING,
        }))
    }

    async fn act(&self, cluster: &Cluster, seen: &Observed, step: &Step) -> Result<(), ReconcileError> {
        let namespace = cluster.namespace().unwrap_or_default();
        match (step, &seen.infrastructure) {
            (Step::DeleteDescendants(_, remaining), _) => {
                for descendant in remaining.iter().filter(|descendant| !descendant.deleting) {
                    let api = descendants::api(&self.context.client, cluster, descendant.kind);
                    delete(&api, &descendant.name, descendant.uid.clone()).await?;
                }
            }
            (Step::DeleteInfrastructure, Some(infrastructure)) => {
                let api: Api<OpenStackCluster> = Api::namespaced(self.context.client.clone(), &namespace);
                delete(&api, &infrastructure.name_any(), infrastructure.uid()).await?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// Deletes the object of this name and uid; an object that is gone is no error.
async fn delete<K>(api: &Api<K>, name: &str, uid: Option<String>) -> Result<(), ReconcileError>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let preconditions = Preconditions { uid, resource_version: None };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    match api.delete(name, &params).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        result => Ok(result.map(|_| ())?),
    }
}
