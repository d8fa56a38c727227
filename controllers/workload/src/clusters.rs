//! Connections to workload clusters.

use std::fmt::Debug;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::{WorkloadConnector, WorkloadError};

/// Namespace and name of a Cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterKey {
    /// Namespace of the Cluster.
    pub namespace: String,
    /// Name of the Cluster.
    pub name: String,
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
}

/// Change in a workload cluster that concerns controllers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkloadChange {
    /// A connection was established.
    Connected(ClusterKey),
    /// The connection was lost.
    Disconnected(ClusterKey),
    /// The last successful probe is so old that conditions change: 50 s, then 5 minutes.
    ProbeIsOld(ClusterKey),
    /// A Node was added, changed or deleted.
    Node {
        /// The Cluster.
        cluster: ClusterKey,
        /// Name of the Node.
        name: String,
        /// `spec.providerID` of the Node.
        provider_id: Option<String>,
    },
}

/// Connections to all workload clusters.
#[derive(Debug)]
pub struct WorkloadClusters {
    changes: broadcast::Sender<WorkloadChange>,
    connector: Arc<dyn WorkloadConnector>,
}

/// Changes that a slow receiver may lag behind; it makes a pass over all its objects then.
const CHANGES: usize = 1024;

impl WorkloadClusters {
    /// Creates a set without connections.
    pub fn new(connector: Arc<dyn WorkloadConnector>) -> Self {
        Self { changes: broadcast::Sender::new(CHANGES), connector }
    }

    /// Connects to a cluster and keeps the connection. A kubeconfig that differs from the last one replaces the
    /// connection. Returns at once.
    pub fn follow(&self, _cluster: &ClusterKey, _kubeconfig: &[u8]) {
        tracing::debug!(connector = ?self.connector, "not written yet");
    }

    /// Closes the connection, and forgets the results of the probes.
    pub fn forget(&self, _cluster: &ClusterKey) {}

    /// Returns a client of the workload API.
    ///
    /// # Errors
    /// There is no connection.
    pub fn client(&self, _cluster: &ClusterKey) -> Result<Client, WorkloadError> {
        Err(WorkloadError::NotConnected("not written yet".to_owned()))
    }

    /// Returns the Nodes as the watch has reported them.
    ///
    /// # Errors
    /// There is no connection.
    pub fn nodes(&self, _cluster: &ClusterKey) -> Result<Vec<Arc<Node>>, WorkloadError> {
        Err(WorkloadError::NotConnected("not written yet".to_owned()))
    }

    /// Returns the results of the probes.
    pub fn probe(&self, _cluster: &ClusterKey) -> Probe {
        Probe::default()
    }

    /// Returns a receiver of the changes from now on.
    pub fn changes(&self) -> broadcast::Receiver<WorkloadChange> {
        self.changes.subscribe()
    }

    /// Keeps the connections, probes and watches until `shutdown`.
    ///
    /// Cancel safety: may be dropped at any moment; all connections end then.
    pub async fn run(&self, shutdown: CancellationToken) {
        shutdown.cancelled().await;
    }
}
