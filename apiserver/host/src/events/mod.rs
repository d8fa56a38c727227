//! Host events: copies of Capstan's Events in the host cluster, where users look for them. The host serves `v1` Events
//! itself.

mod copy;
mod progress;
mod queue;
mod send;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::runtime::watcher::{self, Event as WatchEvent, watcher};
use kube::{Api, Client};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::health::{Backlog, HostHealth};
use crate::metrics::{Loss, Outbox};
use crate::ttl_cache::TtlCache;
use crate::write_limit::{IN_FLIGHT, WriteLimit};
pub use progress::EventRecord;
use progress::{NoRecord, Watched};
use queue::Queue;

/// Maximum number of Events in the queue: a bad day of a large installation, some 20 MiB.
const MOST: usize = 10_000;

/// Maximum number of Events of one namespace in the queue.
const MOST_OF_NAMESPACE: usize = 200;

/// Pause after a failure of the watch.
const WATCH_PAUSE: Duration = Duration::from_secs(1);

/// Interval at which the length of the queue is published: that of most monitoring systems is longer.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// Interval at which the progress is recorded. The next leader copies again what was copied since.
const RECORD_INTERVAL: Duration = Duration::from_secs(10);

/// Lost Events per log line: enough to notice, not enough to flood the log.
const LOG_EVERY: u64 = 100;

/// Interval at which failures in one namespace are logged.
const LOG_INTERVAL: Duration = Duration::from_secs(5 * 60);

/// Number of namespaces of which a log line is remembered.
const MOST_LOGGED: usize = 1024;

/// Copier of Events from Capstan's store to the host, under the same name and namespace.
///
/// *Flow.* A watch of our own Events fills a bounded queue; a few senders empty it. An Event that is in the host already
/// is patched: its count and last time follow ours.
///
/// *Guarantees.* No writer of an Event ever waits for the host. While the host is not up, the newest state of each Event
/// is queued. If the queue is full, the oldest Events of the largest namespace are lost, with a log line, an Event and a
/// metric. An Event that the host refuses for now waits, and stops no other.
///
/// *Failover.* Our own store is the record of the Events that wait: an Event that is queued does not expire for a day, see
/// [`HostEvents::holds`]. The next leader queues all Events after the revision up to which this one has copied them.
///
/// *Caveat.* Deletions are not copied: the host forgets its Events by age.
pub struct HostEvents {
    own: Client,
    host: Client,
    limit: WriteLimit,
    record: Arc<dyn EventRecord>,
    queue: Mutex<Queue>,
    filled: Notify,
    watched: Mutex<Watched>,
    health: HostHealth,
    logged: TtlCache<String, ()>,
    /// Events that were lost since the queue was last empty.
    lost: AtomicU64,
}

impl std::fmt::Debug for HostEvents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostEvents").finish_non_exhaustive()
    }
}

impl HostEvents {
    /// Creates a copier from our own store, read through `own`, to `host`.
    pub fn new(own: Client, host: Client) -> Self {
        Self {
            own,
            host,
            limit: WriteLimit::default(),
            record: Arc::new(NoRecord),
            queue: Mutex::new(Queue::new(MOST, MOST_OF_NAMESPACE)),
            filled: Notify::new(),
            watched: Mutex::default(),
            health: HostHealth::default(),
            logged: TtlCache::new(LOG_INTERVAL, MOST_LOGGED),
            lost: AtomicU64::new(0),
        }
    }

    /// Sends only while the host is up. Without this, it always sends.
    #[must_use]
    pub fn with_health(self, health: HostHealth) -> Self {
        Self { health, ..self }
    }

    /// Begins with the Events that no earlier process has copied. Without this, it begins with those of the last day.
    #[must_use]
    pub fn with_record(self, record: Arc<dyn EventRecord>) -> Self {
        Self { record, ..self }
    }

    /// Shares a limit of the requests to the host with other writers.
    #[must_use]
    pub fn with_limit(self, limit: WriteLimit) -> Self {
        Self { limit, ..self }
    }

    /// Copies until `shutdown`. Queued Events are found again by the next start.
    pub async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = self.follow() => {}
            _ = join_all((0..IN_FLIGHT).map(|_| self.send_all())) => {}
            () = self.report_backlog() => {}
            () = self.retry_after_outages() => {}
        }
        self.health.report_backlog(Outbox::Events, None);
    }

    /// Tries again after each outage of the host what it has refused or not answered before, for ever.
    async fn retry_after_outages(&self) {
        loop {
            self.health.returned().await;
            self.queue().retry_failed(Instant::now());
            self.filled.notify_one();
        }
    }

    /// Returns true if the host does not have an Event yet that it is to get. Such an Event must not expire.
    pub fn holds(&self, event: &Event) -> bool {
        let metadata = &event.metadata;
        let (Some(namespace), Some(name)) = (&metadata.namespace, &metadata.name) else { return false };
        let is_unseen = self.watched().newest().is_none_or(|newest| copy::revision(event) > newest);
        is_unseen || self.queue().holds(namespace, name)
    }

    /// Returns the revision up to which no Event waits; `None` while that is unknown.
    fn copied(&self) -> Option<u64> {
        let newest = self.watched().newest()?;
        let lowest = self.queue().lowest_revision();
        Some(lowest.map_or(newest, |lowest| newest.min(lowest.saturating_sub(1))))
    }

    /// Records the progress, for ever. `recorded` is that of an earlier process.
    async fn keep_record(&self, mut recorded: Option<u64>) {
        loop {
            tokio::time::sleep(RECORD_INTERVAL).await;
            let copied = self.copied();
            if let Some(revision) = copied.filter(|_| copied > recorded)
                && self.record.write(revision).await
            {
                recorded = copied;
            }
        }
    }

    /// Publishes the length of the queue, and reports losses, for ever.
    async fn report_backlog(&self) {
        let mut is_reported = false;
        loop {
            let (objects, oldest) = self.queue().backlog(Instant::now());
            let refused = usize::try_from(self.health.metrics().refused_events()).unwrap_or(usize::MAX);
            self.health.report_backlog(Outbox::Events, Some(Backlog { objects, oldest, refused }));
            if !is_reported && self.lost.load(Ordering::Relaxed) > 0 {
                self.record.report_loss().await;
                is_reported = true;
            }
            if objects == 0 {
                self.lost.store(0, Ordering::Relaxed);
                is_reported = false;
            }
            tokio::time::sleep(REPORT_INTERVAL).await;
        }
    }

    /// Fills the queue from a watch, and records the progress.
    async fn follow(&self) {
        let recorded = self.record.read().await;
        *self.watched() = Watched::after(recorded.unwrap_or_default());
        tokio::select! {
            () = self.watch() => {}
            () = self.keep_record(recorded) => {}
        }
    }

    async fn watch(&self) {
        let changes = watcher(Api::<Event>::all(self.own.clone()), watcher::Config::default());
        let mut changes = std::pin::pin!(changes);
        while let Some(item) = changes.next().await {
            match item {
                Ok(WatchEvent::Apply(event)) => {
                    self.enqueue(&event);
                    // Not before it is queued: it counts as copied otherwise.
                    self.watched().change(copy::revision(&event));
                }
                Ok(WatchEvent::Init) => self.watched().begin_list(),
                Ok(WatchEvent::InitApply(event)) => {
                    // A list after a broken watch repeats Events from before it.
                    let is_new = self.watched().list(copy::revision(&event));
                    if is_new {
                        self.enqueue(&event);
                    }
                }
                Ok(WatchEvent::InitDone) => self.watched().end_list(),
                Ok(WatchEvent::Delete(_)) => {}
                Err(error) => {
                    tracing::debug!(%error, "the watch of events failed; retrying");
                    tokio::time::sleep(WATCH_PAUSE).await;
                }
            }
        }
    }

    /// Queues one Event, unless it is too old.
    fn enqueue(&self, event: &Event) {
        let metadata = &event.metadata;
        let (Some(namespace), Some(name)) = (&metadata.namespace, &metadata.name) else { return };
        if !copy::is_recent(event, Timestamp::now()) {
            return;
        }
        let key = (namespace.clone(), name.clone());
        let revision = copy::revision(event);
        let dropped = self.queue().push(key, copy::copy(event), revision, Instant::now());
        self.filled.notify_one();
        self.lose(dropped);
    }

    /// Counts Events that were dropped because the queue is full.
    fn lose(&self, dropped: u64) {
        if dropped == 0 {
            return;
        }
        let before = self.lost.fetch_add(dropped, Ordering::Relaxed);
        if before.is_multiple_of(LOG_EVERY) {
            tracing::warn!(
                lost = before + dropped,
                most = MOST,
                most_of_namespace = MOST_OF_NAMESPACE,
                "the event queue is full; dropping the oldest event"
            );
        }
        self.health.metrics().count_dropped_events(Loss::Full, dropped);
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
