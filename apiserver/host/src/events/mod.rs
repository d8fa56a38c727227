//! Our Events, shown on the host: users look there, and the host's `v1` Events are its own.

mod copy;
mod queue;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::watcher::{self, Event as Told, watcher};
use kube::{Api, Client};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use copy::Verdict;
use queue::{Key, Queue};

/// Most Events that wait for the host: hours of a quiet day, minutes of a bad one, some megabytes.
const MOST: usize = 2000;

/// First pause after a failure. Each one more doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// Longest pause: how long after the host's return users may wait for what they missed.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Every so many lost Events there is a log line: enough to know, not enough to drown.
const TELL_EVERY: u64 = 100;

/// Copies Events of our store to the host, under the same name and namespace.
///
/// *Flow.* A watch of our own Events fills a bounded queue; one sender empties it. An Event that is
/// on the host already is patched: its count and last time go up there as here.
///
/// *Guarantees.* Nobody who writes an Event ever waits for the host. While it is down the newest
/// state of each Event waits; when there are too many, the oldest are lost, and the log says so.
/// After a start, what happened in the last hour is copied (again).
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
    /// Copies from our own store, read through `own`, to `host`.
    pub fn new(own: Client, host: Client) -> Self {
        Self { own, host, queue: Mutex::new(Queue::new(MOST)), filled: Notify::new() }
    }

    /// Copies until `shutdown`. What waits then is lost, and found again by the next start.
    pub async fn run(self, shutdown: CancellationToken) {
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = self.follow() => {}
            () = self.send_all() => {}
        }
    }

    /// Fills the queue from a watch.
    async fn follow(&self) {
        let told = watcher(Api::<Event>::all(self.own.clone()), watcher::Config::default());
        let mut told = std::pin::pin!(told);
        let (mut newest, mut before_list, mut lost) = (0, 0, 0);
        while let Some(item) = told.next().await {
            let (event, known) = match item {
                Ok(Told::Apply(event)) => (event, 0),
                // A list in mid-life repeats what was seen before it began.
                Ok(Told::InitApply(event)) => (event, before_list),
                Ok(Told::Init) => {
                    before_list = newest;
                    continue;
                }
                Ok(Told::InitDone | Told::Delete(_)) => continue,
                Err(error) => {
                    tracing::debug!(%error, "the watch of our events broke");
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

    /// Adds one; how many had to go for it.
    fn enqueue(&self, event: &Event, lost: u64) -> u64 {
        let metadata = &event.metadata;
        let (Some(namespace), Some(name)) = (&metadata.namespace, &metadata.name) else { return 0 };
        let is_full = self.queue().push((namespace.clone(), name.clone()), copy::copy(event));
        self.filled.notify_one();
        if is_full && lost.is_multiple_of(TELL_EVERY) {
            tracing::warn!(
                lost = lost + 1,
                most = MOST,
                "the host takes events too slowly; the oldest are not copied to it"
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
            match copy::judge(&error) {
                Verdict::Drop => {
                    tracing::debug!(%error, namespace = key.0, event = key.1, "the host does not take an event");
                }
                Verdict::Again => {
                    tracing::warn!(%error, again_in = pause.as_secs(), "an event could not be copied to the host");
                    self.queue().put_back(key, event);
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    /// Creates the Event on the host, or brings the one there up to date.
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
