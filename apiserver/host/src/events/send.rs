//! Sender of the queued Events.

use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use tokio::time::Instant;

use super::HostEvents;
use super::copy::{self, Verdict};
use super::queue::{Key, Record};
use crate::metrics::Loss;

impl HostEvents {
    /// Sends what is due, for ever. Several senders run.
    pub(super) async fn send_all(&self) {
        loop {
            self.health.up().await;
            let (next, due) = {
                let mut queue = self.queue();
                (queue.pop(Instant::now()), queue.next_due())
            };
            match (next, due) {
                (Some((key, record)), _) => {
                    // Another sender looks for the next one.
                    self.filled.notify_one();
                    self.send_one(key, record).await;
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
        let Err(error) = self.send(&key, &record.event).await else { return self.queue().end(&key) };
        // A host that starts, or was restored, may refuse an Event that it takes later.
        let is_believed = self.health.state().believes_absence();
        match copy::verdict(&error) {
            Verdict::Drop if is_believed => {
                self.queue().end(&key);
                tracing::debug!(%error, namespace = key.0, event = key.1, "the host refused an event; dropping it");
                self.health.metrics().count_dropped_events(Loss::Refused, 1);
            }
            Verdict::Drop | Verdict::Retry => {
                if self.logged.get(&key.0).is_none() {
                    self.logged.insert(key.0.clone(), ());
                    tracing::warn!(%error, namespace = key.0, "cannot copy an event to the host; retrying");
                }
                record.fail(Instant::now());
                let dropped = self.queue().put_back(key, record);
                self.lose(dropped);
            }
        }
    }

    /// Creates the Event in the host, or updates it.
    async fn send(&self, (namespace, name): &Key, event: &Event) -> Result<(), kube::Error> {
        let api: Api<Event> = Api::namespaced(self.host.clone(), namespace);
        match self.limit.write(api.create(&PostParams::default(), event)).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                let patch = Patch::Merge(event);
                self.limit.write(api.patch(name, &PatchParams::default(), &patch)).await.map(|_| ())
            }
            other => other.map(|_| ()),
        }
    }
}
