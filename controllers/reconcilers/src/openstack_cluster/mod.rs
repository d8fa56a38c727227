//! OpenStackCluster reconciler: network, subnets, router, security groups and endpoint in OpenStack.
//!
//! A pass observes everything once. Then it decides and acts until nothing is left to do or an error
//! stops it, and notes each effect in what it has observed. It reports once. The journal is written
//! before a resource is created. If a pass is cut anywhere, the next one finds the created resources by
//! name and ownership tag.

mod act;
mod adoption;
mod announce;
mod applied_rules;
mod balancer;
mod balancer_members;
mod bastion;
mod blockers;
mod copied_credentials;
mod csi_shares;
mod csi_volumes;
mod decide;
mod delete;
mod delete_entry;
mod deletion_plan;
mod desired;
mod drift;
mod expiry;
mod gateway;
mod leftovers;
mod lost_network;
mod observe;
mod orphans;
mod owned;
mod provide;
mod quota_needs;
mod related;
mod report;
mod rest;
mod rules;
mod service_balancers;
mod service_parts;
mod service_resources;
mod shared_balancers;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_endpoint;
mod watch;
mod workload_names;
mod workload_notes;
mod zones;

use std::time::Duration;

use apiserver_types::{Cluster, OpenStackCluster};
use controllers_infrastructure::Connection;
use controllers_runtime::{
    ControllerContext, ControllerSpec, PolicyRule, ReconcileError, Requeue, RequeuePolicy, Severity, now,
    paused, write_status,
};
use kube::{Api, ResourceExt};

pub(crate) use balancer::health::is_given_up;
use deletion_plan::Announced;
use desired::{Desired, EndpointWish};
use related::ObservedRelated;

use crate::preflight::Preflight;

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
        // The number of machines, which are the members of a load balancer.
        PolicyRule { groups: &["controlplane.cluster.x-k8s.io"], resources: &["*"], verbs: &["get"] },
        PolicyRule::CREDENTIALS,
    ],
    run: |context, shutdown| Box::pin(watch::run(context, shutdown)),
};

/// Finalizer that keeps the object until its cloud resources are deleted. Upstream's name.
pub(crate) const FINALIZER: &str = "openstackcluster.infrastructure.cluster.x-k8s.io";

/// Interval while Octavia changes a load balancer: it takes seconds.
const BUILDING: Duration = Duration::from_secs(2);

/// Interval in which a load balancer in ERROR that still works is looked at, a bastion that is not ready, and a host
/// name that cannot be resolved.
const DEGRADED: Duration = Duration::from_secs(30);

/// Annotation of infrastructure that another system manages.
const MANAGED_BY: &str = "cluster.x-k8s.io/managed-by";

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
            requeue: RequeuePolicy::with_clock(context.servers.clock().clone()),
            context,
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
        let is_unchanged = !due && self.requeue.is_unchanged(&stored);
        if let Some(remaining) = self.requeue.remaining(&stored).filter(|_| !due)
            && !self.has_plan_to_show(&stored).await
        {
            return Ok(Requeue::After(remaining));
        }
        let result = Box::pin(self.pass(&api, &mut stored, is_unchanged)).await;
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
        is_unchanged: bool,
    ) -> Result<Option<Duration>, ReconcileError> {
        let cluster = self.cluster(object).await?;
        // Another system writes the status, too.
        if object.annotations().contains_key(MANAGED_BY) {
            return Ok(None);
        }
        if paused(object, cluster.as_ref()) {
            let before = object.clone();
            report::report_pause(object);
            *object = write_status(api, &before, object).await?;
            return Ok(None);
        }
        let all: Api<OpenStackCluster> = Api::all(self.context.client.clone());
        if let Some(message) = crate::tag_conflict::find(&all, object).await? {
            return self.yield_resources(api, object, message).await;
        }
        match (object.metadata.deletion_timestamp.is_some(), cluster) {
            (true, _) => self.delete(api, object).await,
            (false, None) => Ok(None),
            (false, Some(cluster)) => {
                self.announce_early(object, &cluster).await?;
                self.provide(api, object, &cluster, is_unchanged).await
            }
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

    async fn connect(&self, object: &OpenStackCluster) -> Result<Connection, ReconcileError> {
        self.context.connect(&object.namespace().unwrap_or_default(), &object.spec.identity_ref).await
    }

    /// Records an Event for an error of the cloud; its repetitions are counted.
    async fn record(&self, object: &OpenStackCluster, error: &ReconcileError) {
        if let ReconcileError::Cloud(error) = error {
            let events = &self.context.events;
            events.record(object, Severity::Warning, error.event_reason(), &error.to_string()).await;
        }
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
