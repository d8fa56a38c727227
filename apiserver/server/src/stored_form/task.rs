//! Tasks of a server that follow the stored form: its own part, and the commit by the leader.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use apiserver_http::Check;
use apiserver_machinery::encryption::Encryption;
use jiff::{SignedDuration, Timestamp};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use storage_contract::{Form, Outage, Store};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::decide::{Decision, decide};
use crate::replicas;

/// Interval at which a server looks at the form. A store call, which all servers make every few seconds, finds a change.
const LOOK: Duration = Duration::from_millis(200);

/// Interval at which the leader decides about a commit.
const INTERVAL: Duration = Duration::from_secs(15);

/// Stored form of the server's store. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct StoredForm {
    store: Arc<dyn Store>,
    encryption: Arc<Encryption>,
    committed: Gauge,
    strays: Counter,
    /// Unreadable form for which the process ends; 0: none.
    given_up: Arc<AtomicU64>,
}

/// Error of a process that ended because its release cannot read the store.
#[derive(Debug, thiserror::Error)]
#[error(
    "the store has form {0}, and this release reads forms {oldest} to {newest}: start the release that committed it, or a \
     newer one",
    oldest = Form::OLDEST,
    newest = Form::NEWEST
)]
pub struct UnreadableForm(u64);

/// Returns the readiness check `storage-form`: this release can read the form of the store.
pub(crate) fn check(store: Arc<dyn Store>) -> Check {
    Check { name: "storage-form", is_well: Arc::new(move || store.unreadable_form().is_none()) }
}

impl StoredForm {
    pub(crate) fn new(store: Arc<dyn Store>, encryption: Arc<Encryption>, registry: &mut Registry) -> Self {
        let committed = Gauge::default();
        registry.register("capstan_store_form", "Committed stored form", committed.clone());
        let strays = Counter::default();
        registry.register(
            "capstan_stray_writes",
            "Values in a stored form that no server on this store writes",
            strays.clone(),
        );
        Self { store, encryption, committed, strays, given_up: Arc::default() }
    }

    /// Applies each change of the form, until `shutdown`. If the release cannot read the form for longer than `patience`, it
    /// cancels `shutdown` itself: the server cannot serve, and the service manager or an operator should start another
    /// release.
    pub(crate) async fn follow(self, shutdown: CancellationToken, patience: Duration) {
        let mut unreadable_since = None;
        while shutdown.run_until_cancelled(tokio::time::sleep(LOOK)).await.is_some() {
            self.apply();
            let Some(form) = self.store.unreadable_form() else {
                unreadable_since = None;
                continue;
            };
            let since = *unreadable_since.get_or_insert_with(Instant::now);
            if since.elapsed() >= patience {
                self.given_up.store(form, Ordering::Release);
                shutdown.cancel();
            }
        }
    }

    /// Seals new values in the form of the store.
    pub(super) fn apply(&self) {
        let form = self.store.form();
        self.encryption.derive_keys(form.writes() >= Form::DERIVED_KEYS);
        self.strays.inc_by(self.store.stray_writes().saturating_sub(self.strays.get()));
        self.committed.set(i64::try_from(form.committed).unwrap_or(i64::MAX));
    }

    /// Returns the error of a process that has ended because it cannot read the store.
    ///
    /// # Errors
    /// `UnreadableForm`.
    pub(crate) fn result(&self) -> Result<(), UnreadableForm> {
        match self.given_up.load(Ordering::Acquire) {
            0 => Ok(()),
            form => Err(UnreadableForm(form)),
        }
    }

    /// Commits the newest form as soon as it can be, until `end`. Only the leader does that.
    pub(crate) async fn commit(self, delay: Duration, end: CancellationToken) {
        let (delay, mut outage) =
            (SignedDuration::try_from(delay).unwrap_or(SignedDuration::MAX), Outage::default());
        while end.run_until_cancelled(tokio::time::sleep(INTERVAL)).await.is_some() {
            match end.run_until_cancelled(self.pass(delay)).await {
                None => return,
                Some(Ok(())) => outage = Outage::default(),
                Some(Err(error)) if outage.should_log() => {
                    tracing::warn!("the stored form cannot be committed: {error:#}; retrying");
                }
                Some(Err(_)) => {}
            }
        }
    }

    async fn pass(&self, delay: SignedDuration) -> anyhow::Result<()> {
        let form = self.store.form();
        if form.to.is_some() || form.committed >= Form::NEWEST {
            return Ok(());
        }
        let live = replicas::live(self.store.as_ref()).await?;
        match decide(form, &live, Timestamp::now(), Some(delay)) {
            Decision::Nothing => {}
            Decision::Wait(why) => tracing::debug!(why, "the newest stored form is not committed yet"),
            Decision::Commit(new) => {
                self.store.change_form(form, new).await?;
                tracing::info!(
                    form = new.committed,
                    "stored form committed: older releases can no longer use the store"
                );
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Newer(storage_embedded::EmbeddedStore);

    #[async_trait::async_trait]
    impl Store for Newer {
        async fn create_while(
            &self,
            key: &storage_contract::Key,
            value: bytes::Bytes,
            unchanged: Option<&storage_contract::Unchanged>,
        ) -> storage_contract::StoreResult<storage_contract::Revision> {
            self.0.create_while(key, value, unchanged).await
        }

        async fn update(
            &self,
            key: &storage_contract::Key,
            expected: storage_contract::Revision,
            value: bytes::Bytes,
        ) -> storage_contract::StoreResult<storage_contract::Revision> {
            self.0.update(key, expected, value).await
        }

        async fn delete(
            &self,
            key: &storage_contract::Key,
            expected: storage_contract::Revision,
        ) -> storage_contract::StoreResult<storage_contract::Revision> {
            self.0.delete(key, expected).await
        }

        async fn get(
            &self,
            key: &storage_contract::Key,
        ) -> storage_contract::StoreResult<Option<storage_contract::Entry>> {
            self.0.get(key).await
        }

        async fn list(
            &self,
            range: &storage_contract::KeyRange,
            options: &storage_contract::ListOptions,
        ) -> storage_contract::StoreResult<storage_contract::Page> {
            self.0.list(range, options).await
        }

        async fn watch(
            &self,
            range: &storage_contract::KeyRange,
            from: storage_contract::Revision,
        ) -> storage_contract::StoreResult<storage_contract::WatchStream> {
            self.0.watch(range, from).await
        }

        async fn compact(&self, revision: storage_contract::Revision) -> storage_contract::StoreResult<()> {
            self.0.compact(revision).await
        }

        async fn current_revision(&self) -> storage_contract::StoreResult<storage_contract::Revision> {
            self.0.current_revision().await
        }

        fn unreadable_form(&self) -> Option<u64> {
            Some(9)
        }
    }

    #[tokio::test]
    async fn hv_22_a_release_that_cannot_read_the_form_is_not_ready_and_ends() {
        let directory = tempfile::tempdir().unwrap();
        let store = storage_embedded::EmbeddedStore::open(&directory.path().join("store")).unwrap();
        let store: Arc<dyn Store> = Arc::new(Newer(store));
        let form = StoredForm::new(store, Arc::default(), &mut Registry::default());
        assert!(!(check(Arc::clone(&form.store)).is_well)() && form.result().is_ok());
        let shutdown = CancellationToken::new();
        form.clone().follow(shutdown.clone(), Duration::from_millis(400)).await;
        assert!(shutdown.is_cancelled());
        assert!(form.result().unwrap_err().to_string().contains("the store has form 9"));
    }
}
