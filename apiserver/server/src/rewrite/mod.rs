//! Rewrite of all values in the form that a write gives them now: another encryption key, another stored form, another
//! stored version of an object.
//!
//! A command writes a job into the store. The leader carries it out and saves its position after each page, so the next
//! leader goes on there. It writes 200 values per second at most, so that clients keep most of the store's throughput.

mod command;
mod job;
mod metrics;
#[cfg(test)]
mod tests;
mod value;

use std::sync::Arc;
use std::time::Duration;

use apiserver_machinery::encryption::Encryption;
use apiserver_machinery::resource::{ROOT, Registry};
use jiff::Timestamp;
use storage_contract::{Entry, Form, KeyRange, ListOptions, Outage, Store, StoreError};
use tokio_util::sync::CancellationToken;

pub(crate) use self::command::{begin, follow};
use self::job::save;
pub(crate) use self::job::{Job, Reason, load};
pub(crate) use self::metrics::RewriteMetrics;
use self::value::Decision;
pub(crate) use self::value::kind;

/// Interval at which the leader looks for a job.
const POLL: Duration = Duration::from_secs(2);

/// Values of a page. The position is saved after each one.
const PAGE: usize = 200;

/// Pause after each write: 200 per second at most.
const PAUSE: Duration = Duration::from_millis(5);

/// Attempts to rewrite a value that others change at the same time. Their writes have the present form.
const ATTEMPTS: usize = 3;

/// Part that rewrites values. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Rewriter {
    store: Arc<dyn Store>,
    encryption: Arc<Encryption>,
    registry: Option<Arc<Registry>>,
    metrics: RewriteMetrics,
    pause: Duration,
}

impl Rewriter {
    /// Creates it. Without a registry, the stored versions of objects stay.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        encryption: Arc<Encryption>,
        registry: Option<Arc<Registry>>,
        metrics: RewriteMetrics,
    ) -> Self {
        Self { store, encryption, registry, metrics, pause: PAUSE }
    }

    /// Rewrites without pauses, for a store that no server uses.
    pub(crate) fn at_full_speed(self) -> Self {
        Self { pause: Duration::ZERO, ..self }
    }

    /// Carries out the jobs of the store, until `end`.
    pub(crate) async fn run(self, end: CancellationToken) {
        let mut outage = Outage::default();
        loop {
            match end.run_until_cancelled(self.pass()).await {
                None => break,
                Some(Ok(())) => outage = Outage::default(),
                Some(Err(error)) if outage.should_log() => {
                    tracing::warn!("values cannot be rewritten: {error:#}; retrying");
                }
                Some(Err(_)) => {}
            }
            if end.run_until_cancelled(tokio::time::sleep(POLL)).await.is_none() {
                break;
            }
        }
        self.metrics.stop();
    }

    /// Carries out the job of the store, if there is one that has not ended.
    ///
    /// # Errors
    /// The store's.
    pub(crate) async fn pass(&self) -> anyhow::Result<()> {
        let Some(mut stored) = load(self.store.as_ref()).await? else { return Ok(()) };
        self.metrics.show(&stored.job);
        while stored.job.is_running() {
            let next = self.page(stored.job.clone()).await?;
            self.metrics.show(&next);
            match save(self.store.as_ref(), next, Some(&stored.entry)).await? {
                Some(saved) => stored = saved,
                // Another command has begun a new job.
                None => return Ok(()),
            }
        }
        Ok(())
    }

    /// Handles the next page of a job. Returns the job with its new position.
    async fn page(&self, mut job: Job) -> anyhow::Result<Job> {
        // The form may have changed since the last page.
        self.encryption.derive_keys(self.store.form().writes() >= Form::DERIVED_KEYS);
        let all = KeyRange::prefix(ROOT);
        let range = if job.after.is_empty() { all } else { all.after(job.after.as_bytes()) };
        let page = self.store.list(&range, &ListOptions { limit: PAGE, revision: None }).await?;
        for entry in &page.entries {
            self.entry(&mut job, entry.clone()).await?;
        }
        match page.entries.last() {
            Some(last) => last.key.as_str().clone_into(&mut job.after),
            None => job.ended = Some(Timestamp::now()),
        }
        if page.remaining == 0 {
            job.ended = Some(Timestamp::now());
        }
        Ok(job)
    }

    /// Rewrites one value if its form is not the present one.
    async fn entry(&self, job: &mut Job, mut entry: Entry) -> anyhow::Result<()> {
        let kind = kind(&self.encryption, &entry);
        job.counts(&kind).read += 1;
        for _ in 0..ATTEMPTS {
            let decision = value::decide(&self.encryption, self.registry.as_deref(), &kind, &entry);
            let bytes = match decision {
                Ok(Decision::Leave) => return Ok(()),
                Ok(Decision::Replace(bytes)) => bytes,
                // The whole page is read again later.
                Err(error) if error.is_temporary() => return Err(error.into()),
                Err(error) => {
                    job.fail(&kind, error.to_string());
                    return Ok(());
                }
            };
            match self.store.update(&entry.key, entry.modified, bytes).await {
                Ok(_) => {
                    job.counts(&kind).rewritten += 1;
                    tokio::time::sleep(self.pause).await;
                    return Ok(());
                }
                Err(StoreError::Conflict { .. }) => match self.store.get(&entry.key).await? {
                    Some(newer) => entry = newer,
                    None => return Ok(()),
                },
                Err(error @ StoreError::TooLarge { .. }) => {
                    job.fail(&kind, error.to_string());
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
        job.fail(&kind, format!("{}: others keep changing it", entry.key));
        Ok(())
    }
}
