//! Admission configurations of the host cluster, which apply to the kinds that the host serves through Capstan.

mod endpoints;
mod services;
mod watches;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use apiserver_admission::{HostCluster, HostConfigurations, HostContact, HostService};
use apiserver_host::{Contact, HostConnection, HostHealth, HostState, MirrorFacts};
use arc_swap::{ArcSwap, ArcSwapOption};
use async_trait::async_trait;
use jiff::Timestamp;
use kube::Client;
use serde_json::Value;
use tokio::sync::watch;

use crate::host_mirror::Copies;
use crate::host_watch::{OnEnd, collect};
use services::Services;
use watches::Watches;

/// Longest age of configurations that decide. The host may have removed older ones long ago.
const BOUND: Duration = Duration::from_hours(24);

/// Interval at which the age of the copies is noted.
const TICK: Duration = Duration::from_secs(2);

/// Maximum size of the copies. A host with more is not copied any more. Unit: bytes.
const MOST: usize = 16 * 1024 * 1024;

/// Configurations of the host. Clones share them.
#[derive(Clone)]
pub(crate) struct HostAdmission(Arc<Shared>);

struct Shared {
    health: HostHealth,
    client: Client,
    /// Configurations; `None` if they have never been read.
    configurations: ArcSwapOption<HostConfigurations>,
    /// All objects, as they are copied.
    copies: ArcSwap<HashMap<String, Value>>,
    services: Services,
    /// True while all watches go on, and all objects fit.
    is_current: AtomicBool,
    /// Last time at which the copies had all changes of the host.
    contact: Mutex<Contact>,
    changes: watch::Sender<u64>,
}

impl std::fmt::Debug for HostAdmission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostAdmission").finish_non_exhaustive()
    }
}

impl HostAdmission {
    pub(crate) fn new(connection: &HostConnection) -> Self {
        Self(Arc::new(Shared {
            health: connection.health(),
            client: connection.watching(),
            configurations: ArcSwapOption::empty(),
            copies: ArcSwap::default(),
            services: Services::default(),
            is_current: AtomicBool::default(),
            contact: Mutex::new(Contact::never()),
            changes: watch::Sender::new(0),
        }))
    }

    /// Returns the host as the chain of admission sees it.
    pub(crate) fn cluster(&self) -> Arc<dyn HostCluster> {
        Arc::new(self.clone())
    }

    /// Returns the configurations; `None` if they have never been read.
    pub(crate) fn configurations(&self) -> Option<Arc<HostConfigurations>> {
        self.0.configurations.load_full()
    }

    /// Returns all objects, as they are copied.
    pub(crate) fn copies(&self) -> Copies<Value> {
        self.0.copies.load_full()
    }

    /// Returns a receiver that is notified after each change.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// Returns true if the copies have all changes of the host.
    pub(crate) fn is_synchronized(&self) -> bool {
        self.age() < TICK * 3
    }

    /// Returns what people see of the copies.
    pub(crate) fn facts(&self) -> MirrorFacts {
        let facts = MirrorFacts::new("admission", self.copies().len(), self.age(), Some(BOUND));
        let left_out = self.configurations().map(|all| all.left_out.clone()).unwrap_or_default();
        MirrorFacts { left_out, ..facts }
    }

    fn age(&self) -> Duration {
        let contact = *self.0.contact.lock().unwrap_or_else(PoisonError::into_inner);
        contact.age().max(self.0.health.age())
    }

    /// Applies the copies of an earlier process, unless this one has read the host itself: the store may answer late.
    pub(crate) fn restore(&self, copies: HashMap<String, Value>, contact: Option<Timestamp>) {
        // Without a heartbeat the copies may be half-written.
        let Some(contact) = contact.filter(|_| self.configurations().is_none()) else { return };
        self.0.contact.lock().unwrap_or_else(PoisonError::into_inner).restore(contact);
        self.set(copies);
    }

    fn set(&self, copies: HashMap<String, Value>) {
        let is_known = self.configurations().is_some();
        if is_known && **self.0.copies.load() == copies {
            return;
        }
        let configurations = HostConfigurations::of(copies.values().cloned());
        tracing::info!(
            applied = configurations.applied.len(),
            left_out = configurations.left_out.len(),
            "the admission configurations of the host cluster are read"
        );
        self.0.services.want(configurations.services());
        self.0.configurations.store(Some(Arc::new(configurations)));
        self.0.copies.store(Arc::new(copies));
        self.0.changes.send_modify(|count| *count += 1);
    }

    /// Follows the host. Never returns.
    pub(crate) async fn follow(&self) {
        let health = &self.0.health;
        tokio::join!(
            health.while_reachable(|| async {
                // Answers before that are no copies.
                health.up().await;
                tokio::join!(self.follow_configurations(), self.0.services.follow(&self.0.client));
            }),
            self.tick(),
        );
    }

    async fn follow_configurations(&self) {
        let (watches, changes) = Watches::start(&self.0.client);
        let _stale = OnEnd(&self.0.is_current);
        collect(changes, || {
            let is_complete = watches.are_read() && self.apply(watches.copies());
            self.0.is_current.store(is_complete && watches.are_current(), Ordering::Release);
            self.note_age();
        })
        .await;
    }

    /// Applies the objects of the host, if they fit.
    fn apply(&self, copies: HashMap<String, Value>) -> bool {
        let size: usize = copies.values().map(|copy| copy.to_string().len()).sum();
        if size > MOST {
            tracing::error!(
                bytes = MOST,
                "the admission configurations of the host cluster are larger than their copies may be; the last ones \
                 stay until their bound"
            );
            return false;
        }
        self.set(copies);
        true
    }

    async fn tick(&self) {
        loop {
            self.note_age();
            tokio::time::sleep(TICK).await;
        }
    }

    fn note_age(&self) {
        self.0.health.report_mirror_age("admission", self.age());
        if !self.0.health.age().is_zero() {
            return;
        }
        self.0.services.synchronized();
        if self.0.is_current.load(Ordering::Acquire) {
            let is_first = !self.is_synchronized();
            *self.0.contact.lock().unwrap_or_else(PoisonError::into_inner) = Contact::now();
            if is_first {
                self.0.changes.send_modify(|count| *count += 1);
            }
        }
    }
}

#[async_trait]
impl HostCluster for HostAdmission {
    fn contact(&self) -> HostContact {
        let state = self.0.health.state();
        if state == HostState::Other {
            return HostContact::Unusable("another cluster answers at the address of the host".to_owned());
        }
        let age = self.age();
        if self.configurations().is_some() && age > BOUND {
            let hours = age.as_secs() / 3600;
            return HostContact::Unusable(format!(
                "it is as it was {hours} hours ago, and copies decide for at most 24 hours"
            ));
        }
        if state == HostState::Down { HostContact::Down } else { HostContact::Up }
    }

    async fn addresses(&self, service: &HostService) -> Result<Vec<SocketAddr>, String> {
        let has_answers = self.0.health.age().is_zero();
        self.0.services.addresses(service, has_answers).await
    }
}
