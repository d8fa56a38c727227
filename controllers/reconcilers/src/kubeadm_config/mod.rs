//! KubeadmConfig reconciler: bootstrap data of a Machine or a MachinePool, and the token that it joins with.
//!
//! The data of a Machine is rendered once. Before that, everything random is stored, so a pass after a crash renders the
//! same data.

mod act;
mod approvals;
mod attested;
mod certificate_upload;
mod checks;
mod contents;
mod data_secret;
mod decide;
mod jinja_warnings;
mod lock;
mod observe;
mod pool;
mod report;
mod serving;
mod stop;
#[cfg(test)]
mod tests;
mod tokens;
mod watch;

use apiserver_types::KubeadmConfig;
use controllers_runtime::{
    ControllerContext, ControllerSpec, PolicyRule, ReconcileError, Requeue, Severity, now, write_status,
};
use kube::{Api, ResourceExt};

use act::Actor;
use decide::Step;
use observe::Observed;
use report::{DATA, Outcome};
use stop::{Failure, Part, SHORT, Stop, cause};

/// Specification of this controller.
pub const CONTROLLER: ControllerSpec = ControllerSpec {
    identity: "kubeadmconfig-controller",
    rules: &[
        PolicyRule {
            groups: &["bootstrap.cluster.x-k8s.io"],
            resources: &["kubeadmconfigs", "kubeadmconfigs/status"],
            verbs: PolicyRule::CHANGE,
        },
        PolicyRule {
            groups: &["cluster.x-k8s.io"],
            resources: &["clusters", "machines", "machinepools"],
            verbs: PolicyRule::READ,
        },
        PolicyRule {
            groups: &["controlplane.cluster.x-k8s.io"],
            resources: &["kubeadmcontrolplanes"],
            verbs: &["get"],
        },
        PolicyRule { groups: &[""], resources: &["configmaps"], verbs: &["get", "create", "delete"] },
        PolicyRule::WRITE_SECRETS,
    ],
    run: |context, shutdown| Box::pin(watch::run(context, shutdown)),
};

/// Reconciler of KubeadmConfigs.
#[derive(Debug)]
pub struct KubeadmConfigReconciler {
    context: ControllerContext,
}

impl KubeadmConfigReconciler {
    /// Creates a reconciler.
    pub fn new(context: ControllerContext) -> Self {
        Self { context }
    }

    /// Makes one pass. Returns when the next one is due.
    ///
    /// # Errors
    /// The API's own failure.
    pub async fn reconcile(&self, object: &KubeadmConfig) -> Result<Requeue, kube::Error> {
        match Box::pin(self.pass(object)).await {
            Ok(requeue) => Ok(requeue),
            Err(error) => Requeue::after(Err(error), SHORT),
        }
    }

    async fn pass(&self, object: &KubeadmConfig) -> Result<Requeue, ReconcileError> {
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<KubeadmConfig> = Api::namespaced(self.context.client.clone(), &namespace);
        let Some(mut config) = api.get_opt(&object.name_any()).await? else { return Ok(Requeue::OnChange) };
        let observed = observe::observe(&self.context, &config).await?;
        let step = decide::next_step(&config, &observed);
        if step == Step::Ignore {
            return Ok(Requeue::OnChange);
        }
        let result = self.act(&api, &mut config, &observed, step).await;
        let (outcome, requeue) = match result {
            Ok(done) => done,
            Err(Failure::Stop(stop)) => {
                let requeue = if report::is_waiting(stop.part) { Requeue::After } else { Requeue::Retry };
                let requeue = requeue(stop.after);
                (Outcome::Stopped(stop), requeue)
            }
            Err(Failure::Api(error)) => {
                Box::pin(self.report_error(&api, config, &observed, &error)).await;
                return Err(error);
            }
        };
        self.report(&api, config, &observed, &outcome).await?;
        Ok(requeue)
    }

    /// Writes why a call failed, if there is no data yet. A conflict is over in the next pass, and if the API itself does
    /// not work, nothing can be written.
    async fn report_error(
        &self,
        api: &Api<KubeadmConfig>,
        config: KubeadmConfig,
        observed: &Observed,
        error: &ReconcileError,
    ) {
        let ReconcileError::Api(failed) = error else { return };
        if error.is_conflict() || decide::is_rendered(&config) {
            return;
        }
        let message =
            format!("an object that the bootstrap data needs cannot be read or written: {}", cause(failed));
        let outcome = Outcome::Stopped(Stop { part: Part::Access, message, after: SHORT });
        if let Err(error) = self.report(api, config, observed, &outcome).await {
            tracing::debug!(%error, "the error of a pass was not reported");
        }
    }

    /// Makes the effect of a step. Returns the result and the time of the next pass.
    async fn act(
        &self,
        api: &Api<KubeadmConfig>,
        config: &mut KubeadmConfig,
        observed: &Observed,
        step: Step,
    ) -> Result<(Outcome, Requeue), Failure> {
        if let Step::Refuse(message) = step {
            return Err(Failure::of(Part::Access, message));
        }
        let (Some(machine), Some(cluster)) = (&observed.machine, &observed.cluster) else {
            return Ok((Outcome::Unchanged, Requeue::OnChange));
        };
        let actor = Actor { context: &self.context, api, machine, pool: observed.pool.as_ref(), cluster };
        let available = Outcome::Available(config.name_any());
        match step {
            Step::Ignore | Step::Refuse(_) => Ok((Outcome::Unchanged, Requeue::OnChange)),
            Step::Pause => Ok((Outcome::Paused(actor.end_of_token(config).await), Requeue::OnChange)),
            Step::RepairSecret(secret) => {
                self.context.secrets.replace(&secret).await?;
                Ok((Outcome::Unchanged, Requeue::Now))
            }
            Step::WaitForInfrastructure => {
                let message = "the infrastructure of the Cluster is not provisioned yet";
                Err(Failure::of(Part::Infrastructure, message))
            }
            Step::WaitForControlPlane => {
                let message = "the control plane of the Cluster is not initialized yet";
                Err(Failure::of(Part::ControlPlane, message))
            }
            Step::Restore(name) => Ok((Outcome::Available(name), Requeue::Now)),
            Step::CareForToken => {
                let secret = observed.secret.as_ref();
                data_secret::retire(&self.context, cluster, machine, secret).await?;
                self.care(&actor, config, observed).await
            }
            Step::Init => actor.init(config).await.map(|()| (available, Requeue::OnChange)),
            Step::Join => actor.join(config).await.map(|()| (available, Requeue::After(actor.interval()))),
        }
    }

    /// Looks after a token. Its failure is no reason to take back that the data is available.
    async fn care(
        &self,
        actor: &Actor<'_>,
        config: &mut KubeadmConfig,
        observed: &Observed,
    ) -> Result<(Outcome, Requeue), Failure> {
        let named = config.status.as_ref().and_then(|status| status.data_secret_name.clone());
        let available = Outcome::Available(named.unwrap_or_else(|| config.name_any()));
        let cared = match &observed.pool {
            Some(pool) => actor.care_for_pool(pool, config, observed).await,
            None => actor.care_for_token(config).await,
        };
        match cared {
            Ok(true) => Ok((available, Requeue::After(actor.interval()))),
            Ok(false) if actor.approve_serving(config).await => {
                Ok((available, Requeue::After(serving::INTERVAL)))
            }
            Ok(false) => Ok((available, Requeue::OnChange)),
            Err(Failure::Stop(Stop { message, after, .. })) => {
                let events = &self.context.events;
                events.record(config, Severity::Warning, "BootstrapTokenNotExtended", &message).await;
                Ok((available, Requeue::Retry(after)))
            }
            Err(other) => Err(other),
        }
    }

    /// Writes the status, and an Event if the data has become available or its obstacle is another one.
    async fn report(
        &self,
        api: &Api<KubeadmConfig>,
        config: KubeadmConfig,
        observed: &Observed,
        outcome: &Outcome,
    ) -> Result<(), ReconcileError> {
        let mut new = config.clone();
        report::report(&mut new, observed.cluster.as_ref(), outcome, &now());
        let version = observed.machine.as_ref().and_then(|machine| machine.spec.version.as_deref());
        if let Some(version) = version.filter(|_| !matches!(outcome, Outcome::Paused(_))) {
            report::report_fields(&mut new, version, &now());
        }
        let written = write_status(api, &config, &new).await?;
        let data = |object: &KubeadmConfig| object.condition(DATA).map(|it| (it.status, it.message.clone()));
        let changed = data(&config) != data(&written);
        let events = &self.context.events;
        match outcome {
            Outcome::Available(name) if changed => {
                let message = match &observed.pool {
                    Some(pool) => pool::available(pool, name),
                    None => format!("bootstrap data is in Secret {name}"),
                };
                events.record(&written, Severity::Normal, "DataSecretAvailable", &message).await;
            }
            Outcome::Stopped(stop) if changed && !report::is_waiting(stop.part) => {
                let (reason, _) = report::deprecated_reason(stop.part);
                events.record(&written, Severity::Warning, reason, &stop.message).await;
            }
            _ => {}
        }
        Ok(())
    }
}
