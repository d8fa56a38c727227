//! OpenStackMachine reconciler: a Nova server with its ports and volumes.
//!
//! A pass observes the server, and the other resources that the next step needs. Then it decides and
//! acts until nothing is left to do, it has to wait, or an error stops it. It reports once. A server that
//! was complete once is never created again: that is left to the Machine's owner. While a
//! MachineOperation has claimed the server, a pass only observes.

mod act;
mod anti_affinity;
mod bootstrap;
mod context;
mod decide;
mod delete;
mod delete_trunk;
mod desired;
mod new_port;
mod objects;
mod observe;
mod observe_endpoint;
mod pool_address;
mod provider_ids;
mod quota_needs;
mod remedies;
mod report;
mod requirements;
pub(crate) mod resolve;
mod rest;
mod server;
mod takeover;
mod watch;

use std::time::Duration;

use apiserver_types::{Condition, OpenStackCluster, OpenStackMachine};
use controllers_runtime::{
    ControllerContext, ControllerSpec, PolicyRule, ReconcileError, Requeue, RequeuePolicy, Severity, now,
    paused,
};
use jiff::Timestamp;
use kube::ResourceExt;

use act::Actor;
use context::ReconcileContext;
use decide::{Observed, Step, Waiting};
use objects::ServerObjects;
use observe::Observer;
use report::Ending;

use crate::preflight::Preflight;
use crate::project;

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
        // Upstream's records of servers, which are taken over.
        PolicyRule {
            groups: &["infrastructure.cluster.x-k8s.io"],
            resources: &["openstackservers"],
            verbs: &["get", "delete"],
        },
        PolicyRule { groups: &["capstan.dev"], resources: &["machineoperations"], verbs: &["get"] },
        PolicyRule {
            groups: &["ipam.cluster.x-k8s.io"],
            resources: &["ipaddressclaims"],
            verbs: PolicyRule::WRITE,
        },
        PolicyRule { groups: &["ipam.cluster.x-k8s.io"], resources: &["ipaddresses"], verbs: &["get"] },
        PolicyRule { groups: &["openstack.k-orc.cloud"], resources: &["images"], verbs: PolicyRule::READ },
        PolicyRule::CREDENTIALS,
    ],
    standalone_only: false,
    run: |context, shutdown| Box::pin(watch::run(context, shutdown)),
};

/// Finalizer that keeps the object until its cloud resources are deleted. Upstream's name.
pub(crate) const FINALIZER: &str = "openstackmachine.infrastructure.cluster.x-k8s.io";

/// Interval in which a machine without a healthy Node is compared with the cloud. One shared list serves all machines.
const RESYNC: Duration = Duration::from_secs(30);

/// Interval of a resource that is being built.
const BUILDING: Duration = Duration::from_secs(2);

/// Limit of the effects of one pass: more than any machine has parts, so that an endless loop ends.
const STEPS: usize = 256;

/// Reconciler of OpenStackMachines.
#[derive(Debug)]
pub struct OpenStackMachineReconciler {
    context: ControllerContext,
    requeue: RequeuePolicy,
    preflight: Preflight,
    /// Held while a server group is looked up and created.
    groups: tokio::sync::Mutex<()>,
}

impl OpenStackMachineReconciler {
    /// Creates a reconciler.
    pub fn new(context: ControllerContext) -> Self {
        Self {
            context,
            requeue: RequeuePolicy::default(),
            preflight: Preflight::default(),
            groups: tokio::sync::Mutex::default(),
        }
    }

    /// Makes one pass. Returns when the next one is due.
    ///
    /// # Errors
    /// The API's own failure; errors of the cloud are in the status.
    pub async fn reconcile(&self, object: &OpenStackMachine) -> Result<Requeue, kube::Error> {
        let objects = ServerObjects::machines(&self.context.client, &object.namespace().unwrap_or_default());
        self.reconcile_in(&objects, object).await
    }

    /// Makes one pass over an object of either kind.
    async fn reconcile_in<K: kube::Resource>(
        &self,
        objects: &ServerObjects,
        object: &K,
    ) -> Result<Requeue, kube::Error> {
        // The watch may be behind, so the object is read again.
        let Some(mut stored) = objects.get(&object.name_any()).await? else {
            self.requeue.forget(&object.uid().unwrap_or_default());
            return Ok(Requeue::OnChange);
        };
        if let Some(remaining) = self.requeue.remaining(&stored) {
            return Ok(Requeue::After(remaining));
        }
        let result = match objects {
            ServerObjects::Machines(_) => Box::pin(self.provide_or_delete(objects, &mut stored)).await,
            ServerObjects::Servers(api) => {
                Box::pin(self.provide_or_delete_server(objects, api, &mut stored)).await
            }
        };
        let result = match result {
            Err(error) => self.report_error(objects, &mut stored, error).await,
            result => result,
        };
        self.requeue.after(&stored, result, Some(BUILDING))
    }

    /// Reports the error that stopped a pass, in the status and in an Event.
    async fn report_error(
        &self,
        objects: &ServerObjects,
        object: &mut OpenStackMachine,
        error: ReconcileError,
    ) -> Result<Option<Duration>, ReconcileError> {
        if matches!(error, ReconcileError::Api(_)) {
            return Err(error);
        }
        let before = object.clone();
        // A pass that reached its report has written more than this.
        if object.condition("Ready").is_none_or(|ready| ready.message != error.to_string()) {
            report::report_stopped(object, &error, &now());
            *object = objects.write_status(&before, object).await?;
        }
        if let ReconcileError::Cloud(error) = &error {
            self.warn(objects, object, error.class.reason(), &error.to_string()).await;
        }
        Err(error)
    }

    async fn provide_or_delete(
        &self,
        objects: &ServerObjects,
        object: &mut OpenStackMachine,
    ) -> Result<Option<Duration>, ReconcileError> {
        let (cluster, infrastructure) = self.cluster(object).await?;
        if paused(object, cluster.as_ref()) {
            return Ok(None);
        }
        if object.metadata.deletion_timestamp.is_some() {
            let going = cluster.is_none_or(|cluster| cluster.metadata.deletion_timestamp.is_some());
            return self.delete(objects, object, infrastructure.as_ref(), going).await;
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
        objects.add_finalizer(object).await?;
        self.provide(objects, object, &ReconcileContext { machine, cluster, is_server: false }).await
    }

    async fn provide(
        &self,
        objects: &ServerObjects,
        object: &mut OpenStackMachine,
        context: &ReconcileContext,
    ) -> Result<Option<Duration>, ReconcileError> {
        let mut observed = observe::begin(object);
        observed.in_operation = self.operation(object).await?.is_some();
        observed.at_rest = rest::is_at_rest(object, &context.machine, Timestamp::now());
        observed.at_rest &= !observed.in_operation;
        if !observed.provisioned && !is_provisioned(&context.cluster) {
            let message = format!("OpenStackCluster {} is not ready", context.cluster.name_any());
            return Err(ReconcileError::waiting("WaitingForClusterInfrastructure", message));
        }
        let cloud = self.cloud(object, Some(&context.cluster)).await?;
        observed.project = project::check(object.annotations(), cloud.as_ref())?;
        let tag = objects.tag(object);
        let observer = Observer { cloud: &cloud, servers: &self.context.servers, tag: &tag };
        observer.server(&mut observed, &object.name_any()).await?;
        provider_ids::check(&self.context.client, object, observed.server.as_ref(), &tag).await?;
        Box::pin(self.take_over(objects, object, &cloud, &mut observed, &tag)).await?;
        let owner = objects.owner(object);
        let address = match pool_address::address(&self.context.client, object, owner).await {
            // The condition says that the address is missing; the server works without it.
            Err(ReconcileError::Waiting { .. }) if observed.server.is_some() => None,
            result => result?,
        };
        let mut needed = Box::pin(self.requirements(object, context, &cloud, &observed)).await?;
        let desired = requirements::desired(object, context, &needed.resolved, &tag);
        if decide::needs_parts(object, &observed) {
            observer.parts(&mut observed, &desired).await?;
        }
        self.reserve_quota(object, &cloud, &desired, &observed, needed.sizes.as_ref()).await?;
        let group = anti_affinity::wish(object, &context.machine, &context.cluster);
        if let Some(group) = group.filter(|_| needed.sizes.is_some()) {
            needed.resolved.server_group_id = Some(self.server_group(&cloud, &group).await?);
        }
        let serves = observed.at_rest && rest::has_endpoint(object, &context.cluster);
        if desired.takes_endpoint && observed.server.is_some() && !serves {
            observer.endpoint(&mut observed, &desired, &context.cluster).await?;
        }
        if let Some(balancer) = &desired.balancer
            && observed.server.is_some()
            // A member may be complete while its server is still being built.
            && !(observed.provisioned && is_ingress_ready(object))
        {
            let (ports, uid) = (desired.balanced_ports, object.uid().unwrap_or_default());
            let of_cluster = self.cloud_of_cluster(object, &context.cluster, &cloud).await?;
            let observer = Observer { cloud: &of_cluster, servers: &self.context.servers, tag: &tag };
            observer.membership(&mut observed, balancer, ports, &uid).await?;
        }
        let actor = Actor {
            objects,
            cloud: &cloud,
            machine: &context.machine,
            cluster: &context.cluster,
            desired: &desired,
            resolved: &needed.resolved,
            tag: &tag,
            user_data: needed.user_data.as_deref(),
        };
        let result = self.work(&actor, object, &mut observed).await;
        if needed.sizes.is_some() && (result.is_err() || observed.server.is_some()) {
            self.preflight.settle(&cloud, &object.uid().unwrap_or_default()).await;
        }
        if matches!(result, Err(ReconcileError::Api(_))) {
            return result.map(|_| None);
        }
        let is_active = observed.server.as_ref().is_some_and(|server| server.status == "ACTIVE");
        let association = match address.filter(|_| is_active && result.is_ok()) {
            Some(address) => {
                Some(pool_address::associate(&observer, &desired, &mut observed, &address).await?)
            }
            None => None,
        };
        self.report(&actor, object, &observed, &result, association).await?;
        result.map(|waiting| Some(interval(waiting.as_ref(), &observed)))
    }

    /// Writes the status, and an Event if the server was lost.
    async fn report(
        &self,
        actor: &Actor<'_>,
        object: &mut OpenStackMachine,
        observed: &Observed,
        result: &Result<Option<Waiting>, ReconcileError>,
        association: Option<Condition>,
    ) -> Result<(), ReconcileError> {
        let ending = match result {
            Err(error) => Ending::Stopped(error),
            Ok(Some(waiting)) => Ending::Waiting(waiting),
            Ok(None) => Ending::Complete,
        };
        let before = object.clone();
        let server = observed.server.as_ref();
        let bootstrap = bootstrap::condition(actor.cloud, object, actor.machine, server).await;
        report::report(object, actor.desired, Some(actor.resolved), observed, &ending, &now());
        report::add(object, bootstrap.clone());
        report::require(object, association);
        *object = actor.objects.write_status(&before, object).await?;
        self.record_loss(actor.objects, &before, object).await;
        if let Some(failed) = bootstrap.filter(|it| !it.holds()) {
            self.warn(actor.objects, object, &failed.reason, &failed.message).await;
        }
        Ok(())
    }

    /// Records a warning.
    async fn warn(&self, objects: &ServerObjects, object: &OpenStackMachine, reason: &str, message: &str) {
        objects.record(&self.context.events, object, Severity::Warning, reason, message).await;
    }

    /// Records an Event for a server that was up and is not any more.
    async fn record_loss(
        &self,
        objects: &ServerObjects,
        before: &OpenStackMachine,
        after: &OpenStackMachine,
    ) {
        let was = before.condition("InstanceReady").is_some_and(Condition::holds);
        if let Some(now) = after.condition("InstanceReady").filter(|now| was && !now.holds()) {
            self.warn(objects, after, &now.reason, &now.message).await;
        }
    }

    /// Decides and acts until nothing is left to do or the pass has to wait, and writes the journal.
    async fn work(
        &self,
        actor: &Actor<'_>,
        object: &mut OpenStackMachine,
        observed: &mut Observed,
    ) -> Result<Option<Waiting>, ReconcileError> {
        let result = self.take_steps(actor, object, observed).await;
        let written = act::write_journal(actor.objects, object, observed).await;
        result.and_then(|waiting| written.map(|()| waiting))
    }

    /// Records an Event for the tags that Nova does not accept. Ports and trunks have them.
    async fn warn_of_tags(&self, actor: &Actor<'_>, object: &OpenStackMachine) {
        let (_, left) = actor.server_tags(object);
        if !left.is_empty() {
            let message = format!(
                "the server is created without the tags {}: Nova accepts 50 tags of 60 characters without , and /",
                left.join(" ")
            );
            self.warn(actor.objects, object, "TagNotApplied", &message).await;
        }
    }

    async fn take_steps(
        &self,
        actor: &Actor<'_>,
        object: &mut OpenStackMachine,
        observed: &mut Observed,
    ) -> Result<Option<Waiting>, ReconcileError> {
        for _ in 0..STEPS {
            let step = match decide::next_step(actor.desired, actor.tag, observed) {
                Step::Nothing => return Ok(None),
                Step::Wait(waiting) => return Ok(Some(waiting)),
                step => step,
            };
            if step == Step::CreateServer {
                self.warn_of_tags(actor, object).await;
            }
            if let Some((reason, message)) = actor.act(step, object, observed).await? {
                let events = &self.context.events;
                actor.objects.record(events, object, Severity::Normal, reason, &message).await;
            }
        }
        Err(crate::endless())
    }
}

/// Returns true if clients reach the machine's API server.
fn is_ingress_ready(object: &OpenStackMachine) -> bool {
    object.condition("APIServerIngressReady").is_some_and(Condition::holds)
}

fn is_provisioned(cluster: &OpenStackCluster) -> bool {
    let initialization = cluster.status.as_ref().and_then(|status| status.initialization.as_ref());
    initialization.and_then(|it| it.provisioned) == Some(true)
}

/// Returns the interval after a pass: a short one while the cloud builds something.
fn interval(waiting: Option<&Waiting>, observed: &Observed) -> Duration {
    let settled = observed
        .server
        .as_ref()
        .is_none_or(|it| matches!(it.status.as_str(), "ACTIVE" | "ERROR" | "SHUTOFF"));
    match waiting {
        Some(Waiting::Volume { .. } | Waiting::Server { .. } | Waiting::Member) => BUILDING,
        None if settled && observed.at_rest => rest::RESYNC,
        Some(Waiting::Unavailable) | None if settled => RESYNC,
        Some(Waiting::Unavailable) | None => BUILDING,
    }
}
