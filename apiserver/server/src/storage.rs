//! Store of the server, with metrics. It exists from startup on, and returns errors until the store behind it is
//! available.

use std::future::Future;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use storage_contract::{
    Entry, Form, Key, KeyRange, ListOptions, Outage, Page, Revision, Store, StoreError, StoreResult,
    Unchanged, WatchStream,
};
use storage_etcd::{EtcdConfiguration, EtcdStore};
use tokio_util::sync::CancellationToken;

use crate::authorities::AuthorityStore;
use crate::backup::note_of_replaced_data;
use crate::encryption_keys::EncryptionKeys;
use crate::etcd_files::EtcdFiles;
use crate::storage_history::StorageHistory;

/// Pause before the server connects again to an etcd that did not respond.
const PAUSE: Duration = Duration::from_secs(1);

/// Buckets of the durations, as upstream. Unit: seconds.
const DURATIONS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0, 45.0, 60.0,
];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    operation: &'static str,
    group: String,
    resource: String,
}

/// Store that is opened after the server has started.
#[derive(Debug)]
pub(crate) struct Storage {
    store: OnceLock<Arc<dyn Store>>,
    durations: Family<Labels, Histogram, fn() -> Histogram>,
    requests: Family<Labels, Counter>,
    errors: Family<Labels, Counter>,
    refusals: Mutex<Outage>,
    /// Form of an etcd that this release cannot read, so that the store is not opened; 0: there is none.
    unreadable_form: AtomicU64,
}

impl Storage {
    /// Creates it without a store. The metrics go into `registry`, under the names that they have upstream, where every
    /// store is an etcd.
    pub(crate) fn new(registry: &mut Registry) -> Arc<Self> {
        let storage = Self {
            store: OnceLock::new(),
            durations: Family::new_with_constructor(|| Histogram::new(DURATIONS)),
            requests: Family::default(),
            errors: Family::default(),
            refusals: Mutex::default(),
            unreadable_form: AtomicU64::new(0),
        };
        let durations = storage.durations.clone();
        registry.register("etcd_request_duration_seconds", "Duration of requests to storage", durations);
        registry.register("etcd_requests", "Requests to storage", storage.requests.clone());
        // Without errors the metric is exported as zero.
        let labels = Labels { operation: "get", group: String::new(), resource: String::new() };
        drop(storage.errors.get_or_create(&labels));
        registry.register("etcd_request_errors", "Requests to storage that failed", storage.errors.clone());
        Arc::new(storage)
    }

    /// Sets the store.
    pub(crate) fn open(&self, store: Arc<dyn Store>) {
        // The first call sets it, and there is only one.
        let _ = self.store.set(store);
    }

    /// Connects to an etcd, and retries until it succeeds, the server has its encryption keys, and an empty store has its
    /// CAs. Then it follows the history of the store, until `shutdown`.
    pub(crate) async fn connect(
        self: Arc<Self>,
        files: EtcdFiles,
        first: FirstUse,
        history: StorageHistory,
        shutdown: CancellationToken,
    ) {
        let endpoints = files.endpoints();
        let (mut last, mut outage) = (String::new(), Outage::default());
        loop {
            let connecting = usable(&files, &first, &history);
            let error = tokio::select! {
                () = shutdown.cancelled() => return,
                connected = connecting => match connected {
                    Ok((store, used)) => {
                        tracing::info!("connected to the etcd at {endpoints}");
                        self.unreadable_form.store(0, Ordering::Release);
                        self.open(Arc::new(store.clone()));
                        let files = files.follow(store.clone(), used, shutdown.clone());
                        tokio::join!(history.follow(store, shutdown.clone()), files);
                        return;
                    }
                    Err(error) => {
                        self.note_form(&error);
                        format!("{error:#}")
                    }
                },
            };
            // It is the cause of all errors that others log each minute.
            let is_due = outage.should_log();
            if is_due || error != last {
                tracing::error!(error, "cannot use the etcd at {endpoints}; retrying");
                last = error;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Notes the form of the store, if that is why it cannot be used.
    fn note_form(&self, error: &anyhow::Error) {
        let form = match error.downcast_ref::<StoreError>() {
            Some(StoreError::Form { found }) => *found,
            _ => 0,
        };
        self.unreadable_form.store(form, Ordering::Release);
    }

    fn store(&self, operation: &'static str) -> StoreResult<&Arc<dyn Store>> {
        let missing = || StoreError::Unavailable { operation, source: "the store is not open yet".into() };
        self.store.get().ok_or_else(missing)
    }

    async fn measured<T>(
        &self,
        operation: &'static str,
        key: &[u8],
        call: impl Future<Output = StoreResult<T>> + Send,
    ) -> StoreResult<T> {
        let (group, resource) = kind_of(key);
        let labels = Labels { operation, group, resource };
        let started = Instant::now();
        let result = call.await;
        self.durations.get_or_create(&labels).observe(started.elapsed().as_secs_f64());
        self.requests.get_or_create(&labels).inc();
        if let Err(StoreError::Refused { reason, .. }) = &result
            && self.refusals.lock().unwrap_or_else(PoisonError::into_inner).should_log()
        {
            tracing::error!(reason, "storage refuses writes");
        }
        if let Err(
            StoreError::Refused { .. }
            | StoreError::Rewound { .. }
            | StoreError::Unavailable { .. }
            | StoreError::Unknown { .. },
        ) = &result
        {
            self.errors.get_or_create(&labels).inc();
        }
        result
    }
}

/// First use of an etcd, before anything else can read or write it.
pub(crate) struct FirstUse {
    pub(crate) keys: EncryptionKeys,
    /// Data directory, whose CA an empty store takes over.
    pub(crate) data: PathBuf,
}

impl FirstUse {
    /// Checks that the server has the encryption keys of the store, and creates the CAs of an empty one. A request, a start
    /// hook or the election could otherwise write first. The store would then look as if it had lost its CAs, and nothing
    /// would ever create them.
    async fn prepare(&self, store: &EtcdStore) -> anyhow::Result<()> {
        self.keys.reload()?;
        self.keys.agree(store).await?;
        let authorities = AuthorityStore::new(Arc::new(store.clone()), self.keys.encryption());
        authorities.begin_empty(&self.data).await
    }
}

/// Connects to an etcd, and prepares its first use.
async fn usable(
    files: &EtcdFiles,
    first: &FirstUse,
    history: &StorageHistory,
) -> anyhow::Result<(EtcdStore, EtcdConfiguration)> {
    let note = Some(note_of_replaced_data()?);
    let configuration = EtcdConfiguration { seen: history.seen(), note, ..files.read()? };
    let store = EtcdStore::connect(configuration.clone()).await?;
    first.prepare(&store).await?;
    Ok((store, configuration))
}

/// Returns group and resource of `/capstan/<group>/<resource>/…`, and empty texts for any other key. In the start of a
/// range, the bytes after them may not be valid UTF-8.
fn kind_of(key: &[u8]) -> (String, String) {
    let text = key.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    let mut parts = text.strip_prefix(apiserver_machinery::resource::ROOT).unwrap_or_default().splitn(3, '/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some("locks"), _, _) => (String::new(), "locks".to_owned()),
        (Some(group), Some(resource), Some(_)) if is_name(group) && is_name(resource) => {
            (if group == "core" { String::new() } else { group.to_owned() }, resource.to_owned())
        }
        _ => Default::default(),
    }
}

/// Reports whether a text can be the name of a group or resource. The start of a range in a paged scan can be an
/// interpolated key.
fn is_name(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.'))
}

#[async_trait]
impl Store for Storage {
    async fn create_while(
        &self,
        key: &Key,
        value: Bytes,
        unchanged: Option<&Unchanged>,
    ) -> StoreResult<Revision> {
        let store = self.store("create")?;
        self.measured("create", key.as_bytes(), store.create_while(key, value, unchanged)).await
    }

    async fn update(&self, key: &Key, expected: Revision, value: Bytes) -> StoreResult<Revision> {
        let store = self.store("update")?;
        self.measured("update", key.as_bytes(), store.update(key, expected, value)).await
    }

    async fn delete(&self, key: &Key, expected: Revision) -> StoreResult<Revision> {
        let store = self.store("delete")?;
        self.measured("delete", key.as_bytes(), store.delete(key, expected)).await
    }

    async fn get(&self, key: &Key) -> StoreResult<Option<Entry>> {
        let store = self.store("get")?;
        self.measured("get", key.as_bytes(), store.get(key)).await
    }

    async fn list(&self, range: &KeyRange, options: &ListOptions) -> StoreResult<Page> {
        let store = self.store("list")?;
        self.measured("list", &range.start, store.list(range, options)).await
    }

    async fn watch(&self, range: &KeyRange, from: Revision) -> StoreResult<WatchStream> {
        // Not measured, because a watch has no end.
        self.store("watch")?.watch(range, from).await
    }

    async fn follow(&self, range: &KeyRange, from: Revision) -> StoreResult<WatchStream> {
        self.store("watch")?.follow(range, from).await
    }

    async fn compact(&self, revision: Revision) -> StoreResult<()> {
        let store = self.store("compact")?;
        self.measured("compact", b"", store.compact(revision)).await
    }

    async fn current_revision(&self) -> StoreResult<Revision> {
        let store = self.store("current revision")?;
        self.measured("getCurrentResourceVersion", b"", store.current_revision()).await
    }

    fn reports_progress(&self) -> bool {
        // Without a store there is no progress to report.
        self.store.get().is_some_and(|store| store.reports_progress())
    }

    fn history(&self) -> u64 {
        self.store.get().map_or(0, |store| store.history())
    }

    fn form(&self) -> Form {
        self.store.get().map_or(Form::of(Form::OLDEST), |store| store.form())
    }

    fn unreadable_form(&self) -> Option<u64> {
        let own = Some(self.unreadable_form.load(Ordering::Acquire)).filter(|form| *form > 0);
        own.or_else(|| self.store.get()?.unreadable_form())
    }

    fn stray_writes(&self) -> u64 {
        self.store.get().map_or(0, |store| store.stray_writes())
    }

    async fn change_form(&self, expected: Form, new: Form) -> StoreResult<()> {
        self.store("change the stored form")?.change_form(expected, new).await
    }

    fn is_rewound(&self) -> bool {
        self.store.get().is_some_and(|store| store.is_rewound())
    }

    fn hasten_progress(&self) {
        if let Some(store) = self.store.get() {
            store.hasten_progress();
        }
    }
}

#[cfg(test)]
mod tests {
    use storage_embedded::EmbeddedStore;

    use super::*;

    #[tokio::test]
    async fn a_call_fails_until_the_store_is_open_and_is_measured_after_that() {
        let mut registry = Registry::default();
        let storage = Storage::new(&mut registry);
        let key = Key::new("/capstan/cluster.x-k8s.io/machines/team/m1").unwrap();
        assert!(matches!(storage.get(&key).await, Err(StoreError::Unavailable { .. })));
        let directory = tempfile::tempdir().unwrap();
        storage.open(Arc::new(EmbeddedStore::open(&directory.path().join("store")).unwrap()));
        storage.create(&key, Bytes::from_static(b"{}")).await.unwrap();
        assert!(storage.get(&key).await.unwrap().is_some());
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let expected =
            "etcd_requests_total{operation=\"create\",group=\"cluster.x-k8s.io\",resource=\"machines\"} 1";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn labels_have_the_group_and_resource_of_a_key_and_no_names() {
        for (key, expected) in [
            ("/capstan/core/secrets/team/s", ("", "secrets")),
            ("/capstan/cluster.x-k8s.io/machines/", ("cluster.x-k8s.io", "machines")),
            ("/capstan/locks/machines/7", ("", "locks")),
            ("/capstan/", ("", "")),
            ("/", ("", "")),
        ] {
            let (group, resource) = kind_of(key.as_bytes());
            assert_eq!((group.as_str(), resource.as_str()), expected, "{key}");
        }
    }
}
