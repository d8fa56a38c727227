//! Passes over objects that are not being deleted.

use std::sync::Arc;
use std::time::Duration;

use apiserver_types::{Condition, ConditionStatus, OpenStackCluster, OpenStackMachine};
use controllers_infrastructure::{Cloud, CloudError};
use controllers_runtime::{ReconcileError, Severity, now};
use jiff::Timestamp;
use kube::ResourceExt;

use super::act::Actor;
use super::context::ReconcileContext;
use super::decide::{self, Desired, Membership, Observed, Step, Waiting};
use super::objects::ServerObjects;
use super::observe::{self, Observer};
use super::report::{self, Ending};
use super::{
    BUILDING, OpenStackMachineReconciler, RESYNC, anti_affinity, bootstrap, delete, fixed_address,
    pool_address, provider_ids, requirements, rest,
};
use crate::login::{self, Login};
use crate::{pre_terminate, project};

/// Limit of the effects of one pass: more than any machine has parts, so that an endless loop ends.
const STEPS: usize = 256;

impl OpenStackMachineReconciler {
    /// Makes one pass over an object that is not being deleted: observes, decides and acts, and reports.
    pub(super) async fn provide(
        &self,
        objects: &ServerObjects,
        object: &mut OpenStackMachine,
        context: &ReconcileContext,
    ) -> Result<Option<Duration>, ReconcileError> {
        let mut observed = self.begin(object, context).await?;
        let connection = self.connect(object, Some(&context.cluster)).await?;
        self.report_login(objects, object, connection.refused.as_ref()).await?;
        let cloud = connection.cloud;
        observed.project = project::check(object.annotations(), cloud.as_ref())?;
        let tag = objects.tag(object);
        let observer = Observer { cloud: &cloud, servers: &self.context.servers, tag: &tag };
        let is_journal_lost = !observed.provisioned && delete::is_journal_lost(&observed, object);
        observed.by_tag_alone = !is_journal_lost && self.may_lack_journal(object, &observed).await;
        let looks_for_all = is_journal_lost || observed.by_tag_alone;
        if looks_for_all {
            delete::intend_all(&mut observed, object);
        }
        observer.server(&mut observed, &object.name_any()).await?;
        provider_ids::check(&self.context.client, object, observed.server.as_ref(), &tag).await?;
        Box::pin(self.take_over(objects, object, &cloud, &mut observed, &tag)).await?;
        if decide::is_failed_build(&tag, &observed) {
            observed.after_restore = self.context.settings.hold_after_restore().await;
        }
        let mut needed = Box::pin(self.requirements(object, context, &cloud, &observed)).await?;
        let desired = requirements::desired(object, context, &needed.resolved, &tag);
        if decide::needs_parts(object, &desired, &observed) {
            observer.parts(&mut observed, &desired).await?;
        }
        if looks_for_all {
            observed.journal.forget_unknown();
        }
        self.reserve_quota(object, &cloud, &desired, &observed, needed.sizes.as_ref()).await?;
        let address = self.pool_address(objects, object, &cloud, &observed).await?;
        let group = anti_affinity::wish(object, &context.machine, &context.cluster);
        if let Some(group) = group.filter(|_| needed.sizes.is_some()) {
            needed.resolved.server_group_id = Some(self.server_group(&cloud, &group).await?);
        }
        let endpoint_cloud =
            self.observe_ingress(&observer, &mut observed, object, context, &desired).await?;
        let actor = Actor {
            objects,
            cloud: &cloud,
            endpoint_cloud: &endpoint_cloud,
            machine: &context.machine,
            cluster: &context.cluster,
            desired: &desired,
            resolved: &needed.resolved,
            tag: &tag,
            user_data: needed.user_data.as_deref(),
            settings: &self.context.settings,
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

    /// Returns true if the cloud may have resources of the machine although its journal is empty: the object may be from a
    /// backup that was written before the first entry.
    pub(super) async fn may_lack_journal(&self, object: &OpenStackMachine, observed: &Observed) -> bool {
        if observed.provisioned || observed.known_server.is_some() || !observed.journal.entries().is_empty() {
            return false;
        }
        let created = object.metadata.creation_timestamp.as_ref().map(|created| created.0);
        self.context.settings.may_be_restored(created).await
    }

    /// Returns what is known without the cloud. A new machine waits for its cluster.
    async fn begin(
        &self,
        object: &OpenStackMachine,
        context: &ReconcileContext,
    ) -> Result<Observed, ReconcileError> {
        let mut observed = observe::begin(object, &self.context.term);
        observed.in_operation = self.operation(object).await?.is_some();
        observed.at_rest = rest::is_at_rest(object, &context.machine, Timestamp::now());
        observed.at_rest &= !observed.in_operation;
        if !observed.provisioned && !is_provisioned(&context.cluster) {
            let message = format!("OpenStackCluster {} is not ready", context.cluster.name_any());
            return Err(ReconcileError::waiting("WaitingForClusterInfrastructure", message));
        }
        Ok(observed)
    }

    /// Returns the address of a floating IP pool, if the spec names a pool.
    async fn pool_address(
        &self,
        objects: &ServerObjects,
        object: &mut OpenStackMachine,
        cloud: &Arc<dyn Cloud>,
        observed: &Observed,
    ) -> Result<Option<String>, ReconcileError> {
        let owner = objects.owner(object);
        match pool_address::address(&self.context.client, object, owner).await {
            // The condition says that the address is missing; the server works without it.
            Err(ReconcileError::Waiting { .. }) if observed.server.is_some() => Ok(None),
            Err(error) => {
                // A pool without addresses must not keep the quota from other machines. The next pass reserves again.
                self.preflight.settle(cloud, &object.uid().unwrap_or_default()).await;
                Err(error)
            }
            result => result,
        }
    }

    /// Observes by which way clients reach the machine's API server: a floating IP, or a load balancer. Returns the cloud
    /// that has the floating IP, which is the cluster's.
    async fn observe_ingress(
        &self,
        observer: &Observer<'_>,
        observed: &mut Observed,
        object: &OpenStackMachine,
        context: &ReconcileContext,
        desired: &Desired,
    ) -> Result<Arc<dyn Cloud>, ReconcileError> {
        let mut endpoint_cloud = Arc::clone(observer.cloud);
        if desired.takes_endpoint
            && observed.server.is_some()
            && !self.is_served(observer, observed, object, &context.cluster).await?
        {
            endpoint_cloud = self.cloud_of_cluster(object, &context.cluster, observer.cloud).await?;
            let is_elsewhere = endpoint_cloud.project() != observer.cloud.project();
            if is_elsewhere && observed.ports.is_empty() {
                observer.parts(observed, desired).await?;
            }
            // The cluster's project does not show the servers of others, so that none of them can be called dead.
            let desired = Desired { is_node: desired.is_node && !is_elsewhere, ..desired.clone() };
            let of_cluster =
                Observer { cloud: &endpoint_cloud, servers: &self.context.servers, tag: observer.tag };
            let leaving = self.leaving_control_planes(object).await?;
            of_cluster.endpoint(observed, &desired, &context.cluster, &leaving).await?;
        }
        let leaves = pre_terminate::waits(&context.machine);
        if let Some(balancer) = &desired.balancer
            && observed.server.is_some()
            // A member may be complete while its server is still being built.
            && (leaves || !(observed.provisioned && is_ingress_ready(object)))
        {
            let ports = desired.balanced_ports;
            let of_cluster = self.cloud_of_cluster(object, &context.cluster, observer.cloud).await?;
            let observer = Observer { cloud: &of_cluster, servers: &self.context.servers, tag: observer.tag };
            if leaves {
                let is_member = observer.is_member(balancer, object).await?;
                observed.membership = if is_member { Membership::Leaving } else { Membership::Removed };
            } else {
                observer.membership(observed, balancer, ports, object).await?;
            }
        }
        Ok(endpoint_cloud)
    }

    /// Returns true if Nova's list shows that a server of the control plane has the address of the cluster's API. A machine
    /// that is not at rest looks at the floating IP itself, and so does each one while the control plane loses a Machine.
    async fn is_served(
        &self,
        observer: &Observer<'_>,
        observed: &Observed,
        object: &OpenStackMachine,
        cluster: &OpenStackCluster,
    ) -> Result<bool, ReconcileError> {
        if !observed.at_rest {
            return Ok(false);
        }
        if observed.server.as_ref().is_some_and(|server| rest::has_endpoint(server, cluster)) {
            return Ok(true);
        }
        let listed = self.context.servers.list_at_rest(observer.cloud).await?;
        let is_held = listed.values().any(|server| rest::serves_endpoint(server, cluster));
        Ok(is_held && self.leaving_control_planes(object).await?.is_empty())
    }

    /// Writes the condition of the login if it is another one than before.
    async fn report_login(
        &self,
        objects: &ServerObjects,
        object: &mut OpenStackMachine,
        refused: Option<&CloudError>,
    ) -> Result<(), ReconcileError> {
        let condition = Login::of(refused).condition(&now());
        let Some(condition) = condition.filter(|it| !login::is_known(object.condition(&it.kind), it)) else {
            return Ok(());
        };
        let before = object.clone();
        report::add(object, Some(condition));
        *object = objects.write_status(&before, object).await?;
        Ok(())
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
        if let Some(failed) = bootstrap.filter(|it| it.status == ConditionStatus::False) {
            self.warn(actor.objects, object, &failed.reason, &failed.message).await;
        }
        Ok(())
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
        if result.is_ok() {
            observed.lost_calls.clear();
        }
        // All resources were compared, so none has a tag of an earlier spec any more.
        let is_tagged = matches!(result, Ok(None)) && actor.desired.ports.len() == observed.ports.len();
        let written = actor.write_journal(object, observed, is_tagged).await;
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
                if let Some(message) = fixed_address::warning(actor.cluster, actor.machine, actor.desired) {
                    self.warn(actor.objects, object, fixed_address::NOT_ALLOWED, &message).await;
                }
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
        // The control plane waits until the cluster's reconciler has removed the member.
        None if observed.membership == Membership::Leaving => BUILDING,
        None if settled && observed.at_rest => rest::RESYNC,
        Some(Waiting::Unavailable | Waiting::Restored(_)) | None if settled => RESYNC,
        Some(Waiting::Unavailable | Waiting::Restored(_)) | None => BUILDING,
    }
}
