//! ClusterClass reconciler: ownership of the templates of a class, the versions of its references, and its variables, with those
//! that extension servers declare.
//!
//! Clusters of the class wait until this controller has seen its newest generation.

mod act;
mod decide;
mod observe;
mod report;
mod variables;
mod watch;

use std::time::Duration;

use apiserver_types::ClusterClass;
use controllers_extensions::READ_NAMESPACES;
use controllers_runtime::{
    ControllerContext, ControllerSpec, PolicyRule, ReconcileError, Requeue, now, paused, write_status,
};
use kube::{Api, ResourceExt};

use decide::{Outcome, References, Step};

/// Specification of this controller.
pub const CONTROLLER: ControllerSpec = ControllerSpec {
    identity: "clusterclass-controller",
    rules: &[
        PolicyRule {
            groups: &["cluster.x-k8s.io"],
            resources: &["clusterclasses", "clusterclasses/status"],
            verbs: PolicyRule::CHANGE,
        },
        // A class may name any kind of template.
        PolicyRule {
            groups: &[
                "bootstrap.cluster.x-k8s.io",
                "controlplane.cluster.x-k8s.io",
                "infrastructure.cluster.x-k8s.io",
            ],
            resources: &["*"],
            verbs: &["get", "list", "watch", "patch"],
        },
        // Handlers of extension servers. Their changes trigger passes.
        PolicyRule {
            groups: &["runtime.cluster.x-k8s.io"],
            resources: &["extensionconfigs"],
            verbs: PolicyRule::READ,
        },
        READ_NAMESPACES,
    ],
    run: |context, shutdown| Box::pin(watch::run(context, shutdown)),
};

/// Interval of a class whose template does not exist, or whose extension server does not answer.
const WAITING: Duration = Duration::from_secs(10);

/// Interval of a class at rest. Changes of its templates trigger passes before.
const RESYNC: Duration = Duration::from_mins(10);

/// Reconciler of ClusterClasses.
#[derive(Debug)]
pub struct ClusterClassReconciler {
    context: ControllerContext,
    servers: observe::Servers,
}

impl ClusterClassReconciler {
    /// Creates a reconciler.
    pub fn new(context: ControllerContext) -> Self {
        Self { context, servers: observe::Servers::default() }
    }

    /// Makes one pass. Returns when the next one is due.
    ///
    /// # Errors
    /// The API's own failure.
    pub async fn reconcile(&self, object: &ClusterClass) -> Result<Requeue, kube::Error> {
        Requeue::after(Box::pin(self.pass(object)).await, WAITING)
    }

    async fn pass(&self, object: &ClusterClass) -> Result<Option<Duration>, ReconcileError> {
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<ClusterClass> = Api::namespaced(self.context.client.clone(), &namespace);
        // The watch may be behind, so the object is read again.
        let Some(class) = api.get_opt(&object.name_any()).await? else { return Ok(None) };
        let mut new = class.clone();
        if paused(&class, None) {
            report::report_pause(&mut new, &now());
            write_status(&api, &class, &new).await?;
            return Ok(None);
        }
        if class.metadata.deletion_timestamp.is_some() {
            return Ok(None);
        }
        let outcome = self.work(&class).await?;
        report::report(&mut new, &outcome, &now());
        write_status(&api, &class, &new).await?;
        match outcome.references {
            References::Missing(message) => Err(ReconcileError::waiting(report::INTERNAL_ERROR, message)),
            References::Latest | References::Outdated(_) if outcome.variables.is_err() => Ok(Some(WAITING)),
            References::Latest | References::Outdated(_) => Ok(Some(RESYNC)),
        }
    }

    /// Makes the class an owner of its templates, one after the other. Returns what to report.
    async fn work(&self, class: &ClusterClass) -> Result<Outcome, ReconcileError> {
        let mut templates = observe::templates(&self.context, class).await?;
        let declared = observe::declared(&self.context, &self.servers, class).await?;
        // Each step makes the class an owner of one more template, so they end.
        loop {
            match decide::decide(class, &templates, &declared) {
                Step::Own(position) => act::own(&self.context, class, &mut templates, position).await?,
                Step::Report(outcome) => return Ok(outcome),
            }
        }
    }
}
