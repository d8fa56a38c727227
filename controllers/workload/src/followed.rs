//! State of the connection to one workload cluster.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::runtime::watcher::Event;
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::clusters::{ClusterKey, Probe, WorkloadChange};
use crate::nodes::Nodes;

/// Workload cluster that is followed.
pub(crate) struct Followed {
    pub(crate) key: ClusterKey,
    pub(crate) kubeconfig: watch::Sender<Arc<[u8]>>,
    pub(crate) closed: CancellationToken,
    /// Time of the last successful probe, or of the start.
    pub(crate) last_success: watch::Sender<Instant>,
    driven: AtomicBool,
    state: RwLock<State>,
    changes: broadcast::Sender<WorkloadChange>,
}

struct State {
    probe: Probe,
    /// The connection, or why there is none.
    connection: Result<Connection, String>,
}

struct Connection {
    client: Client,
    nodes: Nodes,
}

impl Followed {
    pub(crate) fn new(
        key: ClusterKey,
        kubeconfig: &[u8],
        changes: broadcast::Sender<WorkloadChange>,
    ) -> Arc<Self> {
        let connection = Err("the first attempt to connect has not ended".to_owned());
        Arc::new(Self {
            key,
            kubeconfig: watch::Sender::new(Arc::from(kubeconfig)),
            closed: CancellationToken::new(),
            last_success: watch::Sender::new(Instant::now()),
            driven: AtomicBool::new(false),
            state: RwLock::new(State { probe: Probe::default(), connection }),
            changes,
        })
    }

    /// Takes over a kubeconfig. Does nothing if it is the same as before.
    pub(crate) fn set_kubeconfig(&self, kubeconfig: &[u8]) {
        self.kubeconfig.send_if_modified(|known| {
            let differs = **known != *kubeconfig;
            if differs {
                *known = Arc::from(kubeconfig);
            }
            differs
        });
    }

    /// Returns a guard for the one who keeps the connection, or `None` if another task does.
    pub(crate) fn drive(self: &Arc<Self>) -> Option<Drive> {
        let taken = self.driven.swap(true, Ordering::AcqRel);
        (!taken).then(|| Drive(Arc::clone(self)))
    }

    pub(crate) fn client(&self) -> Result<Client, String> {
        self.read().connection.as_ref().map(|connection| connection.client.clone()).map_err(Clone::clone)
    }

    pub(crate) fn nodes(&self) -> Result<Vec<Arc<Node>>, String> {
        self.read().connection.as_ref().map(|connection| connection.nodes.all()).map_err(Clone::clone)
    }

    pub(crate) fn node(&self, name: &str) -> Result<Option<Arc<Node>>, String> {
        self.read().connection.as_ref().map(|connection| connection.nodes.named(name)).map_err(Clone::clone)
    }

    pub(crate) fn nodes_by_provider_id(&self, id: &str) -> Result<Vec<Arc<Node>>, String> {
        let state = self.read();
        state.connection.as_ref().map(|found| found.nodes.with_provider_id(id)).map_err(Clone::clone)
    }

    pub(crate) fn probe(&self) -> Probe {
        self.read().probe.clone()
    }

    /// Records the result of a probe, and returns the number of failures in a row.
    pub(crate) fn probed(&self, result: Result<(), String>) -> u32 {
        let now = Timestamp::now();
        let mut is_another_error = false;
        let mut state = self.write();
        state.probe.last_probe = Some(now);
        match result {
            Ok(()) => {
                let last_success = Some(now);
                let watch_error = state.probe.watch_error.take();
                state.probe =
                    Probe { last_probe: last_success, last_success, failures: 0, error: None, watch_error };
                self.last_success.send_replace(Instant::now());
            }
            Err(error) => {
                tracing::debug!(cluster = %self.key, %error, "probe of workload cluster failed");
                state.probe.failures = state.probe.failures.saturating_add(1);
                if let Err(reason) = &mut state.connection {
                    reason.clone_from(&error);
                    is_another_error = state.probe.error.as_ref().is_some_and(|known| *known != error);
                }
                state.probe.error = Some(error);
            }
        }
        let failures = state.probe.failures;
        drop(state);
        // A condition would else name the first obstacle of a connection until the next pass.
        if is_another_error {
            self.announce(WorkloadChange::ProbeIsOld(self.key.clone()));
        }
        failures
    }

    /// Records why the watch on Nodes fails again and again, or that it does not.
    pub(crate) fn watched(&self, error: Option<&str>) {
        let before = std::mem::replace(&mut self.write().probe.watch_error, error.map(str::to_owned));
        if before.is_some() != error.is_some() {
            self.announce(WorkloadChange::ProbeIsOld(self.key.clone()));
        }
    }

    /// Offers a client and the complete list of Nodes.
    pub(crate) fn connected(&self, client: Client, nodes: Nodes) {
        self.write().connection = Ok(Connection { client, nodes });
        tracing::info!(cluster = %self.key, "connected to workload cluster");
        self.announce(WorkloadChange::Connected(self.key.clone()));
    }

    /// Drops the client and the Nodes.
    pub(crate) fn disconnected(&self, reason: &str) {
        let old = std::mem::replace(&mut self.write().connection, Err(reason.to_owned()));
        if old.is_ok() {
            tracing::info!(cluster = %self.key, reason, "disconnected from workload cluster");
            self.announce(WorkloadChange::Disconnected(self.key.clone()));
        }
    }

    /// Takes over an event of the watch on Nodes, and announces what changed.
    pub(crate) fn observe(&self, event: Event<Node>) {
        let changed = match &mut self.write().connection {
            Ok(connection) => connection.nodes.observe(event),
            Err(_) => return,
        };
        for (name, provider_id) in changed {
            self.announce(WorkloadChange::Node { cluster: self.key.clone(), name, provider_id });
        }
    }

    pub(crate) fn announce(&self, change: WorkloadChange) {
        // Without a receiver the change concerns no controller.
        let _ = self.changes.send(change);
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Not derived: a kubeconfig holds credentials.
impl fmt::Debug for Followed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Followed").field("key", &self.key).finish_non_exhaustive()
    }
}

/// Right to keep the connection of a cluster. The connection ends with it.
#[derive(Debug)]
pub(crate) struct Drive(pub(crate) Arc<Followed>);

impl Drop for Drive {
    fn drop(&mut self) {
        self.0.disconnected("no task keeps the connection");
        self.0.driven.store(false, Ordering::Release);
    }
}
