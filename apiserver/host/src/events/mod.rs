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
use tokio_util::sync::CancellationToken;

use copy::Verdict;
use queue::{Key, Queue};

/// Maximum number of Events in the queue: hours of a quiet day, minutes of a bad one, some megabytes.
const MOST: usize = 2000;

/// First pause after a failure; each further failure doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// Longest pause: how long users may wait for Events after the host is back.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Lost Events per log line: enough to notice, not enough to flood the log.
const LOG_EVERY: u64 = 100;

/// Copier of Events from Capstan's store to the host, under the same name and namespace.
///
/// *Flow.* A watch of our own Events fills a bounded queue; one sender empties it. An Event that is in the host
/// already is patched: its count and last time follow ours.
///
/// *Guarantees.* No writer of an Event ever waits for the host. While the host is down, the newest state of each Event
/// is queued. If the queue is full, the oldest Events are lost, with a log line. After a start, the Events of the last
/// hour are copied (again).
///
/// *Caveat.* Deletions are not copied: the host forgets its Events by age.
pub struct HostEvents {
    own: Client,
    host: Client,
    queue: Mutex<Queue>,
    filled: Notify,
}

impl std::fmt::Debug for HostEvents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostEvents").finish_non_exhaustive()
    }
}

impl HostEvents {
    /// Creates a copier from our own store, read through `own`, to `host`.
    pub fn new(own: Client, host: Client) -> Self {
        Self { own, host, queue: Mutex::new(Queue::new(MOST)), filled: Notify::new() }
    }

    /// Copies until `shutdown`. Queued Events are then lost, and found again by the next start.
    pub async fn run(self, shutdown: CancellationToken) {
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = self.follow() => {}
            () = self.send_all() => {}
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
                    tokio::time::sleep(FIRST_PAUSE).await;
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
        let is_full = self.queue().push((namespace.clone(), name.clone()), copy::copy(event));
        self.filled.notify_one();
        if is_full && lost.is_multiple_of(LOG_EVERY) {
            tracing::warn!(
                lost = lost + 1,
                most = MOST,
                "the event queue is full; dropping the oldest event"
            );
        }
        u64::from(is_full)
    }

    /// Empties the queue, for ever.
    async fn send_all(&self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let Some((key, event)) = self.take() else {
                self.filled.notified().await;
                continue;
            };
            let Err(error) = self.send(&key, &event).await else {
                pause = FIRST_PAUSE;
                continue;
            };
            match copy::verdict(&error) {
                Verdict::Drop => {
                    tracing::debug!(%error, namespace = key.0, event = key.1, "the host refused an event; dropping it");
                }
                Verdict::Retry => {
                    tracing::warn!(%error, again_in = pause.as_secs(), "cannot copy an event to the host; retrying");
                    self.queue().put_back(key, event);
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
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

    fn take(&self) -> Option<(Key, Event)> {
        self.queue().pop()
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
