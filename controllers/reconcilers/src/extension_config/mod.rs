//! ExtensionConfig reconciler: CA certificates of extension servers, and the lists of their handlers.
//!
//! A pass reads the Secret that the annotation names, and writes its certificates into the spec. Then it calls the server for
//! the list of its handlers, and reports the list. While the server does not answer, the last list stays: other controllers
//! call the handlers in it.

mod act;
mod decide;
mod observe;
mod report;
mod watch;

use std::time::Duration;

use apiserver_types::ExtensionConfig;
use controllers_extensions::{ExtensionServers, discover};
use controllers_runtime::{
    Backoff, ControllerContext, ControllerSpec, PolicyRule, ReconcileError, Requeue, RequeuePolicy, Severity,
    now, paused, write_status,
};
use kube::{Api, ResourceExt};

use decide::{Observed, Outcome, Step};

/// Specification of this controller.
pub const CONTROLLER: ControllerSpec = ControllerSpec {
    identity: "extensionconfig-controller",
    rules: &[
        PolicyRule {
            groups: &["runtime.cluster.x-k8s.io"],
            resources: &["extensionconfigs", "extensionconfigs/status"],
            verbs: PolicyRule::CHANGE,
        },
        // The annotation may name any Secret. The watch of Secrets is one with that of Namespaces.
        PolicyRule { groups: &[""], resources: &["secrets", "namespaces"], verbs: PolicyRule::READ },
    ],
    run: |context, shutdown| Box::pin(watch::run(context, shutdown)),
};

/// Interval between two discoveries. Upstream's full resync.
const RESYNC: Duration = Duration::from_mins(10);

/// Interval after a pass whose steps another client undoes.
const WAITING: Duration = Duration::from_secs(10);

/// Limit of the steps of one pass: the certificates are written once, and then come discovery and report.
const STEPS: usize = 4;

/// Reconciler of ExtensionConfigs.
#[derive(Debug)]
pub struct ExtensionConfigReconciler {
    context: ControllerContext,
    servers: ExtensionServers,
    requeue: RequeuePolicy,
    failures: Backoff,
}

impl ExtensionConfigReconciler {
    /// Creates a reconciler.
    pub fn new(context: ControllerContext) -> Self {
        let (servers, requeue, failures) = Default::default();
        Self { context, servers, requeue, failures }
    }

    /// Makes one pass. Returns when the next one is due.
    ///
    /// # Errors
    /// The API's own failure; errors of the server are in the status.
    pub async fn reconcile(&self, object: &ExtensionConfig) -> Result<Requeue, kube::Error> {
        let api: Api<ExtensionConfig> = Api::all(self.context.client.clone());
        let uid = object.uid().unwrap_or_default();
        // The watch may be behind, so the object is read again.
        let stored = api.get_opt(&object.name_any()).await?;
        let Some(mut stored) = stored.filter(|it| it.metadata.deletion_timestamp.is_none()) else {
            self.requeue.forget(&uid);
            self.failures.reset(&uid);
            return Ok(Requeue::OnChange);
        };
        if let Some(rest) = self.requeue.remaining(&stored) {
            return Ok(Requeue::After(rest));
        }
        let result = Box::pin(self.pass(&api, &mut stored)).await;
        match result {
            Ok(None) => Ok(Requeue::OnChange),
            Ok(Some(Ok(_))) => {
                self.failures.reset(&uid);
                self.requeue.after(&stored, Ok(Some(RESYNC)), None)
            }
            Ok(Some(Err(_))) => {
                let interval = self.failures.failed(&uid, Duration::ZERO);
                self.requeue.after(&stored, Ok(Some(interval)), None)?;
                Ok(Requeue::Retry(interval))
            }
            Err(error) => Requeue::after(Err(error), WAITING),
        }
    }

    /// Returns the handlers of the server, or why they are not known; `None` for a paused object.
    async fn pass(
        &self,
        api: &Api<ExtensionConfig>,
        config: &mut ExtensionConfig,
    ) -> Result<Option<Outcome>, ReconcileError> {
        if paused(config, None) {
            let mut new = config.clone();
            report::report_pause(&mut new, &now());
            write_status(api, config, &new).await?;
            return Ok(None);
        }
        let authority = observe::authority(self.context.secrets.as_ref(), config).await?;
        let mut observed = Observed { authority, discovered: None };
        for _ in 0..STEPS {
            match decide::next_step(config, &observed) {
                Step::Inject(bundle) => {
                    *config = act::inject(api, config, &bundle).await?;
                    let message = "wrote the CA certificates of the Secret into spec.clientConfig.caBundle";
                    self.context.events.record(config, Severity::Normal, "CABundleInjected", message).await;
                }
                Step::Discover => {
                    let found = discover(&self.servers, config).await;
                    observed.discovered = Some(found.map_err(|error| error.to_string()));
                }
                Step::Report(outcome) => {
                    self.report(api, config, &outcome).await?;
                    return Ok(Some(outcome));
                }
            }
        }
        Err(crate::endless())
    }

    async fn report(
        &self,
        api: &Api<ExtensionConfig>,
        config: &mut ExtensionConfig,
        outcome: &Outcome,
    ) -> Result<(), ReconcileError> {
        let mut new = config.clone();
        report::report(&mut new, outcome, &now());
        let written = write_status(api, config, &new).await?;
        let events = &self.context.events;
        match outcome {
            Ok(handlers) if report::has_news(config, &written) => {
                let message = report::summary(handlers);
                events.record(&written, Severity::Normal, "Discovered", &message).await;
            }
            Ok(_) => {}
            Err(message) => events.record(&written, Severity::Warning, "DiscoveryFailed", message).await,
        }
        *config = written;
        Ok(())
    }
}

#[cfg(test)]
#[path = "pass_tests.rs"]
mod tests;
