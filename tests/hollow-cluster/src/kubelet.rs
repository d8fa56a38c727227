//! Kubelets: registration, heartbeats, pods. They are records that one task tends.

use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use serde_json::{Value, json};
use tests_openstack_simulator::GuestServer;

use crate::api::kinds::named;
use crate::api::store::Store;
use crate::cluster::{Cluster, HollowNode, KubeletState, Tended};
use crate::json::{micro_time, set, text};
use crate::kubeadm::token;
use crate::lab::Lab;
use crate::lock;
use crate::node::{self, Readiness};
use crate::real::budgets;

mod pods;

/// Namespace of the Leases of nodes.
const LEASES: &str = "kube-node-lease";

/// Duration of a Lease in seconds, as a kubelet writes it.
const LEASE_SECONDS: u64 = 40;

/// Registers a server as a node, and starts its kubelet.
pub(crate) fn register(
    lab: &Lab,
    cluster: &Cluster,
    server: &GuestServer,
    registration: crate::kubeadm::Registration,
) {
    let node = HollowNode {
        server: server.id.clone(),
        name: registration.name.clone(),
        control_plane: registration.control_plane,
        template: registration.node,
        boot: server.boots,
        running: true,
        kubelet: KubeletState::Starting(Instant::now()),
    };
    if registration.control_plane {
        cluster.raise_version(&registration.version);
    }
    lock(&lab.registered).insert(server.id.clone(), cluster.address);
    start(cluster, &node);
    if node.control_plane {
        pods::create_static(&cluster.store, &node.name, &registration.version, cluster.pki.etcd.is_some());
    }
    lock(&cluster.nodes).insert(server.id.clone(), node);
}

/// Lets the kubelet report for the first time after a boot.
pub(crate) fn start(cluster: &Cluster, node: &HollowNode) {
    if let Err(failure) = node::register(&cluster.store, &node.template) {
        tracing::warn!(node = node.name, message = failure.message, "cannot register the Node");
    }
    renew(&cluster.store, &node.name);
}

fn renew(store: &Store, name: &str) {
    let time = micro_time(Timestamp::now());
    let renewed = store.update(named("leases"), LEASES, name, |lease| {
        set(lease, &["spec", "renewTime"], time.as_str());
        Ok(())
    });
    if renewed.is_err() {
        let spec = json!({"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": time});
        store.seed("leases", LEASES, json!({"metadata": {"name": name}, "spec": spec}));
    }
}

/// Lets time pass for all nodes and pods of a cluster. Most looks find nothing to do: then they read no object, so that
/// hundreds of clusters at rest take no processor.
pub(crate) fn tend(lab: &Lab, cluster: &Arc<Cluster>) {
    if !cluster.is_available() {
        return;
    }
    // It is read before the objects, so that the next look sees a change in between.
    let revision = cluster.store.revision_but_leases();
    let alive = tend_nodes(lab, cluster);
    let now = Timestamp::now();
    let mut tended = lock(&cluster.tended);
    let is_same = revision.is_some() && tended.revision == revision && tended.alive == alive;
    let expires = tended.expiry.is_some_and(|expiry| expiry <= now);
    if is_same && !expires && lock(&cluster.terminating).is_empty() {
        return;
    }
    let expiry = token::sweep(&cluster.store, now);
    pods::tend(lab, cluster, &alive);
    budgets::tend(&cluster.store);
    *tended = Tended { revision, alive, expiry };
}

/// Lets time pass for all nodes, and returns those whose kubelet reports.
fn tend_nodes(lab: &Lab, cluster: &Cluster) -> Vec<String> {
    let mut nodes = lock(&cluster.nodes);
    for node in nodes.values_mut() {
        let alive = node.running && !lab.is_kubelet_dead(&node.server);
        node.kubelet = advance(lab, &cluster.store, node, alive);
    }
    // Without its server and its Node, nothing is left of a node.
    nodes.retain(|_, node| node.running || cluster.store.get("nodes", "", &node.name).is_some());
    nodes
        .values()
        .filter(|node| matches!(node.kubelet, KubeletState::Ready(_) | KubeletState::Starting(_)))
        .map(|node| node.name.clone())
        .collect()
}

/// Returns the next state of a kubelet, and writes what follows from it.
fn advance(lab: &Lab, store: &Store, node: &HollowNode, alive: bool) -> KubeletState {
    let now = Instant::now();
    match node.kubelet {
        KubeletState::Starting(_) | KubeletState::Ready(_) if !alive => KubeletState::Lost(now),
        KubeletState::Starting(since) if now.duration_since(since) >= lab.options.ready_delay => {
            node::write_readiness(store, &node.name, Readiness::Ready);
            renew(store, &node.name);
            KubeletState::Ready(now)
        }
        KubeletState::Ready(since) if now.duration_since(since) >= lab.options.heartbeat => {
            renew(store, &node.name);
            KubeletState::Ready(now)
        }
        KubeletState::Lost(_) | KubeletState::Unknown if alive => {
            node::write_readiness(store, &node.name, Readiness::Ready);
            KubeletState::Ready(now)
        }
        KubeletState::Lost(since) if now.duration_since(since) >= lab.options.node_grace => {
            node::write_readiness(store, &node.name, Readiness::Unknown);
            KubeletState::Unknown
        }
        unchanged => unchanged,
    }
}

/// Returns true if an object is owned by a controller of this kind.
fn is_owned_by(object: &Value, kind: &str) -> bool {
    crate::json::list(object, "/metadata/ownerReferences").iter().any(|owner| text(owner, "/kind") == kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renewed_lease_is_no_reason_to_look_at_the_objects_of_a_cluster() {
        let store = Store::default();
        renew(&store, "node");
        renew(&store, "node");
        assert_eq!(store.revision_but_leases(), Some(0));
        store.seed("nodes", "", json!({"metadata": {"name": "node"}}));
        let registered = store.revision_but_leases();
        assert!(registered > Some(0));
        store.remove("nodes", "", "node");
        assert!(store.revision_but_leases() > registered);
    }
}
