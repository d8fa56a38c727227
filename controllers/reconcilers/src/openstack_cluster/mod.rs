//! OpenStackCluster reconciler: network, subnets, router, security groups and endpoint in OpenStack.
//!
//! A pass observes everything once. Then it decides and acts until nothing is left to do or an error
//! stops it, and notes each effect in what it has observed. It reports once. The journal is written
//! before a resource is created. If a pass is cut anywhere, the next one finds the created resources by
//! name and ownership tag.

mod act;
mod balancer;
mod decide;
mod delete;
mod desired;
mod observe;
mod report;
mod rules;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use apiserver_types::{Cluster, OpenStackCluster, OpenStackMachine};
use controllers_infrastructure::{Cloud, ErrorClass};
use controllers_runtime::{
    ControllerContext, ControllerSpec, Journal, OwnershipTag, PolicyRule, ReconcileError, Requeue,
    RequeuePolicy, Severity, now, paused, write_status,
};
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use act::Actor;
use balancer::BalancerView;
use balancer::backends::{SeenBackends, backends};
use decide::Step;
use desired::{Desired, EndpointWish};
use observe::{Observed, Observer};
use report::Ending;

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
            groups: &["cluster.x-k8s.io"],
            resources: &["clusters", "machines"],
            verbs: PolicyRule::READ,
        },
        PolicyRule::SECRETS,
        PolicyRule::CLUSTER_IDENTITIES,
    ],
    standalone_only: false,
    run: |context, shutdown| Box::pin(watch::run(context, shutdown)),
};

/// Finalizer that keeps the object until its cloud resources are deleted. Upstream's name.
pub(crate) const FINALIZER: &str = "openstackcluster.infrastructure.cluster.x-k8s.io";

/// Interval in which a complete cluster is compared with the cloud.
const RESYNC: Duration = Duration::from_mins(5);

/// Interval while Octavia changes a load balancer: it takes seconds.
const BUILDING: Duration = Duration::from_secs(2);

/// Interval in which a load balancer in ERROR that still works is looked at.
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
    seen: SeenBackends,
}

impl OpenStackClusterReconciler {
    /// Creates a reconciler.
    pub fn new(context: ControllerContext) -> Self {
        Self { context, requeue: RequeuePolicy::default(), seen: SeenBackends::default() }
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
            self.seen.forget(&object.uid().unwrap_or_default());
            return Ok(Requeue::OnChange);
        };
        // The members of a load balancer are other objects than the cluster.
        let due = self.members_changed(&stored).await?;
        if let Some(remaining) = self.requeue.remaining(&stored).filter(|_| !due) {
            return Ok(Requeue::After(remaining));
        }
        let result = Box::pin(self.pass(&api, &mut stored)).await;
        if let Err(error) = &result {
            self.record(&stored, error).await;
        }
        self.requeue.after(&stored, result, Some(BUILDING))
    }

    /// Returns true if other machines than in the last pass are to be members of the cluster's load balancer.
    async fn members_changed(&self, object: &OpenStackCluster) -> Result<bool, kube::Error> {
        let (Some(cluster), true) =
            (object.labels().get(crate::CLUSTER_NAME_LABEL), has_load_balancer(object))
        else {
            return Ok(false);
        };
        let namespace = object.namespace().unwrap_or_default();
        let found = backends(&self.context.client, &namespace, cluster).await?;
        Ok(self.seen.changed(&object.uid().unwrap_or_default(), &found))
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
        match (object.metadata.deletion_timestamp.is_some(), cluster) {
            (true, _) => self.delete(api, object).await,
            (false, None) => Ok(None),
            (false, Some(cluster)) => self.provide(api, object, &cluster).await,
        }
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
        crate::finalizers::add(api, object, FINALIZER).await?;
        let tag = OwnershipTag::of(object);
        let desired = Desired::read(object, &cluster.name_any());
        let endpoint = object.spec.control_plane_endpoint.clone().unwrap_or_default();
        let endpoint = endpoint.host.map(|host| (host, endpoint.port.unwrap_or_default()));
        let mut observed = observe::begin(Journal::of(object), endpoint);
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
        let unresolved = matches!(&result, Err(ReconcileError::Cloud(error))
            if matches!(error.class, ErrorClass::NotFound | ErrorClass::Ambiguous));
        match &result {
            Err(error) if !observed.complete && !unresolved => report::report_stopped(object, error, &now()),
            _ => report::report(object, &desired, &observed, &ending, &now()),
        }
        *object = write_status(api, &before, object).await?;
        match result {
            Err(ReconcileError::Waiting { reason: balancer::PENDING, .. }) => Ok(Some(BUILDING)),
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
        Observer { cloud: &cloud, desired, tag }.observe(observed).await?;
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
        for (reason, message) in std::mem::take(&mut observed.warnings) {
            self.context.events.record(object, Severity::Warning, reason, &message).await;
        }
        actor.write_journal(object, observed).await?;
        result
    }

    async fn cloud(&self, object: &OpenStackCluster) -> Result<Arc<dyn Cloud>, ReconcileError> {
        self.context.cloud(&object.namespace().unwrap_or_default(), &object.spec.identity_ref).await
    }

    async fn delete(
        &self,
        api: &Api<OpenStackCluster>,
        object: &mut OpenStackCluster,
    ) -> Result<Option<Duration>, ReconcileError> {
        if !object.finalizers().iter().any(|finalizer| finalizer == FINALIZER) {
            return Ok(None);
        }
        if !crate::moved(object) {
            let result = self.delete_resources(api, object).await;
            if let Err(error) = &result
                && !matches!(error, ReconcileError::Api(_))
            {
                let before = object.clone();
                report::report_stopped(object, error, &now());
                *object = write_status(api, &before, object).await?;
            }
            if matches!(result, Err(ReconcileError::Waiting { reason: balancer::PENDING, .. })) {
                return Ok(Some(BUILDING));
            }
            result?;
        }
        crate::finalizers::remove(api, object, FINALIZER).await?;
        Ok(None)
    }

    async fn delete_resources(
        &self,
        api: &Api<OpenStackCluster>,
        object: &mut OpenStackCluster,
    ) -> Result<(), ReconcileError> {
        self.machines_are_gone(object).await?;
        let mut observed = observe::begin(Journal::of(object), None);
        if observed.journal.entries().is_empty() {
            return Ok(());
        }
        let cloud = self.cloud(object).await?;
        let tag = OwnershipTag::of(object);
        let desired = Desired::read(object, "");
        let observer = Observer { cloud: &cloud, desired: &desired, tag: &tag };
        let actor = Actor { api, cloud: &cloud, desired: &desired, tag: &tag };
        while let Some(entry) = delete::next_entry(&observed.journal) {
            if let Some(message) = delete::delete_entry(&observer, &entry).await? {
                self.context.events.record(object, Severity::Normal, "Deleted", &message).await;
                // There may be a second one, of a create call whose response was lost: look again.
                continue;
            }
            observed.journal.strike(&entry.kind, &entry.name);
            actor.write_journal(object, &observed).await?;
        }
        Ok(())
    }

    /// Waits for the servers, which use the network.
    async fn machines_are_gone(&self, object: &OpenStackCluster) -> Result<(), ReconcileError> {
        let Some(cluster) = object.labels().get(crate::CLUSTER_NAME_LABEL) else { return Ok(()) };
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<OpenStackMachine> = Api::namespaced(self.context.client.clone(), &namespace);
        let params = ListParams::default().labels(&format!("{}={cluster}", crate::CLUSTER_NAME_LABEL));
        // One without our finalizer has no resources in the cloud.
        let holds = |machine: &&OpenStackMachine| {
            machine.finalizers().iter().any(|finalizer| finalizer == crate::openstack_machine::FINALIZER)
        };
        let found = api.list(&params).await?;
        let left: Vec<String> = found.iter().filter(holds).map(ResourceExt::name_any).collect();
        if left.is_empty() {
            return Ok(());
        }
        Err(ReconcileError::waiting(
            "WaitingForMachines",
            format!("waiting for the deletion of OpenStackMachines: {}", left.join(", ")),
        ))
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
        Step::Nothing => Some(RESYNC),
        Step::Balance(balancer::Step::Wait { reason, .. }) if works => match *reason {
            balancer::PENDING => Some(BUILDING),
            balancer::DEGRADED => Some(DEGRADED),
            _ => None,
        },
        _ => None,
    }
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
