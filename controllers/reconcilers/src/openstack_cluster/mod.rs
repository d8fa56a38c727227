//! OpenStackCluster reconciler: network, subnets, router, security groups and endpoint in OpenStack.
//!
//! A pass observes everything once. Then it decides and acts until nothing is left to do or an error
//! stops it, and notes each effect in what it has observed. It reports once. The journal is written
//! before a resource is created. If a pass is cut anywhere, the next one finds the created resources by
//! name and ownership tag.

mod act;
mod adoption;
mod applied_rules;
mod balancer;
mod bastion;
mod csi_volumes;
mod decide;
mod delete;
mod deletion_plan;
mod desired;
mod expiry;
mod leftovers;
mod observe;
mod owned;
mod quota_needs;
mod related;
mod report;
mod rules;
mod watch;
mod zones;

use std::sync::Arc;
use std::time::Duration;

use apiserver_types::{Cluster, OpenStackCluster};
use controllers_infrastructure::{Cloud, ErrorClass};
use controllers_runtime::{
    ControllerContext, ControllerSpec, Journal, OwnershipTag, PolicyRule, ReconcileError, Requeue,
    RequeuePolicy, Severity, now, paused, write_status,
};
use jiff::Timestamp;
use kube::{Api, ResourceExt};

use act::Actor;
use balancer::BalancerView;
use balancer::backends::backends;
use bastion::Progress;
use decide::Step;
use deletion_plan::Announced;
use desired::{Desired, EndpointWish};
use observe::{Observed, Observer};
use related::ObservedRelated;
use report::Ending;

use crate::preflight::{Preflight, QUOTA_EXCEEDED};
use crate::project;

/// Specification of this controller.
pub const CONTROLLER: ControllerSpec = ControllerSpec {
    identity: "openstackcluster-controller",
    rules: &[
        PolicyRule {
            groups: &["infrastructure.cluster.x-k8s.io"],
            resources: &["openstackclusters", "openstackclusters/status", "openstackmachines"],
            verbs: PolicyRule::CHANGE,
        },
        PolicyRule {
            groups: &["infrastructure.cluster.x-k8s.io"],
            resources: &["openstackservers"],
            verbs: PolicyRule::WRITE,
        },
        PolicyRule {
            groups: &["cluster.x-k8s.io"],
            resources: &["clusters", "machines"],
            verbs: PolicyRule::READ,
        },
        PolicyRule {
            groups: &["infrastructure.cluster.x-k8s.io"],
            resources: &["openstackclusteridentities"],
            verbs: PolicyRule::READ,
        },
        PolicyRule::CREDENTIALS,
    ],
    standalone_only: false,
    run: |context, shutdown| Box::pin(watch::run(context, shutdown)),
};

/// Finalizer that keeps the object until its cloud resources are deleted. Upstream's name.
pub(crate) const FINALIZER: &str = "openstackcluster.infrastructure.cluster.x-k8s.io";

/// Interval in which a complete cluster is compared with the cloud. Upstream has the same. At 5 minutes, a cluster of a
/// few machines would exceed 7 calls per Machine and hour at rest, and changes of its objects trigger passes anyway.
const RESYNC: Duration = Duration::from_mins(10);

/// Interval while Octavia changes a load balancer: it takes seconds.
const BUILDING: Duration = Duration::from_secs(2);

/// Interval in which a load balancer in ERROR that still works is looked at, a bastion that is not ready, and a host
/// name that cannot be resolved.
const DEGRADED: Duration = Duration::from_secs(30);

/// Annotation of infrastructure that another system manages.
const MANAGED_BY: &str = "cluster.x-k8s.io/managed-by";

/// Limit of the effects of one pass: more than the rules of any cluster, so that an endless loop ends.
const STEPS: usize = 512;

/// Reconciler of OpenStackClusters.
#[derive(Debug)]
pub struct OpenStackClusterReconciler {
    context: ControllerContext,
    requeue: RequeuePolicy,
    related: ObservedRelated,
    preflight: Preflight,
    announced: Announced,
}

impl OpenStackClusterReconciler {
    /// Creates a reconciler.
    pub fn new(context: ControllerContext) -> Self {
        Self {
            context,
            requeue: RequeuePolicy::default(),
            related: ObservedRelated::default(),
            preflight: Preflight::default(),
            announced: Announced::default(),
        }
    }

    /// Makes one pass. Returns when the next one is due.
    ///
    /// # Errors
    /// The API's own failure; errors of the cloud are in the status.
    pub async fn reconcile(&self, object: &OpenStackCluster) -> Result<Requeue, kube::Error> {
        let api = self.api(object);
        // The watch may be behind, so the object is read again.
        let Some(mut stored) = api.get_opt(&object.name_any()).await? else {
            self.requeue.forget(&object.uid().unwrap_or_default());
            self.related.forget(&object.uid().unwrap_or_default());
            self.announced.forget(&object.uid().unwrap_or_default());
            return Ok(Requeue::OnChange);
        };
        // The members of a load balancer and the bastion are other objects than the cluster.
        let related = related::find(&self.context.client, &stored).await?;
        let due =
            related.is_some_and(|related| self.related.changed(&stored.uid().unwrap_or_default(), related));
        if let Some(remaining) = self.requeue.remaining(&stored).filter(|_| !due) {
            return Ok(Requeue::After(remaining));
        }
        let result = Box::pin(self.pass(&api, &mut stored)).await;
        if let Err(error) = &result {
            self.record(&stored, error).await;
        }
        self.requeue.after(&stored, result, Some(BUILDING))
    }

    fn api(&self, object: &OpenStackCluster) -> Api<OpenStackCluster> {
        Api::namespaced(self.context.client.clone(), &object.namespace().unwrap_or_default())
    }

    async fn pass(
        &self,
        api: &Api<OpenStackCluster>,
        object: &mut OpenStackCluster,
    ) -> Result<Option<Duration>, ReconcileError> {
        let cluster = self.cluster(object).await?;
        if paused(object, cluster.as_ref()) || object.annotations().contains_key(MANAGED_BY) {
            return Ok(None);
        }
        let all: Api<OpenStackCluster> = Api::all(self.context.client.clone());
        if let Some(message) = crate::tag_conflict::find(&all, object).await? {
            return self.yield_resources(api, object, message).await;
        }
        match (object.metadata.deletion_timestamp.is_some(), cluster) {
            (true, _) => self.delete(api, object).await,
            (false, None) => Ok(None),
            (false, Some(cluster)) => self.provide(api, object, &cluster).await,
        }
    }

    /// Leaves the resources to the older object that has them, and reports that.
    async fn yield_resources(
        &self,
        api: &Api<OpenStackCluster>,
        object: &mut OpenStackCluster,
        message: String,
    ) -> Result<Option<Duration>, ReconcileError> {
        if object.metadata.deletion_timestamp.is_some() {
            crate::finalizers::remove(api, object, FINALIZER).await?;
            return Ok(None);
        }
        let before = object.clone();
        let error = ReconcileError::waiting(crate::tag_conflict::REASON, message);
        report::report_stopped(object, &error, &now());
        *object = write_status(api, &before, object).await?;
        Err(error)
    }

    /// Reads the Cluster that owns the object.
    async fn cluster(&self, object: &OpenStackCluster) -> Result<Option<Cluster>, ReconcileError> {
        let owner = object.owner_references().iter().find(|owner| owner.kind == "Cluster");
        let Some(owner) = owner else { return Ok(None) };
        let api: Api<Cluster> =
            Api::namespaced(self.context.client.clone(), &object.namespace().unwrap_or_default());
        Ok(api.get_opt(&owner.name).await?.filter(|cluster| cluster.uid().as_ref() == Some(&owner.uid)))
    }

    async fn provide(
        &self,
        api: &Api<OpenStackCluster>,
        object: &mut OpenStackCluster,
        cluster: &Cluster,
    ) -> Result<Option<Duration>, ReconcileError> {
        crate::finalizers::add_with_tag(api, object, FINALIZER).await?;
        let tag = OwnershipTag::of(object);
        let desired = Desired::read(object, &cluster.name_any());
        let endpoint = object.spec.control_plane_endpoint.clone().unwrap_or_default();
        let endpoint = endpoint.host.map(|host| (host, endpoint.port.unwrap_or_default()));
        let mut observed = observe::begin(Journal::of(object), endpoint);
        observed.bastion = bastion::find(&self.context.client, object, &cluster.name_any()).await?;
        if matches!(desired.endpoint, EndpointWish::LoadBalancer(_)) {
            let namespace = object.namespace().unwrap_or_default();
            let backends = backends(&self.context.client, &namespace, &cluster.name_any()).await?;
            observed.balancing = BalancerView::begin(object, backends);
        }
        let result = self.work(api, object, &desired, &tag, &mut observed).await;
        if result.as_ref().is_err_and(|error| matches!(error, ReconcileError::Api(_))) {
            return result.map(|_| None);
        }
        let ending = result.as_ref().map_or_else(Ending::Stopped, |_| Ending::Complete);
        let before = object.clone();
        // An outage says nothing about the resources; a name that matches nothing does.
        let unresolved = match &result {
            Err(ReconcileError::Cloud(error)) => {
                matches!(error.class, ErrorClass::NotFound | ErrorClass::Ambiguous)
            }
            Err(ReconcileError::Waiting { .. }) => true,
            _ => false,
        };
        report::report_login(object, observed.logged_in, result.as_ref().err(), &now());
        match &result {
            Err(error) if !observed.complete && !unresolved => report::report_stopped(object, error, &now()),
            _ => report::report(object, &desired, &observed, &ending, &now()),
        }
        let expiry = match &observed.credentials_expire_at {
            end if observed.logged_in => expiry::report(object, end.as_deref(), Timestamp::now(), &now()),
            _ => None,
        };
        *object = write_status(api, &before, object).await?;
        if let Some(message) = expiry {
            self.context.events.record(object, Severity::Warning, expiry::EXPIRING, &message).await;
        }
        match result {
            Err(ReconcileError::Waiting { reason: balancer::PENDING, .. }) => Ok(Some(BUILDING)),
            Ok(interval) if observed.bastion.progress != Progress::Settled => {
                Ok(Some(interval.min(DEGRADED)))
            }
            result => result.map(Some),
        }
    }

    async fn work(
        &self,
        api: &Api<OpenStackCluster>,
        object: &mut OpenStackCluster,
        desired: &Desired,
        tag: &OwnershipTag,
        observed: &mut Observed,
    ) -> Result<Duration, ReconcileError> {
        let cloud = self.cloud(object).await?;
        observed.logged_in = true;
        observed.credentials_expire_at = cloud.credentials_expire_at().map(str::to_owned);
        observed.project = project::check(object.annotations(), cloud.as_ref())?;
        Observer { cloud: &cloud, desired, tag }.observe(observed).await?;
        // Once for each change of the spec.
        if object.condition("Ready").is_none_or(|it| it.observed_generation != object.metadata.generation) {
            observed.warnings.extend(zones::unknown(object, observed));
        }
        observed.named_zones = zones::named(&self.context.client, object, observed).await?;
        self.reserve_quota(object, &cloud, desired, tag, observed).await?;
        observed.applied_rules = applied_rules::read(object);
        let actor = Actor { api, cloud: &cloud, desired, tag };
        let mut result = Err(crate::endless());
        for _ in 0..STEPS {
            let step = decide::next_step(desired, tag, observed);
            if let Some(interval) = interval(&step, observed) {
                result = Ok(interval);
                break;
            }
            match actor.act(step, object, observed).await {
                Ok(Some((reason, message))) => {
                    self.context.events.record(object, Severity::Normal, reason, &message).await;
                }
                Ok(None) => {}
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        if !matches!(result, Err(ReconcileError::Api(_))) {
            let made = actor.work_on_bastion(object, observed).await;
            self.record_bastion(object, observed, made?).await;
        }
        for (reason, message) in std::mem::take(&mut observed.warnings) {
            self.context.events.record(object, Severity::Warning, reason, &message).await;
        }
        self.preflight.settle(&cloud, &object.uid().unwrap_or_default()).await;
        actor.write_journal(object, observed).await?;
        if result.is_ok() && observed.endpoint.is_some() {
            let cluster = cluster_name(object).unwrap_or_default();
            csi_volumes::note(api, object, &cluster, &self.context.servers, &cloud).await?;
        }
        result
    }

    /// Reserves the quota of a cluster that is still to be created: before its first part, and again after the cloud has
    /// refused a part. The parts of an existing cluster do not wait for quota, because its other parts have to change.
    async fn reserve_quota(
        &self,
        object: &OpenStackCluster,
        cloud: &Arc<dyn Cloud>,
        desired: &Desired,
        tag: &OwnershipTag,
        observed: &Observed,
    ) -> Result<(), ReconcileError> {
        let initialization = object.status.as_ref().and_then(|status| status.initialization.as_ref());
        let provisioned = initialization.and_then(|it| it.provisioned) == Some(true);
        let begins = matches!(decide::next_step(desired, tag, observed), Step::Journal(_));
        let is_short = object.condition("Ready").is_some_and(|it| it.reason == QUOTA_EXCEEDED);
        if provisioned || !(begins || is_short) {
            return Ok(());
        }
        let needs = quota_needs::needs(desired, observed);
        let attempt = format!("create cluster {:?}", desired.name);
        self.preflight.reserve(cloud, &object.uid().unwrap_or_default(), needs, &attempt).await
    }

    /// Records the Events of a bastion, and its failure.
    async fn record_bastion(
        &self,
        object: &OpenStackCluster,
        observed: &mut Observed,
        made: Vec<(&'static str, String)>,
    ) {
        for (reason, message) in made {
            self.context.events.record(object, Severity::Normal, reason, &message).await;
        }
        if let Progress::Waiting(reason, message) = &observed.bastion.progress
            && ["BastionCreateFailed", "FloatingIPError", "InstanceStateError"].contains(reason)
        {
            observed.warnings.push((*reason, message.clone()));
        }
    }

    async fn cloud(&self, object: &OpenStackCluster) -> Result<Arc<dyn Cloud>, ReconcileError> {
        self.context.cloud(&object.namespace().unwrap_or_default(), &object.spec.identity_ref).await
    }

    /// Records an Event for an error of the cloud; its repetitions are counted.
    async fn record(&self, object: &OpenStackCluster, error: &ReconcileError) {
        if let ReconcileError::Cloud(error) = error {
            let events = &self.context.events;
            events.record(object, Severity::Warning, error.class.reason(), &error.to_string()).await;
        }
    }
}

/// Returns the interval after a pass that ends before this step: the cluster is complete, or Octavia changes
/// its load balancer while that works. `None` if the step is to be made.
fn interval(step: &Step, observed: &Observed) -> Option<Duration> {
    let works = observed.endpoint.as_ref().is_some_and(|(_, port)| *port > 0);
    match step {
        Step::Nothing if observed.unresolvable.is_some() => Some(DEGRADED),
        Step::Nothing => Some(RESYNC),
        Step::Balance(balancer::Step::Wait { reason, .. }) if works => match *reason {
            balancer::PENDING => Some(BUILDING),
            balancer::DEGRADED | balancer::STUCK => Some(DEGRADED),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the name of the Cluster of an OpenStackCluster, by its owner or its label.
fn cluster_name(object: &OpenStackCluster) -> Option<String> {
    let owner = object.owner_references().iter().find(|owner| owner.kind == "Cluster");
    let owner = owner.map(|owner| owner.name.clone());
    owner.or_else(|| object.labels().get(crate::CLUSTER_NAME_LABEL).cloned())
}

/// Returns true if the spec requests a load balancer.
pub(crate) fn has_load_balancer(object: &OpenStackCluster) -> bool {
    let server = object.spec.api_server.as_ref();
    let balancer = server.and_then(|server| server.managed_load_balancer.as_ref());
    balancer.is_some_and(|balancer| balancer.enabled != Some(false))
}

/// Returns the number of ports of the load balancer that the spec requests.
pub(crate) fn balanced_ports(object: &OpenStackCluster) -> usize {
    match Desired::read(object, "").endpoint {
        EndpointWish::LoadBalancer(wish) => wish.ports.len(),
        _ => 0,
    }
}
