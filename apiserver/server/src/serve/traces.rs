//! Export of traces, and spans of the calls to the store.

use std::sync::Arc;
use std::time::Duration;

use apiserver_trace::{Exporter, Kind, Span};
use async_trait::async_trait;
use bytes::Bytes;
use storage_contract::{
    Entry, Form, Key, KeyRange, ListOptions, Page, Revision, Store, StoreResult, Unchanged, WatchStream,
};

use crate::config::ServerConfiguration;
use crate::version;

/// Longest time that the last spans may take at the end of the process.
const LAST_EXPORT: Duration = Duration::from_secs(6);

/// Export of this process; nothing if traces are not configured.
pub(super) struct Traces(Option<Exporter>);

impl Traces {
    /// Starts the export, if it is configured.
    ///
    /// # Errors
    /// Settings that the exporter refuses; a CA that cannot be read.
    pub(super) fn start(configuration: &ServerConfiguration) -> anyhow::Result<Self> {
        let Some(tracing) = &configuration.tracing else { return Ok(Self(None)) };
        let instance = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let settings = tracing.settings(version::git_version(), instance)?;
        Ok(Self(Some(apiserver_trace::start(&settings)?)))
    }

    /// Sends the last spans.
    pub(super) async fn stop(self) {
        let Some(exporter) = self.0 else { return };
        let stopping = tokio::task::spawn_blocking(|| exporter.stop());
        match tokio::time::timeout(LAST_EXPORT, stopping).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => tracing::warn!(error, "the last spans were not sent"),
            Ok(Err(_)) | Err(_) => tracing::warn!("the last spans were not sent in time"),
        }
    }
}

/// Returns a store whose calls are spans, if traces are on.
pub(super) fn of_store(store: Arc<dyn Store>) -> Arc<dyn Store> {
    if apiserver_trace::is_on() { Arc::new(TracedStore(store)) } else { store }
}

/// Store whose reads and writes are spans of the request that makes them. Keys are not in them: they have names.
#[derive(Debug)]
struct TracedStore(Arc<dyn Store>);

/// Runs a call within a span.
async fn traced<T>(operation: &'static str, call: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
    let span = Span::child(operation, Kind::Client);
    let result = span.around(call).await;
    if result.is_err() {
        span.fail("the store refuses it or does not answer");
    }
    result
}

#[async_trait]
impl Store for TracedStore {
    async fn create_while(
        &self,
        key: &Key,
        value: Bytes,
        unchanged: Option<&Unchanged>,
    ) -> StoreResult<Revision> {
        traced("store create", self.0.create_while(key, value, unchanged)).await
    }

    async fn update(&self, key: &Key, expected: Revision, value: Bytes) -> StoreResult<Revision> {
        traced("store update", self.0.update(key, expected, value)).await
    }

    async fn delete(&self, key: &Key, expected: Revision) -> StoreResult<Revision> {
        traced("store delete", self.0.delete(key, expected)).await
    }

    async fn get(&self, key: &Key) -> StoreResult<Option<Entry>> {
        traced("store get", self.0.get(key)).await
    }

    async fn list(&self, range: &KeyRange, options: &ListOptions) -> StoreResult<Page> {
        traced("store list", self.0.list(range, options)).await
    }

    async fn watch(&self, range: &KeyRange, from: Revision) -> StoreResult<WatchStream> {
        self.0.watch(range, from).await
    }

    async fn follow(&self, range: &KeyRange, from: Revision) -> StoreResult<WatchStream> {
        self.0.follow(range, from).await
    }

    async fn compact(&self, revision: Revision) -> StoreResult<()> {
        self.0.compact(revision).await
    }

    async fn current_revision(&self) -> StoreResult<Revision> {
        traced("store revision", self.0.current_revision()).await
    }

    fn reports_progress(&self) -> bool {
        self.0.reports_progress()
    }

    fn hasten_progress(&self) {
        self.0.hasten_progress();
    }

    fn history(&self) -> u64 {
        self.0.history()
    }

    fn form(&self) -> Form {
        self.0.form()
    }

    fn unreadable_form(&self) -> Option<u64> {
        self.0.unreadable_form()
    }

    fn stray_writes(&self) -> u64 {
        self.0.stray_writes()
    }

    async fn change_form(&self, expected: Form, new: Form) -> StoreResult<()> {
        traced("store form", self.0.change_form(expected, new)).await
    }

    fn is_rewound(&self) -> bool {
        self.0.is_rewound()
    }
}
