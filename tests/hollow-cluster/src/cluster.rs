//! One hollow cluster: its objects, its etcd members, its nodes and its endpoint.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::api::kinds::KINDS;
use crate::api::store::Store;
use crate::calls::EndpointFault;
use crate::etcd::EtcdCluster;
use crate::json::text;
use crate::lock;
use crate::pki::Authority;
use crate::real::RealCluster;

/// Certificates of a cluster.
#[derive(Debug)]
pub(crate) struct ClusterPki {
    pub(crate) ca: Authority,
    /// `None` if etcd is external.
    pub(crate) etcd: Option<Authority>,
    pub(crate) front_proxy: Authority,
    /// Public key information of the service account key.
    pub(crate) service_accounts: Vec<u8>,
}

/// A server that has become a node.
#[derive(Debug, Clone)]
pub(crate) struct HollowNode {
    pub(crate) server: String,
    pub(crate) name: String,
    pub(crate) control_plane: bool,
    /// Node object for a registration, without identity of one boot.
    pub(crate) template: serde_json::Value,
    /// Number of the boot that the kubelet belongs to.
    pub(crate) boot: usize,
    /// True while the server runs.
    pub(crate) running: bool,
    pub(crate) kubelet: KubeletState,
}

/// State of a kubelet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KubeletState {
    /// It started at this time and is not ready yet.
    Starting(Instant),
    /// It is ready, and has renewed its Lease at this time.
    Ready(Instant),
    /// It was last seen at this time.
    Lost(Instant),
    /// The Node is `Unknown`.
    Unknown,
}

/// State of a cluster at the last look at its objects.
#[derive(Debug, Default)]
pub(crate) struct Tended {
    /// Last change of an object that is no Lease.
    pub(crate) revision: Option<u64>,
    /// Nodes whose kubelet reports.
    pub(crate) alive: Vec<String>,
    /// Time at which the next token expires.
    pub(crate) expiry: Option<Timestamp>,
}

/// One cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    /// Host of the control plane endpoint.
    pub(crate) host: String,
    pub(crate) address: SocketAddr,
    pub(crate) store: Store,
    pub(crate) pki: ClusterPki,
    pub(crate) etcd: Mutex<EtcdCluster>,
    /// Nodes by the id of their server.
    pub(crate) nodes: Mutex<BTreeMap<String, HollowNode>>,
    /// True if a test has stopped the API.
    pub(crate) is_down: AtomicBool,
    /// Present while the API listens; cancelling it stops the API.
    pub(crate) listener: Mutex<Option<CancellationToken>>,
    /// Lets evictions check and delete one after another.
    pub(crate) evictions: Mutex<()>,
    /// Injected failure with which the API listens or does not.
    pub(crate) endpoint_fault: Mutex<Option<EndpointFault>>,
    /// Error of the last attempt to listen.
    pub(crate) listen_error: Mutex<Option<String>>,
    /// Time since which each pod is being deleted, by uid.
    pub(crate) terminating: Mutex<BTreeMap<String, Instant>>,
    pub(crate) tended: Mutex<Tended>,
    /// Programs of the heavy form.
    pub(crate) real: OnceLock<RealCluster>,
    version: Mutex<String>,
}

impl Cluster {
    pub(crate) fn new(host: &str, address: SocketAddr, version: &str, pki: ClusterPki) -> Self {
        Self::with(host, address, version, pki, Store::default())
    }

    /// Creates a cluster with objects.
    pub(crate) fn with(
        host: &str,
        address: SocketAddr,
        version: &str,
        pki: ClusterPki,
        store: Store,
    ) -> Self {
        Self {
            host: host.to_owned(),
            address,
            store,
            pki,
            etcd: Mutex::default(),
            nodes: Mutex::default(),
            is_down: AtomicBool::new(false),
            listener: Mutex::default(),
            evictions: Mutex::default(),
            endpoint_fault: Mutex::default(),
            listen_error: Mutex::default(),
            terminating: Mutex::default(),
            tended: Mutex::default(),
            real: OnceLock::new(),
            version: Mutex::new(version.to_owned()),
        }
    }

    /// Returns the version of the API server: the newest of the control plane.
    pub(crate) fn version(&self) -> String {
        lock(&self.version).clone()
    }

    /// Records that an API server of this version runs.
    pub(crate) fn raise_version(&self, version: &str) {
        let number = |text: &str| {
            let plain = text.trim_start_matches('v').split(['-', '+']).next().unwrap_or_default();
            plain.split('.').map(|part| part.parse::<u64>().unwrap_or_default()).collect::<Vec<_>>()
        };
        let mut held = lock(&self.version);
        if number(version) > number(&held) {
            version.clone_into(&mut held);
        }
    }

    /// Returns true if the API accepts connections.
    pub(crate) fn is_listening(&self) -> bool {
        lock(&self.listener).as_ref().is_some_and(|listener| !listener.is_cancelled())
    }

    /// Returns true if etcd can answer. An external etcd always can.
    pub(crate) fn etcd_has_quorum(&self) -> bool {
        self.pki.etcd.is_none() || lock(&self.etcd).has_quorum()
    }

    /// Returns true if joins and reads through the API would succeed now.
    pub(crate) fn is_available(&self) -> bool {
        let is_up = self.is_listening() && !self.is_down.load(Ordering::Relaxed);
        is_up && self.etcd_has_quorum() && self.store.answers()
    }

    /// Returns the servers whose API server works. One whose member has left etcd does not: it uses that member alone.
    pub(crate) fn serving(&self) -> BTreeSet<String> {
        let nodes = lock(&self.nodes);
        let running = nodes.values().filter(|node| node.control_plane && node.running);
        let running: Vec<(String, String)> =
            running.map(|node| (node.server.clone(), node.name.clone())).collect();
        drop(nodes);
        let etcd = lock(&self.etcd);
        let serves = |name: &str| self.pki.etcd.is_none() || etcd.named(name).is_some();
        running.into_iter().filter(|(_, name)| serves(name)).map(|(server, _)| server).collect()
    }

    /// Returns true if a server of the control plane runs.
    pub(crate) fn has_running_control_plane(&self) -> bool {
        lock(&self.nodes).values().any(|node| node.control_plane && node.running)
    }

    /// Removes all objects of a namespace.
    pub(crate) fn empty_namespace(&self, namespace: &str) {
        for kind in KINDS.iter().filter(|kind| kind.namespaced) {
            let (objects, _) = self.store.list(kind.plural, Some(namespace));
            for object in objects {
                self.store.remove(kind.plural, namespace, text(&object, "/metadata/name"));
            }
        }
    }

    /// Stops listening and cuts all connections.
    pub(crate) fn stop_listening(&self) {
        if let Some(listener) = lock(&self.listener).take() {
            listener.cancel();
        }
    }
}
