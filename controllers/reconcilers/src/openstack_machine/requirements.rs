//! Requirements of a server: ids, bootstrap data and quota, all of them before anything is created.

use std::collections::BTreeMap;
use std::sync::Arc;

use apiserver_types::{Condition, OpenStackCluster, OpenStackMachine, ResolvedMachineSpec};
use controllers_infrastructure::{AddressPair, Cloud};
use controllers_runtime::{OwnershipTag, ReconcileError};
use kube::ResourceExt;

use super::OpenStackMachineReconciler;
use super::context::ReconcileContext;
use super::decide::{self, Desired, Observed};
use super::quota_needs::{self, Sizes};
use super::resolve::Resolver;
use super::{desired, pool_address};
use crate::preflight::QUOTA_EXCEEDED;
use crate::{applied_tags, names};

/// Requirements of a server.
pub(super) struct Requirements {
    pub resolved: ResolvedMachineSpec,
    pub user_data: Option<Vec<u8>>,
    /// Sizes, if the server is still to be created.
    pub sizes: Option<Sizes>,
}

impl OpenStackMachineReconciler {
    /// Returns what the creation of a server needs. An existing server needs only its ids.
    pub(super) async fn requirements(
        &self,
        object: &OpenStackMachine,
        context: &ReconcileContext,
        cloud: &Arc<dyn Cloud>,
        observed: &Observed,
    ) -> Result<Requirements, ReconcileError> {
        let known = object.status.as_ref().and_then(|status| status.resolved.clone());
        let settled = observed.server.is_some() || observed.provisioned || observed.provider_id.is_some();
        if let Some(mut resolved) = known.filter(|_| settled) {
            // Only the tags and the address pairs of a port may change.
            for (spec, opts) in resolved.ports.iter_mut().flatten().zip(desired::ports(object)) {
                let tags = desired::tags(object, &context.cluster, Some(&opts));
                spec.tags = (!tags.is_empty()).then_some(tags);
                spec.allowed_address_pairs =
                    opts.allowed_address_pairs.filter(|_| spec.enable_port_security != Some(false));
            }
            return Ok(Requirements { resolved, user_data: None, sizes: None });
        }
        let user_data = match context.machine.spec.bootstrap.data_secret_name {
            None if context.is_server => None,
            // A moved or restored machine has lost its status, and its Secret may be gone. No server is made from it again.
            _ if settled => None,
            _ => Some(self.bootstrap_data(object, &context.machine).await?),
        };
        let (machine, cluster) = (&context.machine, &context.cluster);
        let is_elsewhere = !context.is_server
            && self.cloud_of_cluster(object, cluster, cloud).await?.project() != cloud.project();
        let is_kept = observed.provisioned || observed.provider_id.is_some();
        let context = &self.context;
        let resolver = Resolver { context, cloud, object, machine, cluster, is_elsewhere, is_kept };
        let (resolved, mut sizes) = resolver.resolve().await?;
        let is_new = !settled && !observed.in_operation;
        sizes.floating_ip = is_new && pool_address::is_to_be_allocated(&self.context.client, object).await?;
        Ok(Requirements { resolved, user_data, sizes: is_new.then_some(sizes) })
    }

    /// Returns the cloud of the cluster, which has the load balancer: that of the machine, unless it has credentials of
    /// its own.
    pub(super) async fn cloud_of_cluster(
        &self,
        object: &OpenStackMachine,
        cluster: &OpenStackCluster,
        cloud: &Arc<dyn Cloud>,
    ) -> Result<Arc<dyn Cloud>, ReconcileError> {
        let of_cluster = &cluster.spec.identity_ref;
        if object.spec.identity_ref.as_ref().is_none_or(|own| own == of_cluster) {
            return Ok(Arc::clone(cloud));
        }
        self.context.cloud(&object.namespace().unwrap_or_default(), of_cluster).await
    }

    /// Reserves the quota of a server that is still to be created: before its first part, and again after the cloud has
    /// refused a part.
    pub(super) async fn reserve_quota(
        &self,
        object: &OpenStackMachine,
        cloud: &Arc<dyn Cloud>,
        desired: &Desired,
        observed: &Observed,
        sizes: Option<&Sizes>,
    ) -> Result<(), ReconcileError> {
        let Some(sizes) = sizes else { return Ok(()) };
        let begun = observed.journal.has(names::SERVER, &desired.name);
        if begun && !is_short_of_quota(object) {
            return Ok(());
        }
        let needs = quota_needs::needs(desired, observed, sizes);
        let attempt = format!("create server {:?}", desired.name);
        self.preflight.reserve(cloud, &object.uid().unwrap_or_default(), needs, &attempt).await
    }
}

/// Returns true if the last pass found no room in a quota.
pub(super) fn is_short_of_quota(object: &OpenStackMachine) -> bool {
    object.condition("InstanceReady").is_some_and(|it| !it.holds() && it.reason == QUOTA_EXCEEDED)
}

/// Returns the desired resources, with ids.
pub(super) fn desired(
    object: &OpenStackMachine,
    context: &ReconcileContext,
    resolved: &ResolvedMachineSpec,
    tag: &OwnershipTag,
) -> Desired {
    let server = context.cluster.spec.api_server.as_ref();
    let floating = context.cluster.spec.enable_external_network != Some(false)
        && server.and_then(|server| server.enable_floating_ip) != Some(false);
    let status = context.cluster.status.as_ref();
    let network = status.and_then(|status| status.network.as_ref());
    let balanced = server.and_then(|server| server.managed_load_balancer.as_ref());
    let balanced = balanced.is_some_and(|balancer| balancer.enabled != Some(false));
    let control_plane = desired::is_control_plane(&context.machine);
    let balancer = status.and_then(|status| status.api_server_managed_load_balancer.as_ref());
    Desired {
        balancer: balancer.filter(|_| control_plane && balanced).map(|balancer| balancer.id.clone()),
        balanced_ports: crate::openstack_cluster::balanced_ports(&context.cluster),
        name: object.name_any(),
        server_tags: desired::server_tags(tag, object, &context.cluster).0,
        volume_tags: desired::volume_tags(object, &context.cluster),
        cluster_tag: names::cluster_tag(&context.cluster),
        applied_tags: applied_tags::of(object),
        ports: resolved.ports.clone().unwrap_or_default(),
        volumes: desired::volumes(object, &context.machine, &context.cluster),
        applied_pairs: applied_pairs(object),
        is_node: context.machine.status.as_ref().is_some_and(|status| status.node_ref.is_some()),
        is_api_healthy: context.machine.condition("APIServerPodHealthy").is_none_or(Condition::holds),
        takes_endpoint: control_plane && floating && !balanced,
        is_leaving: context.machine.metadata.deletion_timestamp.is_some(),
        network: network.map(|network| network.id.clone()),
        network_name: network.map(|network| network.name.clone()).unwrap_or_default(),
        // As upstream and OpenStack's own cloud provider write it: the region only if it is requested.
        region: object.spec.identity_ref.as_ref().and_then(|it| it.region.clone()).unwrap_or_default(),
    }
}

/// Returns the address pairs of each port as the last pass applied them.
fn applied_pairs(object: &OpenStackMachine) -> BTreeMap<String, Vec<AddressPair>> {
    let resolved = object.status.as_ref().and_then(|status| status.resolved.as_ref());
    let ports = resolved.and_then(|resolved| resolved.ports.as_deref()).unwrap_or_default();
    ports.iter().map(|spec| (spec.name.clone(), decide::address_pairs::wanted(spec))).collect()
}
