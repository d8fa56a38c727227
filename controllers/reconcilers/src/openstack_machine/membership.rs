//! Wait of a deleted machine for the cluster's reconciler, which removes it from the load balancer.

use apiserver_types::{OpenStackCluster, OpenStackMachine};
use controllers_infrastructure::LoadBalancerQuery;
use controllers_runtime::{ReconcileError, Severity};

use super::OpenStackMachineReconciler;
use super::objects::ServerObjects;
use super::observe::Observer;
use crate::openstack_cluster::{has_load_balancer, is_given_up};

/// Reason of the Event about a machine that is deleted while it is a member.
const LEFT_BEHIND: &str = "MemberLeftBehind";

impl OpenStackMachineReconciler {
    /// Returns true if the load balancer still sends connections to the machine. One that Octavia cannot change for a long
    /// time is not waited for; the cluster's reconciler removes the member once it can.
    pub(super) async fn is_member(
        &self,
        objects: &ServerObjects,
        observer: &Observer<'_>,
        object: &OpenStackMachine,
        cluster: Option<&OpenStackCluster>,
    ) -> Result<bool, ReconcileError> {
        let cluster = cluster
            .filter(|cluster| cluster.metadata.deletion_timestamp.is_none() && has_load_balancer(cluster));
        let status = cluster.and_then(|cluster| cluster.status.as_ref());
        let known = status.and_then(|status| status.api_server_managed_load_balancer.as_ref());
        let (Some(known), Some(cluster)) = (known, cluster) else { return Ok(false) };
        let of_cluster = self.cloud_of_cluster(object, cluster, observer.cloud).await?;
        let observer = Observer { cloud: &of_cluster, servers: observer.servers, tag: observer.tag };
        let query = LoadBalancerQuery { id: Some(known.id.clone()), ..LoadBalancerQuery::default() };
        let found = observer.cloud.load_balancers(&query).await?;
        let exists = |status: &str| !matches!(status, "DELETED" | "PENDING_DELETE");
        let Some(balancer) = found.iter().find(|balancer| exists(&balancer.provisioning_status)) else {
            return Ok(false);
        };
        if !observer.is_member(&known.id, object).await? {
            return Ok(false);
        }
        if !is_given_up(jiff::Timestamp::now(), balancer) {
            return Ok(true);
        }
        let message = format!(
            "load balancer {} ({}) has been in {} since {}, so the machine is deleted while it is a member. The member is \
             removed once Octavia can",
            balancer.name, balancer.id, balancer.provisioning_status, balancer.changed_at
        );
        objects.record(&self.context.events, object, Severity::Warning, LEFT_BEHIND, &message).await;
        Ok(false)
    }
}
