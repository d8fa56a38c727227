//! Copies of clusters' Secrets in the host cluster, where people and tools read them.

mod decide;
mod pass;
mod record;
mod schedule;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::future::join_all;
use k8s_openapi::api::core::v1::Secret;
use kube::api::DynamicObject;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::health::HostHealth;
use crate::metrics::Outbox;
use crate::pin::HostPin;
use crate::write_limit::{IN_FLIGHT, WriteLimit};
pub(crate) use decide::OWNER;
use decide::{CLUSTER_NAME, cluster_of};
use record::Key;
pub use record::{CopyRecord, CopyRecords};
pub use schedule::Refusal;
use schedule::Schedule;

/// Interval at which the number of waiting Secrets is published.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// Pause after a failure of the watch.
const WATCH_PAUSE: Duration = Duration::from_secs(1);

/// Receiver of what people must know about a Cluster's Secrets.
#[async_trait]
pub trait WriteBackReport: Send + Sync + 'static {
    /// Reports the refusals of a Cluster's Secrets after each pass over one of them. `is_complete`: all of them were
    /// compared, so that a refusal which is not among these has ended.
    async fn report(&self, cluster: &DynamicObject, refusals: &[Refusal], is_complete: bool);
}

/// Host cluster that gets the copies.
#[derive(Debug, Clone)]
pub struct WriteBackHost {
    /// Health of the host, which gets copies only while it is up.
    pub health: HostHealth,
    /// Identity of the host.
    pub pin: HostPin,
    /// Limit of the requests.
    pub limit: WriteLimit,
}

/// Writer of the copies.
///
/// *Flow.* A watch of Capstan's own Secrets of clusters fills a schedule. A few senders compare each with its copy, and
/// create, replace or remove the copy. Each copy is compared again every ten minutes.
///
/// *Guarantees.* No controller waits for the host. A Secret of another owner is never changed. A Secret that the host
/// refuses stops no other.
///
/// *Failover.* The copies that the host is to have follow from the Secrets in Capstan's own store. Those that it has, or
/// may have, are in records. So an outage, a failover or a restart loses neither a write nor a removal.
pub struct SecretWriteBack {
    own: Client,
    client: Client,
    host: WriteBackHost,
    records: Arc<dyn CopyRecords>,
    report: Arc<dyn WriteBackReport>,
    schedule: Mutex<Schedule>,
    changed: Notify,
    begun: Instant,
    /// Times of the last create calls that the host has not answered, and may still carry out.
    unanswered: Mutex<HashMap<Key, Instant>>,
}

impl std::fmt::Debug for SecretWriteBack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecretWriteBack").finish_non_exhaustive()
    }
}

impl SecretWriteBack {
    /// Creates a writer of copies of the Secrets that `own` reads. `client` writes them to the host.
    pub fn new(
        own: Client,
        (client, host): (Client, WriteBackHost),
        records: Arc<dyn CopyRecords>,
        report: Arc<dyn WriteBackReport>,
    ) -> Self {
        Self {
            own,
            client,
            host,
            records,
            report,
            schedule: Mutex::default(),
            changed: Notify::new(),
            begun: Instant::now(),
            unanswered: Mutex::default(),
        }
    }

    /// Writes until `shutdown`.
    pub async fn run(self, shutdown: CancellationToken) {
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = self.follow() => {}
            _ = join_all((0..IN_FLIGHT).map(|_| self.write_all())) => {}
            () = self.report_backlog() => {}
            () = self.retry_after_outages() => {}
        }
        self.host.health.report_backlog(Outbox::Secrets, None);
    }

    /// Publishes the number of Secrets that the host does not have as it should, for ever.
    async fn report_backlog(&self) {
        loop {
            let backlog = self.schedule().backlog();
            self.host.health.report_backlog(Outbox::Secrets, Some(backlog));
            tokio::time::sleep(REPORT_INTERVAL).await;
        }
    }

    /// Tries again after each outage of the host what it has refused or not answered before, for ever.
    async fn retry_after_outages(&self) {
        loop {
            self.host.health.returned().await;
            self.schedule().retry_failed();
            self.changed.notify_one();
        }
    }

    /// Fills the schedule from the records and from a watch.
    async fn follow(&self) {
        for record in self.records.list().await {
            self.schedule().restore(record);
        }
        // The own store may have no Secret whose change would wake a sender.
        self.changed.notify_one();
        let selected = watcher::Config::default().labels(CLUSTER_NAME);
        let mut changes = std::pin::pin!(watcher(Api::<Secret>::all(self.own.clone()), selected));
        while let Some(change) = changes.next().await {
            match change {
                Ok(Event::Apply(secret) | Event::InitApply(secret)) => self.note(&secret, true),
                Ok(Event::Delete(secret)) => self.note(&secret, false),
                Ok(Event::Init) => {}
                Ok(Event::InitDone) => self.schedule().set_listed(),
                Err(error) => {
                    tracing::debug!(%error, "the watch of secrets failed; retrying");
                    tokio::time::sleep(WATCH_PAUSE).await;
                }
            }
        }
    }

    /// Notes a change of a Secret in the schedule.
    fn note(&self, secret: &Secret, exists: bool) {
        let key = (secret.namespace().unwrap_or_default(), secret.name_any());
        match cluster_of(secret).filter(|_| exists) {
            Some(cluster) => self.schedule().change(key, cluster),
            // Each Machine has a Secret with bootstrap data, which is never copied.
            None => self.schedule().change_known(&key),
        }
        self.changed.notify_one();
    }

    /// Compares what is due, for ever. Several of these run.
    async fn write_all(&self) {
        loop {
            self.host.health.up().await;
            let (next, due) = {
                let mut schedule = self.schedule();
                (schedule.take(), schedule.next_due())
            };
            match (next, due) {
                (Some((key, cluster, record)), _) => {
                    // Another one looks for the next Secret.
                    self.changed.notify_one();
                    self.compare(key, cluster, record).await;
                }
                (None, Some(due)) => {
                    let _ = tokio::time::timeout_at(due, self.changed.notified()).await;
                }
                (None, None) => self.changed.notified().await,
            }
        }
    }

    fn schedule(&self) -> MutexGuard<'_, Schedule> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unanswered(&self) -> MutexGuard<'_, HashMap<Key, Instant>> {
        self.unanswered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
