//! Host events: copies of Capstan's Events in the host cluster, where users look for them. The host serves `v1` Events
//! itself.

mod copy;
mod queue;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::watcher::{self, Event as WatchEvent, watcher};
use kube::{Api, Client};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::health::{Backlog, HostHealth};
use crate::metrics::{Loss, Outbox};
use crate::ttl_cache::TtlCache;
use copy::Verdict;
use queue::{Key, Queue, Record};

/// Maximum number of Events in the queue: a bad day of a large installation, some 20 MiB.
const MOST: usize = 10_000;

/// Maximum number of Events of one namespace in the queue.
const MOST_OF_NAMESPACE: usize = 200;

/// Pause after a failure of the watch.
const WATCH_PAUSE: Duration = Duration::from_secs(1);

/// Least time between two requests: a host that is back must not get all Events at once.
const SEND_INTERVAL: Duration = Duration::from_millis(50);

/// Interval at which the length of the queue is published: that of most monitoring systems is longer.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// Lost Events per log line: enough to notice, not enough to flood the log.
const LOG_EVERY: u64 = 100;

/// Interval at which failures in one namespace are logged.
const LOG_INTERVAL: Duration = Duration::from_secs(5 * 60);

/// Number of namespaces of which a log line is remembered.
const MOST_LOGGED: usize = 1024;

/// Copier of Events from Capstan's store to the host, under the same name and namespace.
///
/// *Flow.* A watch of our own Events fills a bounded queue; one sender empties it. An Event that is in the host
/// already is patched: its count and last time follow ours.
///
/// *Guarantees.* No writer of an Event ever waits for the host. While the host is not up, the newest state of each Event
/// is queued. If the queue is full, the oldest Events of the largest namespace are lost, with a log line and a metric.
/// An Event that the host refuses for now waits, and stops no other. After a start, the Events of the last hour are
/// copied (again).
///
/// *Caveat.* Deletions are not copied: the host forgets its Events by age.
pub struct HostEvents {
    own: Client,
    host: Client,
    queue: Mutex<Queue>,
    filled: Notify,
    health: HostHealth,
    logged: TtlCache<String, ()>,
}

impl std::fmt::Debug for HostEvents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostEvents").finish_non_exhaustive()
    }
}

impl HostEvents {
    /// Creates a copier from our own store, read through `own`, to `host`.
    pub fn new(own: Client, host: Client) -> Self {
        let queue = Mutex::new(Queue::new(MOST, MOST_OF_NAMESPACE));
        let logged = TtlCache::new(LOG_INTERVAL, MOST_LOGGED);
        Self { own, host, queue, filled: Notify::new(), health: HostHealth::default(), logged }
    }

    /// Sends only while the host is up. Without this, it always sends.
    #[must_use]
    pub fn with_health(self, health: HostHealth) -> Self {
        Self { health, ..self }
    }

    /// Copies until `shutdown`. Queued Events are then lost, and found again by the next start.
    pub async fn run(self, shutdown: CancellationToken) {
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = self.follow() => {}
            () = self.send_all() => {}
            () = self.report_backlog() => {}
        }
        self.health.report_backlog(Outbox::Events, None);
    }

    /// Publishes the length of the queue, for ever.
    async fn report_backlog(&self) {
        loop {
            let (objects, oldest) = self.queue().backlog(Instant::now());
            let refused = usize::try_from(self.health.metrics().refused_events()).unwrap_or(usize::MAX);
            self.health.report_backlog(Outbox::Events, Some(Backlog { objects, oldest, refused }));
            tokio::time::sleep(REPORT_INTERVAL).await;
        }
    }

    /// Fills the queue from a watch.
    async fn follow(&self) {
        let changes = watcher(Api::<Event>::all(self.own.clone()), watcher::Config::default());
        let mut changes = std::pin::pin!(changes);
        let (mut newest, mut before_list, mut lost) = (0, 0, 0);
        while let Some(item) = changes.next().await {
            let (event, known) = match item {
                Ok(WatchEvent::Apply(event)) => (event, 0),
                // A list after a broken watch repeats Events from before it.
                Ok(WatchEvent::InitApply(event)) => (event, before_list),
                Ok(WatchEvent::Init) => {
                    before_list = newest;
                    continue;
                }
                Ok(WatchEvent::InitDone | WatchEvent::Delete(_)) => continue,
                Err(error) => {
                    tracing::debug!(%error, "the watch of events failed; retrying");
                    tokio::time::sleep(WATCH_PAUSE).await;
                    continue;
                }
            };
            let revision = copy::revision(&event);
            newest = newest.max(revision);
            if revision > known && copy::is_recent(&event, Timestamp::now()) {
                lost += self.enqueue(&event, lost);
            }
        }
    }

    /// Queues one Event; returns the number of Events that were lost for it.
    fn enqueue(&self, event: &Event, lost: u64) -> u64 {
        let metadata = &event.metadata;
        let (Some(namespace), Some(name)) = (&metadata.namespace, &metadata.name) else { return 0 };
        let key = (namespace.clone(), name.clone());
        let dropped = self.queue().push(key, copy::copy(event), Instant::now());
        self.filled.notify_one();
        if dropped > 0 && lost.is_multiple_of(LOG_EVERY) {
            tracing::warn!(
                lost = lost + dropped,
                most = MOST,
                most_of_namespace = MOST_OF_NAMESPACE,
                "the event queue is full; dropping the oldest event"
            );
        }
        self.health.metrics().count_dropped_events(Loss::Full, dropped);
        dropped
    }

    /// Sends what is due, for ever.
    async fn send_all(&self) {
        loop {
            self.health.up().await;
            let (next, due) = {
                let mut queue = self.queue();
                (queue.pop(Instant::now()), queue.next_due())
            };
            match (next, due) {
                (Some((key, record)), _) => {
                    self.send_one(key, record).await;
                    tokio::time::sleep(SEND_INTERVAL).await;
                }
                (None, Some(due)) => {
                    let _ = tokio::time::timeout_at(due, self.filled.notified()).await;
                }
                (None, None) => self.filled.notified().await,
            }
        }
    }

    /// Sends one Event. If the host refuses it for now, it waits for its next attempt.
    async fn send_one(&self, key: Key, mut record: Record) {
        let Err(error) = self.send(&key, &record.event).await else { return };
        match copy::verdict(&error) {
            Verdict::Drop => {
                tracing::debug!(%error, namespace = key.0, event = key.1, "the host refused an event; dropping it");
                self.health.metrics().count_dropped_events(Loss::Refused, 1);
            }
            Verdict::Retry => {
                if self.logged.get(&key.0).is_none() {
                    self.logged.insert(key.0.clone(), ());
                    tracing::warn!(%error, namespace = key.0, "cannot copy an event to the host; retrying");
                }
                record.fail(Instant::now());
                let dropped = self.queue().put_back(key, record);
                self.health.metrics().count_dropped_events(Loss::Full, dropped);
            }
        }
    }

    /// Creates the Event in the host, or updates it.
    async fn send(&self, (namespace, name): &Key, event: &Event) -> Result<(), kube::Error> {
        let api: Api<Event> = Api::namespaced(self.host.clone(), namespace);
        match api.create(&PostParams::default(), event).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                api.patch(name, &PatchParams::default(), &Patch::Merge(event)).await.map(|_| ())
            }
            other => other.map(|_| ()),
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
