//! Mirror of the host cluster's RBAC and service accounts, as far as the configuration wants one.

pub(crate) mod announce;
mod objects;
mod watches;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use apiserver_access::Authorizer;
use apiserver_access::rbac::Snapshot;
use apiserver_host::{Disagreement, HostAuthorizer, HostConnection, HostHealth, HostKeys, HostMirror};
use apiserver_http::ApiServer;
use arc_swap::ArcSwap;
use kube::Client;
use serde_json::Value;
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::config::MirrorSettings;
use crate::host_copies::{HostCopies, RestoredMirror};
use crate::host_watch::{OnEnd, collect};
use objects::Permissions;
use watches::Watches;

/// Interval at which the age of the mirror is noted and the second answers of the host are requested.
const TICK: Duration = Duration::from_secs(2);

/// Interval at which the disagreements that other replicas have found are read.
const MERGE_INTERVAL: Duration = Duration::from_secs(30);

/// Maximum size of the copies of the permissions. A host with more is not mirrored. Unit: bytes.
const MOST: usize = 64 * 1024 * 1024;

/// Number of disagreements that wait for their Events. The mirror is closed long before.
const MOST_ANNOUNCED: usize = 64;

/// Copied objects by their names in the store.
pub(crate) type Copies<T> = Arc<HashMap<String, T>>;

/// Mirror with the data behind it. Clones share it.
#[derive(Clone)]
pub(crate) struct Mirroring {
    mirror: HostMirror,
    keys: HostKeys,
    health: HostHealth,
    watching: Client,
    host: Arc<HostAuthorizer>,
    copies: HostCopies,
    permissions: Arc<ArcSwap<HashMap<String, Value>>>,
    accounts: Arc<ArcSwap<HashMap<String, String>>>,
    /// True while all watches go on.
    is_current: Arc<AtomicBool>,
    /// True while the host has more permissions than the mirror may have.
    is_too_large: Arc<AtomicBool>,
    changes: watch::Sender<u64>,
    confirmed: broadcast::Sender<Disagreement>,
}

impl Mirroring {
    pub(crate) fn new(
        connection: &HostConnection,
        host: Arc<HostAuthorizer>,
        copies: HostCopies,
        settings: &MirrorSettings,
    ) -> Self {
        let health = connection.health();
        Self {
            mirror: HostMirror::new(health.clone(), settings.bounds(), settings.accepted_at()),
            keys: HostKeys::new(connection.client(), health.clone()),
            health,
            watching: connection.watching(),
            host,
            copies,
            permissions: Arc::default(),
            accounts: Arc::default(),
            is_current: Arc::default(),
            is_too_large: Arc::default(),
            changes: watch::Sender::new(0),
            confirmed: broadcast::Sender::new(MOST_ANNOUNCED),
        }
    }

    /// Records an Event for each disagreement with the host, until `shutdown`.
    pub(crate) fn announce(
        &self,
        server: Arc<ApiServer>,
        shutdown: CancellationToken,
    ) -> impl Future<Output = ()> + Send + use<> {
        announce::follow(self.confirmed.subscribe(), server, shutdown)
    }

    /// Returns the mirror that decides.
    pub(crate) fn mirror(&self) -> HostMirror {
        self.mirror.clone()
    }

    /// Returns the keys of the host's tokens.
    pub(crate) fn keys(&self) -> HostKeys {
        self.keys.clone()
    }

    /// Returns the permissions, as they are copied.
    pub(crate) fn permissions(&self) -> Copies<Value> {
        self.permissions.load_full()
    }

    /// Returns the service accounts, as they are copied.
    pub(crate) fn accounts(&self) -> Copies<String> {
        self.accounts.load_full()
    }

    /// Returns a receiver that is notified after each change.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Returns true if the mirror has all changes of the host.
    pub(crate) fn is_synchronized(&self) -> bool {
        self.mirror.age() < TICK * 3
    }

    /// Applies the copies of an earlier process.
    pub(crate) fn restore(&self, restored: RestoredMirror) {
        if let Some(kept) = restored.keys {
            self.keys.restore(kept);
        }
        restored.disagreements.into_values().for_each(|found| self.mirror.add(found));
        // Without a heartbeat the copies may be half-written.
        let Some(contact) = restored.contact else { return };
        self.mirror.restore_contact(contact);
        self.mirror.set_permissions(Snapshot::new(Permissions::of_copies(&restored.permissions).policy()));
        self.permissions.store(Arc::new(restored.permissions));
        self.set_accounts(restored.accounts);
        self.mirror.report_age();
    }

    /// Follows the host. Never returns.
    pub(crate) async fn follow(&self) {
        tokio::join!(
            self.keys.follow(),
            self.follow_keys(),
            self.health.while_reachable(|| async {
                // What a host says before that is no copy.
                self.health.up().await;
                self.follow_once().await;
            }),
            self.tick(),
        );
    }

    /// Passes the changes of the keys on.
    async fn follow_keys(&self) {
        let mut changes = self.keys.changes();
        // The sender lives as long as `self`.
        while changes.changed().await.is_ok() {
            self.changed();
        }
    }

    async fn follow_once(&self) {
        let (watches, permissions, accounts) = Watches::start(&self.watching);
        let watches = &watches;
        let of_permissions = collect(permissions, || {
            if watches.permissions_are_read() {
                self.set_permissions(&watches.permissions());
            }
            self.note_age(watches);
        });
        let of_accounts = collect(accounts, || {
            if watches.accounts_are_read() {
                self.set_accounts(watches.accounts());
            }
            self.note_age(watches);
        });
        let _stale = OnEnd(&self.is_current);
        tokio::join!(of_permissions, of_accounts);
    }

    /// Notes whether the mirror is as the host is. Permissions that do not fit grow old, as if the host were down.
    fn note_age(&self, watches: &Watches) {
        let is_current = watches.are_current() && !self.is_too_large.load(Ordering::Acquire);
        self.is_current.store(is_current, Ordering::Release);
    }

    fn set_permissions(&self, permissions: &Permissions) {
        let copies = permissions.copies(MOST);
        self.is_too_large.store(copies.is_none(), Ordering::Release);
        match copies {
            Some(copies) => {
                self.mirror.set_permissions(Snapshot::new(permissions.policy()));
                self.permissions.store(Arc::new(copies));
                self.changed();
            }
            None => tracing::error!(
                bytes = MOST,
                "the roles and bindings of the host cluster are larger than the mirror may be; the last ones stay until their bound"
            ),
        }
    }

    fn set_accounts(&self, accounts: HashMap<String, String>) {
        self.mirror.set_accounts(accounts.clone());
        self.accounts.store(Arc::new(accounts));
        self.changed();
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Notes the age, and asks the host a second time about disagreements.
    async fn tick(&self) {
        let mut merged = Instant::now();
        loop {
            if self.is_current.load(Ordering::Acquire) && self.health.age().is_zero() {
                let is_first = !self.is_synchronized();
                self.mirror.synchronized();
                if is_first {
                    self.changed();
                }
            } else {
                self.mirror.report_age();
            }
            let host: &dyn Authorizer = &*self.host;
            for found in self.mirror.confirm(host).await {
                self.copies.keep_disagreement(&found).await;
                // Without a receiver, the process ends.
                let _ = self.confirmed.send(found);
            }
            if merged.elapsed() >= MERGE_INTERVAL {
                merged = Instant::now();
                for found in self.copies.disagreements().await {
                    self.mirror.add(found);
                }
            }
            tokio::time::sleep(TICK).await;
        }
    }
}
