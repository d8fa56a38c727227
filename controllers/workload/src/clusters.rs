//! Connections to workload clusters.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use tokio::sync::{Notify, Semaphore, broadcast};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::drive::{Dialer, drive};
use crate::followed::Followed;
use crate::{Timing, WorkloadConnector, WorkloadError};

/// Namespace and name of a Cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterKey {
    /// Namespace of the Cluster.
    pub namespace: String,
    /// Name of the Cluster.
    pub name: String,
}

impl fmt::Display for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Results of the probes of one workload cluster. They are lost with the process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Probe {
    /// Time of the last probe.
    pub last_probe: Option<Timestamp>,
    /// Time of the last successful probe.
    pub last_success: Option<Timestamp>,
    /// Probes that have failed in a row.
    pub failures: u32,
    /// Error of the last probe, if it failed.
    pub error: Option<String>,
    /// Error of the watch on Nodes, while it fails again and again. Changes of Nodes are seen late then.
    pub watch_error: Option<String>,
}

/// Change in a workload cluster that concerns controllers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkloadChange {
    /// A connection was established.
    Connected(ClusterKey),
    /// The connection was lost.
    Disconnected(ClusterKey),
    /// The last successful probe is so old that conditions change: 50 s, then 5 minutes. Announced, too, when the watch
    /// on Nodes begins or ceases to fail, and when attempts to connect fail with another error.
    ProbeIsOld(ClusterKey),
    /// A Node was added, changed or deleted.
    Node {
        /// The Cluster.
        cluster: ClusterKey,
        /// Name of the Node.
        name: String,
        /// Provider id of the Node, from `spec.providerID`.
        provider_id: Option<String>,
    },
}

/// Connections to all workload clusters.
#[derive(Debug)]
pub struct WorkloadClusters {
    changes: broadcast::Sender<WorkloadChange>,
    dialer: Arc<Dialer>,
    clusters: Mutex<HashMap<ClusterKey, Arc<Followed>>>,
    /// Signals that a cluster may have no task yet.
    added: Notify,
}

/// Changes that a slow receiver may lag behind; it makes a pass over all its objects then.
const CHANGES: usize = 1024;

impl WorkloadClusters {
    /// Creates a set without connections.
    pub fn new(connector: Arc<dyn WorkloadConnector>) -> Self {
        Self::with_timing(connector, Timing::default())
    }

    /// Creates a set without connections, with its own intervals and limits.
    pub fn with_timing(connector: Arc<dyn WorkloadConnector>, timing: Timing) -> Self {
        let dials = Semaphore::new(timing.dials.max(1));
        Self {
            changes: broadcast::Sender::new(CHANGES),
            dialer: Arc::new(Dialer { connector, timing, dials }),
            clusters: Mutex::default(),
            added: Notify::new(),
        }
    }

    /// Connects to a cluster and keeps the connection. A kubeconfig that differs from the last one replaces the
    /// connection. Returns at once.
    pub fn follow(&self, cluster: &ClusterKey, kubeconfig: &[u8]) {
        match self.lock().entry(cluster.clone()) {
            Entry::Occupied(known) => known.get().set_kubeconfig(kubeconfig),
            Entry::Vacant(vacant) => {
                vacant.insert(Followed::new(cluster.clone(), kubeconfig, self.changes.clone()));
                self.added.notify_one();
            }
        }
    }

    /// Closes the connection, and forgets the results of the probes.
    pub fn forget(&self, cluster: &ClusterKey) {
        if let Some(known) = self.lock().remove(cluster) {
            known.disconnected("it was forgotten");
            known.closed.cancel();
        }
    }

    /// Returns the clusters that are followed, in any order.
    pub fn followed(&self) -> Vec<ClusterKey> {
        self.lock().keys().cloned().collect()
    }

    /// Returns a client of the workload API.
    ///
    /// # Errors
    /// There is no connection.
    pub fn client(&self, cluster: &ClusterKey) -> Result<Client, WorkloadError> {
        self.known(cluster)?.client().map_err(WorkloadError::NotConnected)
    }

    /// Returns a client for a kubeconfig. No call is made yet, and no connection is kept: the cluster is not followed.
    ///
    /// # Errors
    /// The kubeconfig cannot be used.
    pub async fn client_of(&self, kubeconfig: &[u8]) -> Result<Client, WorkloadError> {
        self.dialer.connector.client(kubeconfig).await
    }

    /// Returns the Nodes as the watch has reported them, by name. Their lists of images and managed fields are removed.
    ///
    /// # Errors
    /// There is no connection.
    pub fn nodes(&self, cluster: &ClusterKey) -> Result<Vec<Arc<Node>>, WorkloadError> {
        self.known(cluster)?.nodes().map_err(WorkloadError::NotConnected)
    }

    /// Returns the Node of a name as the watch has reported it; `None` if it does not exist.
    ///
    /// # Errors
    /// There is no connection.
    pub fn node(&self, cluster: &ClusterKey, name: &str) -> Result<Option<Arc<Node>>, WorkloadError> {
        self.known(cluster)?.node(name).map_err(WorkloadError::NotConnected)
    }

    /// Returns the Nodes whose `spec.providerID` is `id`, byte for byte. More than one is a mistake of an operator.
    ///
    /// # Errors
    /// There is no connection.
    pub fn nodes_by_provider_id(
        &self,
        cluster: &ClusterKey,
        id: &str,
    ) -> Result<Vec<Arc<Node>>, WorkloadError> {
        self.known(cluster)?.nodes_by_provider_id(id).map_err(WorkloadError::NotConnected)
    }

    /// Returns the results of the probes.
    pub fn probe(&self, cluster: &ClusterKey) -> Probe {
        self.known(cluster).map(|known| known.probe()).unwrap_or_default()
    }

    /// Returns a receiver of the changes from now on.
    pub fn changes(&self) -> broadcast::Receiver<WorkloadChange> {
        self.changes.subscribe()
    }

    /// Keeps the connections, probes and watches until `shutdown`.
    ///
    /// Cancel safety: may be dropped at any moment; all connections end then.
    pub async fn run(&self, shutdown: CancellationToken) {
        let mut running: JoinSet<()> = JoinSet::new();
        loop {
            // Each cluster has a task of its own, so that a slow one slows no other.
            for followed in self.lock().values() {
                if let Some(guard) = followed.drive() {
                    running.spawn(drive(guard, Arc::clone(&self.dialer)));
                }
            }
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = self.added.notified() => {}
                Some(ended) = running.join_next() => report(&ended),
            }
        }
    }

    fn known(&self, cluster: &ClusterKey) -> Result<Arc<Followed>, WorkloadError> {
        let known = self.lock().get(cluster).cloned();
        known.ok_or_else(|| WorkloadError::NotConnected("no kubeconfig was given yet".to_owned()))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ClusterKey, Arc<Followed>>> {
        self.clusters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reports a connection that ended by a bug. The next round begins it again.
fn report(ended: &Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "connection to a workload cluster ended by a bug");
    }
}
