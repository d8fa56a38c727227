//! Application credentials of workload clusters: made, proved, delivered, rotated and revoked.
//!
//! A Cluster opts in by an annotation. Each credential is recorded with its secret before Keystone makes it, so that a
//! process that ends at any step leaves no credential without a record.

mod act;
mod cloud_conf;
mod decide;
mod record;
mod settings;
mod store;
mod watch;
mod workload;

use std::time::Duration;

use apiserver_types::{Cluster, OpenStackCluster};
use controllers_runtime::{
    ControllerContext, ControllerSpec, PolicyRule, ReconcileError, Requeue, RequeuePolicy, Severity, paused,
};
use kube::{Api, ResourceExt};

use crate::{CLUSTER_NAME_LABEL, finalizers};
use act::Actor;
use decide::Step;

/// Specification of this controller.
pub const CONTROLLER: ControllerSpec = ControllerSpec {
    identity: "applicationcredential-controller",
    rules: &[
        PolicyRule {
            groups: &["infrastructure.cluster.x-k8s.io"],
            resources: &["openstackclusters"],
            verbs: PolicyRule::CHANGE,
        },
        PolicyRule { groups: &["cluster.x-k8s.io"], resources: &["clusters"], verbs: PolicyRule::READ },
        PolicyRule::CREDENTIALS,
        PolicyRule::WRITE_SECRETS,
    ],
    run: |context, shutdown| Box::pin(watch::run(context, shutdown)),
};

/// Finalizer that keeps an OpenStackCluster until its credentials are revoked, after all of its other resources.
const FINALIZER: &str = "capstan.dev/application-credential";

/// Interval in which the workload cluster and Keystone are compared with the record. No watch reports their changes.
const RESYNC: Duration = Duration::from_mins(10);

/// Interval while Pods restart, and while a cluster does not answer. Its connection is reported sooner.
const WAITING: Duration = Duration::from_secs(15);

/// Most steps of a pass: a rotation takes ten.
const STEPS: usize = 32;

/// Reconciler of the credentials of workload clusters.
#[derive(Debug)]
pub struct ApplicationCredentialReconciler {
    context: ControllerContext,
    requeue: RequeuePolicy,
}

impl ApplicationCredentialReconciler {
    /// Creates a reconciler.
    pub fn new(context: ControllerContext) -> Self {
        Self { context, requeue: RequeuePolicy::default() }
    }

    /// Makes one pass. Returns when the next one is due.
    ///
    /// # Errors
    /// The API's own failure; errors of the cloud are in Events.
    pub async fn reconcile(&self, object: &OpenStackCluster) -> Result<Requeue, kube::Error> {
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<OpenStackCluster> = Api::namespaced(self.context.client.clone(), &namespace);
        let Some(mut stored) = api.get_opt(&object.name_any()).await? else {
            self.requeue.forget(&object.uid().unwrap_or_default());
            return Ok(Requeue::OnChange);
        };
        let result = Box::pin(self.pass(&api, &mut stored)).await;
        match &result {
            Err(ReconcileError::Cloud(error)) => {
                let (reason, events) = (error.event_reason(), &self.context.events);
                events.record(&stored, Severity::Warning, reason, &error.to_string()).await;
            }
            Err(ReconcileError::Waiting { reason, message }) => {
                self.context.events.record(&stored, Severity::Warning, reason, message).await;
            }
            _ => {}
        }
        self.requeue.after(&stored, result, None)
    }

    async fn pass(
        &self,
        api: &Api<OpenStackCluster>,
        object: &mut OpenStackCluster,
    ) -> Result<Option<Duration>, ReconcileError> {
        let cluster = self.cluster(object).await?;
        let is_kept = object.finalizers().iter().any(|known| known == FINALIZER);
        if paused(object, cluster.as_ref()) {
            return Ok(None);
        }
        let deleting = object.metadata.deletion_timestamp.is_some();
        // The end of the credentials depends on no annotation, so a wrong one must not prevent it.
        let settings = cluster.as_ref().filter(|_| !deleting).map(settings::read).transpose();
        let settings =
            settings.map_err(|message| ReconcileError::waiting("InvalidAnnotation", message))?.flatten();
        if !is_kept && (settings.is_none() || deleting) {
            return Ok(None);
        }
        if deleting && crate::moved(object) {
            finalizers::remove(api, object, FINALIZER).await?;
            return Ok(None);
        }
        // Load balancers and volumes of the workload cluster are deleted with its own credential.
        let ending = deleting && object.finalizers().len() == 1;
        if deleting && !ending {
            return Ok(None);
        }
        if !deleting {
            finalizers::add_with_tag(api, object, FINALIZER).await?;
        }
        let mut actor = Actor::begin(&self.context, object, cluster.as_ref(), settings, ending).await?;
        for _ in 0..STEPS {
            match actor.step().await? {
                Step::Forget => {
                    finalizers::remove(api, object, FINALIZER).await?;
                    return Ok(None);
                }
                Step::Settled => return Ok(Some(RESYNC)),
                Step::Wait(_) => return Ok(Some(WAITING)),
                _ => {}
            }
        }
        Err(crate::endless())
    }

    /// Returns the Cluster of an OpenStackCluster, by its label.
    async fn cluster(&self, object: &OpenStackCluster) -> Result<Option<Cluster>, ReconcileError> {
        let Some(name) = object.labels().get(CLUSTER_NAME_LABEL) else { return Ok(None) };
        let namespace = object.namespace().unwrap_or_default();
        Ok(Api::<Cluster>::namespaced(self.context.client.clone(), &namespace).get_opt(name).await?)
    }
}
