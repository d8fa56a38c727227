//! Copies of clusters' Secrets in the host cluster, where people and tools read them.

mod decide;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, PostParams};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::health::{Backlog, HostHealth};
use crate::metrics::Outbox;
pub(crate) use decide::OWNER;
use decide::{CLUSTER_NAME, Step, decide, has_copies, is_wanted};

/// First pause after a failure; each further failure doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// Longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// Interval at which each copy is compared again: someone may have changed or deleted it in the host.
const COMPARE: Duration = Duration::from_secs(600);

/// Least time between two Secrets: a host that is back must not get all of them at once.
const INTERVAL: Duration = Duration::from_millis(50);

/// Interval at which the number of waiting Secrets is published.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// Pause after a failure of the watch.
const WATCH_PAUSE: Duration = Duration::from_secs(1);

/// Key of a Secret: namespace and name.
type Key = (String, String);

/// Receiver of what people must know about a Cluster's Secrets.
#[async_trait]
pub trait WriteBackReport: Send + Sync + 'static {
    /// Reports that a copy cannot be written. It is called again only after another outcome.
    async fn refused(&self, cluster: &DynamicObject, reason: &'static str, message: &str);
}

/// Secret that waits for its next comparison.
#[derive(Debug, Clone)]
struct Waiting {
    due: Instant,
    /// Time since which the host lacks a change.
    since: Option<Instant>,
    failures: u32,
    /// The last refusal that was reported.
    reported: Option<String>,
}

/// Writer of the copies.
///
/// *Flow.* A watch of Capstan's own Secrets of clusters fills a list; one sender compares each with its copy, and creates
/// or replaces the copy. Each copy is compared again every ten minutes.
///
/// *Guarantees.* No controller waits for the host. Everything that is owed to the host follows from the Secrets in
/// Capstan's own store, so that an outage, a failover or a restart loses nothing. A Secret of another owner is never
/// changed. A Secret that the host refuses stops no other.
///
/// *Deletion.* A copy has the owners of its Secret. The host's garbage collector deletes it after them.
pub struct SecretWriteBack {
    own: Client,
    host: Client,
    health: HostHealth,
    report: Arc<dyn WriteBackReport>,
    waiting: Mutex<HashMap<Key, Waiting>>,
    filled: Notify,
}

impl std::fmt::Debug for SecretWriteBack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecretWriteBack").finish_non_exhaustive()
    }
}

impl SecretWriteBack {
    /// Creates a writer of copies in `host` of the Secrets that `own` reads. It writes only while the host is up.
    pub fn new(own: Client, host: Client, health: HostHealth, report: Arc<dyn WriteBackReport>) -> Self {
        Self { own, host, health, report, waiting: Mutex::default(), filled: Notify::new() }
    }

    /// Writes until `shutdown`.
    pub async fn run(self, shutdown: CancellationToken) {
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = self.follow() => {}
            () = self.write_all() => {}
            () = self.report_backlog() => {}
        }
        self.health.report_backlog(Outbox::Secrets, None);
    }

    /// Publishes the number of changed Secrets that the host does not have yet, for ever.
    async fn report_backlog(&self) {
        loop {
            let backlog = self.backlog();
            self.health.report_backlog(Outbox::Secrets, Some(backlog));
            tokio::time::sleep(REPORT_INTERVAL).await;
        }
    }

    /// Returns the Secrets whose copies are not as they should be.
    fn backlog(&self) -> Backlog {
        let waiting = self.waiting();
        let ages: Vec<Duration> = waiting.values().filter_map(|it| Some(it.since?.elapsed())).collect();
        Backlog {
            objects: ages.len(),
            oldest: ages.iter().max().copied().unwrap_or_default(),
            refused: waiting.values().filter(|it| it.reported.is_some()).count(),
        }
    }

    /// Fills the list from a watch.
    async fn follow(&self) {
        let selected = watcher::Config::default().labels(CLUSTER_NAME);
        let mut changes = std::pin::pin!(watcher(Api::<Secret>::all(self.own.clone()), selected));
        while let Some(change) = changes.next().await {
            match change {
                // Each Machine has a Secret with bootstrap data, which is never copied.
                Ok(Event::Apply(secret) | Event::InitApply(secret)) if has_copies(&secret) => {
                    let key = (secret.namespace().unwrap_or_default(), secret.name_any());
                    self.waiting().entry(key).or_insert_with(Waiting::now).change();
                    self.filled.notify_one();
                }
                Ok(Event::Delete(secret)) => {
                    self.waiting().remove(&(secret.namespace().unwrap_or_default(), secret.name_any()));
                }
                Ok(Event::Apply(_) | Event::InitApply(_) | Event::Init | Event::InitDone) => {}
                Err(error) => {
                    tracing::debug!(%error, "the watch of secrets failed; retrying");
                    tokio::time::sleep(WATCH_PAUSE).await;
                }
            }
        }
    }

    /// Compares what is due, for ever.
    async fn write_all(&self) {
        loop {
            self.health.up().await;
            let next = {
                let waiting = self.waiting();
                let next = waiting.iter().min_by_key(|(_, it)| it.due);
                next.map(|(key, it)| (key.clone(), it.clone()))
            };
            match next {
                Some((key, waiting)) if waiting.due <= Instant::now() => {
                    self.compare(&key, waiting).await;
                    tokio::time::sleep(INTERVAL).await;
                }
                Some((_, waiting)) => {
                    let _ = tokio::time::timeout_at(waiting.due, self.filled.notified()).await;
                }
                None => self.filled.notified().await,
            }
        }
    }

    /// Compares a Secret with its copy, and decides on the next time.
    async fn compare(&self, key: &Key, mut waiting: Waiting) {
        let began = waiting.due;
        match self.write(key, &mut waiting).await {
            Ok(()) => {
                (waiting.due, waiting.failures, waiting.since) = (Instant::now() + COMPARE, 0, None);
            }
            Err(error) => {
                tracing::debug!(%error, namespace = key.0, secret = key.1, "a copy cannot be written; retrying");
                let pause = FIRST_PAUSE.saturating_mul(1 << waiting.failures.min(16)).min(LONGEST_PAUSE);
                (waiting.due, waiting.failures) = (Instant::now() + pause, waiting.failures + 1);
            }
        }
        let mut all = self.waiting();
        // A change or a deletion may have come during the comparison.
        if let Some(current) = all.get_mut(key) {
            let is_unchanged = current.due == began;
            let (due, since) =
                if is_unchanged { (waiting.due, waiting.since) } else { (current.due, current.since) };
            *current = Waiting { due, since, ..waiting };
        }
    }

    /// Makes the copy equal to the Secret, if the Cluster wants one.
    async fn write(&self, (namespace, name): &Key, waiting: &mut Waiting) -> Result<(), kube::Error> {
        let own: Api<Secret> = Api::namespaced(self.own.clone(), namespace);
        let Some(secret) = own.get_opt(name).await? else { return Ok(()) };
        let Some(cluster) = self.cluster(&secret).await?.filter(|cluster| is_wanted(&secret, cluster)) else {
            waiting.reported = None;
            return Ok(());
        };
        let host: Api<Secret> = Api::namespaced(self.host.clone(), namespace);
        let copy = host.get_opt(name).await;
        let step = match &copy {
            Ok(copy) => decide(&secret, &cluster, copy.as_ref()),
            Err(error) => match forbidden(error) {
                Some(message) => Step::Refuse("WriteBackForbidden", message),
                None => return copy.map(drop),
            },
        };
        let written = match step {
            Step::Nothing => {
                waiting.reported = None;
                return Ok(());
            }
            Step::Create(copy) => host.create(&PostParams::default(), &copy).await,
            Step::Replace(copy) => host.replace(name, &PostParams::default(), &copy).await,
            Step::Refuse(reason, message) => {
                self.refuse(&cluster, waiting, reason, &message).await;
                return Ok(());
            }
        };
        if let Some(message) = written.as_ref().err().and_then(forbidden) {
            self.refuse(&cluster, waiting, "WriteBackForbidden", &message).await;
        }
        // A refusal that has ended is reported anew if it comes back.
        written.map(|_| waiting.reported = None)
    }

    async fn refuse(
        &self,
        cluster: &DynamicObject,
        waiting: &mut Waiting,
        reason: &'static str,
        message: &str,
    ) {
        if waiting.reported.as_deref() != Some(message) {
            self.report.refused(cluster, reason, message).await;
            waiting.reported = Some(message.to_owned());
        }
    }

    /// Returns the Cluster of a Secret.
    async fn cluster(&self, secret: &Secret) -> Result<Option<DynamicObject>, kube::Error> {
        let Some(name) = secret.labels().get(CLUSTER_NAME) else { return Ok(None) };
        let kind = GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", "Cluster");
        let kind = ApiResource::from_gvk_with_plural(&kind, "clusters");
        let namespace = secret.namespace().unwrap_or_default();
        Api::namespaced_with(self.own.clone(), &namespace, &kind).get_opt(name).await
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<Key, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn now() -> Self {
        Self { due: Instant::now(), since: None, failures: 0, reported: None }
    }

    /// Notes a change, which is compared at once.
    fn change(&mut self) {
        self.due = Instant::now();
        self.since.get_or_insert(self.due);
    }
}

/// Returns the message of a refusal for lack of permission. A namespace that ends refuses creations, too.
fn forbidden(error: &kube::Error) -> Option<String> {
    match error {
        kube::Error::Api(status) if status.code == 403 => Some(format!(
            "{}. Apply the output of `capstan host manifests` again, or set the annotation {} of the Cluster to none",
            status.message,
            decide::POLICY
        )),
        _ => None,
    }
}
