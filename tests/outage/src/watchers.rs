//! Watchers of all objects of the writers, on both endpoints. Each continues where its last stream ended.

use std::path::PathBuf;
use std::time::Duration;

use futures::TryStreamExt;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::call::connect;
use crate::clients::{Identity, NAMESPACE};
use crate::record::{Realm, Recorder, Seen, Watched};

/// Pause before a new stream.
const PAUSE: Duration = Duration::from_millis(500);

/// Time limit of a stream without an event. Its server may be frozen. Writers write more often while one works.
const SILENCE: Duration = Duration::from_secs(10);

/// Attempts to list the objects at the start. The machine is busy then.
const LISTS: usize = 10;

/// Refusals of a revision, one after the other, after which it has expired. A server refuses one, too, if it is too busy to
/// read its history in a few seconds.
const REFUSALS: usize = 10;

/// Time for which a server keeps its history at least: a watcher that was longer without a connection lists again, as all
/// clients do.
const HISTORY: Duration = Duration::from_secs(5 * 60);

/// Number of watchers of one of Capstan's own users, and of the user who calls through the host.
const EACH: (usize, usize) = (2, 4);

/// One watcher.
struct Watcher {
    name: String,
    kubeconfig: PathBuf,
    recorder: Recorder,
    /// Revision of the last event or bookmark.
    at: Option<String>,
    /// Refusals of this revision.
    refusals: usize,
    /// Time of the last response of a server.
    heard: Instant,
}

pub(crate) async fn start(
    identities: &[Identity],
    recorder: &Recorder,
    stop: &CancellationToken,
    tasks: &mut JoinSet<anyhow::Result<()>>,
) -> anyhow::Result<()> {
    for identity in identities {
        let count = match identity.realm {
            Realm::Own => EACH.0,
            Realm::Aggregated => EACH.1,
            Realm::Denied | Realm::Host => 0,
        };
        for number in 0..count {
            let name = format!("{}-{number}", identity.name);
            let (kubeconfig, recorder) = (identity.kubeconfig.clone(), recorder.clone());
            let (at, heard) = (None, Instant::now());
            let mut watcher = Watcher { name, kubeconfig, recorder, at, refusals: 0, heard };
            watcher.begin().await?;
            let stop = stop.clone();
            tasks.spawn(async move {
                while stop.run_until_cancelled(watcher.follow()).await.is_some() {
                    tokio::time::sleep(PAUSE).await;
                }
                Ok(())
            });
        }
    }
    Ok(())
}

impl Watcher {
    async fn api(&self) -> anyhow::Result<Api<DynamicObject>> {
        let kind = GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", "MachineDrainRule");
        let resource = ApiResource::from_gvk_with_plural(&kind, "machinedrainrules");
        Ok(Api::namespaced_with(connect(&self.kubeconfig).await?, NAMESPACE, &resource))
    }

    /// Lists the objects, with several attempts.
    async fn begin(&mut self) -> anyhow::Result<()> {
        for _ in 1..LISTS {
            if matches!(tokio::time::timeout(SILENCE, self.list()).await, Ok(Ok(()))) {
                return Ok(());
            }
            tokio::time::sleep(PAUSE).await;
        }
        tokio::time::timeout(SILENCE, self.list()).await?
    }

    /// Lists the objects. The watch begins after them.
    async fn list(&mut self) -> anyhow::Result<()> {
        let list = self.api().await?.list(&ListParams::default()).await?;
        let revision = list.metadata.resource_version.unwrap_or_default();
        let from = revision.parse().unwrap_or_default();
        let listed = list.items.iter().map(|it| (it.name_any(), revision_of(it))).collect();
        let watched = Watched { watcher: self.name.clone(), from, until: None, listed };
        self.recorder.lock().watched.push(watched);
        (self.at, self.refusals, self.heard) = (Some(revision), 0, Instant::now());
        Ok(())
    }

    /// Lists again after a long time without a connection. What was written in between is in the list.
    async fn list_again(&mut self) {
        let until = self.at.as_ref().and_then(|at| at.parse().ok());
        if !matches!(tokio::time::timeout(SILENCE, self.list()).await, Ok(Ok(()))) {
            return;
        }
        let mut records = self.recorder.lock();
        let mut own = records.watched.iter_mut().rev().filter(|it| it.watcher == self.name).skip(1);
        if let Some(before) = own.next() {
            before.until = until;
        }
    }

    /// Follows one stream until it ends.
    async fn follow(&mut self) {
        if let Err(error) = self.stream().await {
            let text = error.to_string();
            if text.contains("Expired") || text.contains("too old") {
                self.refusals += 1;
                if self.refusals >= REFUSALS && self.heard.elapsed() > HISTORY {
                    self.list_again().await;
                } else if self.refusals == REFUSALS {
                    let text = format!("watcher {}: {text}", self.name);
                    self.recorder.lock().contradictions.push(text);
                }
            }
        }
    }

    async fn stream(&mut self) -> anyhow::Result<()> {
        let parameters = WatchParams::default();
        let at = self.at.clone().unwrap_or_default();
        let opening = async { anyhow::Ok(self.api().await?.watch(&parameters, &at).await?) };
        let stream = tokio::time::timeout(SILENCE, opening).await??;
        let mut stream = std::pin::pin!(stream);
        while let Some(event) = tokio::time::timeout(SILENCE, stream.try_next()).await?? {
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
                    self.see(&object)
                }
                WatchEvent::Bookmark(bookmark) => {
                    (self.at, self.heard) = (Some(bookmark.metadata.resource_version), Instant::now());
                }
                WatchEvent::Error(status) => anyhow::bail!("{}: {}", status.reason, status.message),
            }
        }
        Ok(())
    }

    fn see(&mut self, object: &DynamicObject) {
        let revision = revision_of(object);
        self.recorder.lock().seen.push(Seen { watcher: self.name.clone(), revision });
        (self.at, self.refusals, self.heard) = (object.resource_version(), 0, Instant::now());
    }
}

fn revision_of(object: &DynamicObject) -> u64 {
    object.resource_version().and_then(|text| text.parse().ok()).unwrap_or_default()
}
