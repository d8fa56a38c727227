//! OpenStackMachine: a Nova server with its ports and volumes.
//!
//! A pass finds the server, and whatever else is needed for what comes next; then it decides and
//! acts until nothing is left to do, something has to be waited for, or something stops it; and
//! reports once. A server that was complete once is never made anew: that is for whoever owns the
//! Machine. While a MachineOperation has it in its hands, a pass only looks.

mod act;
mod context;
mod decide;
mod delete;
mod desired;
mod observe;
mod report;
mod resolve;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use apiserver_types::{OpenStackCluster, OpenStackMachine, ResolvedMachineSpec};
use controllers_infrastructure::Cloud;
use controllers_runtime::{
    ControllerContext, ControllerSpec, OwnershipTag, PolicyRule, ReconcileError, Requeue, RequeuePolicy,
    Severity, now, paused, write_status,
};
use kube::{Api, ResourceExt};

use act::Actor;
use context::ReconcileContext;
use decide::{Desired, Observed, Step, Waiting};
use observe::Observer;
use report::Ending;
use resolve::Resolver;

/// Specification of this controller.
pub const CONTROLLER: ControllerSpec = ControllerSpec {
    identity: "openstackmachine-controller",
    rules: &[
        PolicyRule {
            groups: &["infrastructure.cluster.x-k8s.io"],
            resources: &["openstackclusters", "openstackmachines", "openstackmachines/status"],
            verbs: PolicyRule::CHANGE,
        },
        PolicyRule {
            groups: &["cluster.x-k8s.io"],
            resources: &["clusters", "machines"],
            verbs: PolicyRule::READ,
        },
        PolicyRule { groups: &["capstan.dev"], resources: &["machineoperations"], verbs: &["get"] },
        PolicyRule::SECRETS,
    ],
    standalone_only: false,
    run: |context, shutdown| Box::pin(watch::run(context, shutdown)),
};

/// Keeps the object until what was made for it is gone; upstream's name.
pub(crate) const FINALIZER: &str = "openstackmachine.infrastructure.cluster.x-k8s.io";

/// How often a machine is compared with the cloud: from one shared list, so it costs little.
const RESYNC: Duration = Duration::from_secs(30);

/// How often something that is being built is looked at.
const BUILDING: Duration = Duration::from_secs(2);

/// Effects in one pass: more than any machine has parts, so that an endless loop ends.
const STEPS: usize = 256;

/// Reconciles OpenStackMachines.
#[derive(Debug)]
pub struct OpenStackMachineReconciler {
    context: ControllerContext,
    requeue: RequeuePolicy,
}

impl OpenStackMachineReconciler {
    /// A reconciler.
    pub fn new(context: ControllerContext) -> Self {
        Self { context, requeue: RequeuePolicy::default() }
    }

    /// One pass. Says when to look again.
    ///
    /// # Errors
    /// When the API fails; troubles with the cloud stand in the status.
    pub async fn reconcile(&self, object: &OpenStackMachine) -> Result<Requeue, kube::Error> {
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<OpenStackMachine> = Api::namespaced(self.context.client.clone(), &namespace);
        // The watch may be behind; what is acted on is asked for.
        let Some(mut stored) = api.get_opt(&object.name_any()).await? else {
            self.requeue.forget(&object.uid().unwrap_or_default());
            return Ok(Requeue::OnChange);
        };
        if let Some(remaining) = self.requeue.remaining(&stored) {
            return Ok(Requeue::After(remaining));
        }
        let result = match Box::pin(self.provide_or_delete(&api, &mut stored)).await {
            Err(trouble) => self.stopped(&api, &mut stored, trouble).await,
            result => result,
        };
        self.requeue.after(&stored, result, Some(BUILDING))
    }

    /// Writes down and tells what stopped a pass.
    async fn stopped(
        &self,
        api: &Api<OpenStackMachine>,
        object: &mut OpenStackMachine,
        trouble: ReconcileError,
    ) -> Result<Option<Duration>, ReconcileError> {
        if matches!(trouble, ReconcileError::Api(_)) {
            return Err(trouble);
        }
        let before = object.clone();
        // A pass that came to report has said more than this.
        if object.condition("Ready").is_none_or(|ready| ready.message != trouble.to_string()) {
            report::report_stopped(object, &trouble, &now());
            *object = write_status(api, &before, object).await?;
        }
        if let ReconcileError::Cloud(error) = &trouble {
            let events = &self.context.events;
            events.record(object, Severity::Warning, error.class.reason(), &error.to_string()).await;
        }
        Err(trouble)
    }

    async fn provide_or_delete(
        &self,
        api: &Api<OpenStackMachine>,
        object: &mut OpenStackMachine,
    ) -> Result<Option<Duration>, ReconcileError> {
        let (cluster, infrastructure) = self.cluster(object).await?;
        if paused(object, cluster.as_ref()) {
            return Ok(None);
        }
        if object.metadata.deletion_timestamp.is_some() {
            return self.delete(api, object, infrastructure.as_ref()).await;
        }
        // As upstream: an object without an owner belongs to the client that created it, who may be
        // writing its status at this moment. The change that adds the owner starts the next pass.
        let Some(machine) = self.machine(object).await? else { return Ok(None) };
        let Some(cluster) = infrastructure else {
            return Err(ReconcileError::waiting(
                "WaitingForClusterInfrastructure",
                "the cluster has no OpenStackCluster yet",
            ));
        };
        crate::finalizers::add(api, object, FINALIZER).await?;
        self.provide(api, object, &ReconcileContext { machine, cluster }).await
    }

    async fn provide(
        &self,
        api: &Api<OpenStackMachine>,
        object: &mut OpenStackMachine,
        around: &ReconcileContext,
    ) -> Result<Option<Duration>, ReconcileError> {
        if let Some(message) = desired::unsupported(object) {
            return Err(ReconcileError::waiting("NotSupported", message));
        }
        let mut seen = observe::begin(object);
        seen.in_operation = self.operation(object).await?.is_some();
        if !seen.provisioned && !is_provisioned(&around.cluster) {
            let message = format!("OpenStackCluster {} is not ready", around.cluster.name_any());
            return Err(ReconcileError::waiting("WaitingForClusterInfrastructure", message));
        }
        let cloud = self.cloud(object, Some(&around.cluster)).await?;
        let mark = OwnershipTag::of(object);
        let observer = Observer { cloud: &cloud, servers: &self.context.servers, mark: &mark };
        observer.server(&mut seen, &object.name_any()).await?;
        let (resolved, user_data) = self.needs(object, around, &cloud, &seen).await?;
        let wanted = wanted(object, around, &resolved);
        if seen.server.is_none() || !is_settled(object, &seen) {
            observer.parts(&mut seen, &wanted).await?;
        }
        if wanted.takes_endpoint && seen.server.is_some() {
            let endpoint = around.cluster.spec.control_plane_endpoint.as_ref();
            observer.endpoint_ip(&mut seen, endpoint.and_then(|it| it.host.as_deref())).await?;
            // Whoever had it may be gone: then this one takes it.
            let free = seen.endpoint_ip.as_ref().is_some_and(|ip| ip.port_id.is_none());
            if free && seen.ports.is_empty() {
                observer.parts(&mut seen, &wanted).await?;
            }
        }
        let actor = Actor {
            api,
            cloud: &cloud,
            machine: &around.machine,
            cluster: &around.cluster,
            wanted: &wanted,
            resolved: &resolved,
            mark: &mark,
            user_data: user_data.as_deref(),
        };
        let (result, waiting) = self.work(&actor, object, &mut seen).await;
        if matches!(result, Err(ReconcileError::Api(_))) {
            return result.map(|()| None);
        }
        let ending = match (&result, &waiting) {
            (Err(trouble), _) => Ending::Stopped(trouble),
            (Ok(()), Some(waiting)) => Ending::Waiting(waiting),
            (Ok(()), None) => Ending::Complete,
        };
        let before = object.clone();
        report::report(object, &wanted, Some(&resolved), &seen, &ending, &now());
        *object = write_status(api, &before, object).await?;
        self.tell_of_loss(&before, object).await;
        result?;
        Ok(Some(match waiting {
            Some(Waiting::Volume { .. } | Waiting::Server { .. }) => BUILDING,
            Some(Waiting::Nobody) | None => next_look(&seen),
        }))
    }

    /// Tells of a server that was up and is not any more.
    async fn tell_of_loss(&self, before: &OpenStackMachine, after: &OpenStackMachine) {
        let was = before.condition("InstanceReady").is_some_and(apiserver_types::Condition::holds);
        if let Some(now) = after.condition("InstanceReady").filter(|now| was && !now.holds()) {
            self.context.events.record(after, Severity::Warning, &now.reason, &now.message).await;
        }
    }

    /// What making a server needs: ids, and the bootstrap data. A server that is there needs neither.
    async fn needs(
        &self,
        object: &OpenStackMachine,
        around: &ReconcileContext,
        cloud: &Arc<dyn Cloud>,
        seen: &Observed,
    ) -> Result<(ResolvedMachineSpec, Option<Vec<u8>>), ReconcileError> {
        let known = object.status.as_ref().and_then(|status| status.resolved.clone());
        let settled = seen.server.is_some() || seen.provisioned || seen.provider_id.is_some();
        if let Some(known) = known.filter(|_| settled) {
            let mut known = known;
            // Of all that a port is, its address pairs alone may change.
            for (spec, opts) in known.ports.iter_mut().flatten().zip(desired::ports(object)) {
                spec.allowed_address_pairs = opts.allowed_address_pairs;
            }
            return Ok((known, None));
        }
        let user_data = self.bootstrap_data(object, &around.machine).await?;
        let (machine, cluster) = (&around.machine, &around.cluster);
        let resolved = Resolver { cloud, object, machine, cluster }.resolve().await?;
        Ok((resolved, Some(user_data)))
    }

    async fn work(
        &self,
        actor: &Actor<'_>,
        object: &mut OpenStackMachine,
        seen: &mut Observed,
    ) -> (Result<(), ReconcileError>, Option<Waiting>) {
        let mut result = Err(crate::endless());
        let mut waiting = None;
        for _ in 0..STEPS {
            let step = match decide::next_step(actor.wanted, actor.mark, seen) {
                Step::Nothing => {
                    result = Ok(());
                    break;
                }
                Step::Wait(what) => {
                    result = Ok(());
                    waiting = Some(what);
                    break;
                }
                step => step,
            };
            match actor.act(step, object, seen).await {
                Ok(Some((reason, message))) => {
                    self.context.events.record(object, Severity::Normal, reason, &message).await;
                }
                Ok(None) => {}
                Err(trouble) => {
                    result = Err(trouble);
                    break;
                }
            }
        }
        if let Err(error) = act::write_journal(actor.api, object, seen).await {
            result = result.and(Err(error));
        }
        (result, waiting)
    }
}

/// What is wanted, with ids.
fn wanted(object: &OpenStackMachine, around: &ReconcileContext, resolved: &ResolvedMachineSpec) -> Desired {
    let server = around.cluster.spec.api_server.as_ref();
    let floating = around.cluster.spec.enable_external_network != Some(false)
        && server.and_then(|server| server.enable_floating_ip) != Some(false);
    let balanced = server.and_then(|server| server.managed_load_balancer.as_ref());
    let balanced = balanced.is_some_and(|balancer| balancer.enabled != Some(false));
    Desired {
        name: object.name_any(),
        ports: resolved.ports.clone().unwrap_or_default(),
        volumes: desired::volumes(object, &around.machine),
        takes_endpoint: desired::is_control_plane(&around.machine) && floating && !balanced,
        // As upstream and OpenStack's own cloud provider write it: the region only where it is asked for.
        region: object.spec.identity_ref.as_ref().and_then(|it| it.region.clone()).unwrap_or_default(),
    }
}

fn is_provisioned(cluster: &OpenStackCluster) -> bool {
    let initialization = cluster.status.as_ref().and_then(|status| status.initialization.as_ref());
    initialization.and_then(|it| it.provisioned) == Some(true)
}

/// Whether a pass has already brought this generation of the spec to the cloud.
fn is_settled(object: &OpenStackMachine, seen: &Observed) -> bool {
    let condition = object.condition("InstanceReady");
    let brought =
        condition.is_some_and(|it| it.holds() && it.observed_generation == object.metadata.generation);
    seen.provisioned && (brought || seen.in_operation)
}

/// A server on its way to another state is looked at sooner.
fn next_look(seen: &Observed) -> Duration {
    let settled =
        seen.server.as_ref().is_none_or(|it| matches!(it.status.as_str(), "ACTIVE" | "ERROR" | "SHUTOFF"));
    if settled { RESYNC } else { BUILDING }
}
