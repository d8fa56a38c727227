//! Checkpoints of the audit log: signed links in the store, at `/capstan/audit/<replica>/<number of the line>`. They show
//! that lines at the end of a file are missing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use apiserver_http::{ChainLink, CheckpointSink};
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use storage_contract::{Entry, Key, KeyRange, ListOptions, Outage, Store, StoreError};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::key::AuditKey;
use crate::election;

/// Prefix of all checkpoints.
const PREFIX: &str = "/capstan/audit/";

/// Checkpoints that are kept for each replica: a week of one per minute. They cover 10 million lines of a busy server,
/// which are more than the default of rotated files has.
const KEPT: u64 = 10_000;

/// Checkpoints between two looks for old ones.
const PRUNE_INTERVAL: u64 = 100;

/// Values that are read at a time: more than are written between two looks for old ones.
const PAGE: usize = 500;

/// Pause before a checkpoint is stored again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Pause before the store is read again at the start.
const PAUSE: Duration = Duration::from_millis(50);

/// Longest wait for the store at the start and at the end. The port opens without it.
const PATIENCE: Duration = Duration::from_secs(2);

/// Checkpoint, as JSON in the store. Servers of later releases may add fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Checkpoint {
    /// Link of the line, `<number>.<code>`.
    pub(super) chain: String,
    /// Time at which the checkpoint was stored.
    pub(super) time: Timestamp,
    /// HMAC-SHA-256 over replica, link and time, in base64url.
    signature: String,
}

impl Checkpoint {
    fn sign(key: &AuditKey, replica: &str, link: ChainLink, time: Timestamp) -> Self {
        let chain = link.to_string();
        let tag = hmac::sign(key.checkpoints(), signed(replica, &chain, time).as_bytes());
        Self { signature: URL_SAFE_NO_PAD.encode(tag), chain, time }
    }

    /// Returns the link, if the signature is right.
    fn verify(&self, key: &AuditKey, replica: &str) -> Option<ChainLink> {
        let tag = URL_SAFE_NO_PAD.decode(&self.signature).ok()?;
        let text = signed(replica, &self.chain, self.time);
        hmac::verify(key.checkpoints(), text.as_bytes(), &tag).ok()?;
        ChainLink::parse(&self.chain)
    }
}

fn signed(replica: &str, chain: &str, time: Timestamp) -> String {
    format!("{replica}\n{chain}\n{time}")
}

/// Links that the store has, by the numbers of the lines.
#[derive(Debug, Clone, Default)]
pub(super) struct StoredLinks {
    /// Link and time of each checkpoint.
    pub(super) links: BTreeMap<u64, (ChainLink, Timestamp)>,
    /// Keys of values that are no checkpoints with a right signature.
    pub(super) forged: Vec<String>,
}

impl StoredLinks {
    /// Reads the checkpoints of a replica for the lines after the one with the number `after`.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(super) async fn read(
        &mut self,
        store: &dyn Store,
        key: &AuditKey,
        replica: &str,
        after: u64,
    ) -> anyhow::Result<()> {
        let mut range = KeyRange::prefix(&folder(replica)).after(key_of(replica, after)?.as_bytes());
        loop {
            let page = store.list(&range, &ListOptions { limit: PAGE, revision: None }).await?;
            for entry in &page.entries {
                self.add(entry, key, replica);
            }
            match page.entries.last().filter(|_| page.remaining > 0) {
                Some(last) => range = range.after(last.key.as_bytes()),
                None => return Ok(()),
            }
        }
    }

    fn add(&mut self, entry: &Entry, key: &AuditKey, replica: &str) {
        let found = serde_json::from_slice::<Checkpoint>(&entry.value).ok();
        let found = found.and_then(|found| Some((found.verify(key, replica)?, found.time)));
        // A right value at another key would hide that the one of that key is gone.
        let is_in_place = |link: &ChainLink| key_of(replica, link.number).is_ok_and(|key| key == entry.key);
        match found.filter(|(link, _)| is_in_place(link)) {
            Some((link, time)) => {
                self.links.insert(link.number, (link, time));
            }
            None => self.forged.push(entry.key.to_string()),
        }
    }

    /// Returns the link of the newest checkpoint.
    fn newest(&self) -> Option<ChainLink> {
        self.links.last_key_value().map(|(_, (link, _))| *link)
    }
}

/// Returns the replicas with checkpoints whose audit key has this fingerprint.
///
/// # Errors
/// The store cannot be read.
pub(super) async fn replicas(store: &dyn Store, key: &AuditKey) -> anyhow::Result<Vec<String>> {
    let (mut range, mut found) = (KeyRange::prefix(PREFIX), Vec::new());
    let ending = format!("_{}", key.fingerprint());
    loop {
        let page = store.list(&range, &ListOptions { limit: 1, revision: None }).await?;
        let Some(entry) = page.entries.first() else { return Ok(found) };
        let rest = entry.key.as_str().strip_prefix(PREFIX).unwrap_or_default();
        range.start = match rest.split_once('/') {
            Some((replica, _)) => {
                found.extend(replica.ends_with(&ending).then(|| replica.to_owned()));
                KeyRange::prefix(&folder(replica)).end
            }
            None => range.after(entry.key.as_bytes()).start,
        };
    }
}

fn folder(replica: &str) -> String {
    format!("{PREFIX}{replica}/")
}

/// Returns the key of a checkpoint. The keys of a replica sort by the numbers of the lines.
fn key_of(replica: &str, number: u64) -> anyhow::Result<Key> {
    Key::new(format!("{}{number:020}", folder(replica))).context("the name of the replica")
}

/// Newest link that waits for the store. A newer one replaces it: it covers the lines before it, too.
#[derive(Debug, Default)]
struct Newest(watch::Sender<Option<ChainLink>>);

impl CheckpointSink for Newest {
    fn offer(&self, link: ChainLink) {
        self.0.send_replace(Some(link));
    }
}

/// Keeper of the checkpoints of this replica. Clones share its state.
#[derive(Debug, Clone)]
pub(crate) struct Checkpoints {
    store: Arc<dyn Store>,
    key: Arc<AuditKey>,
    /// Name of the machine, and the fingerprint of the audit key.
    replica: Arc<str>,
    newest: Arc<Newest>,
    /// Number of the last line with a stored checkpoint.
    last: Arc<AtomicU64>,
    /// Number of checkpoints that this process has stored.
    count: Arc<AtomicU64>,
    /// Set once the store may be written.
    may_write: Arc<AtomicBool>,
}

impl Checkpoints {
    pub(super) fn new(store: Arc<dyn Store>, key: AuditKey) -> Self {
        let is_other = |c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '.';
        let host = election::host_name().replace(is_other, "-");
        Self {
            store,
            replica: format!("{host}_{}", key.fingerprint()).into(),
            key: Arc::new(key),
            newest: Arc::default(),
            last: Arc::default(),
            count: Arc::default(),
            may_write: Arc::default(),
        }
    }

    /// Returns the receiver of new checkpoints.
    pub(super) fn sink(&self) -> Arc<dyn CheckpointSink> {
        self.newest.clone()
    }

    /// Returns the newest checkpoint after a line, if the store answers in time.
    pub(super) async fn newest_after(&self, number: u64) -> Option<ChainLink> {
        let reading = async {
            loop {
                let mut stored = StoredLinks::default();
                match stored.read(self.store.as_ref(), &self.key, &self.replica, number).await {
                    Ok(()) => return stored,
                    Err(_) => tokio::time::sleep(PAUSE).await,
                }
            }
        };
        let Ok(stored) = tokio::time::timeout(PATIENCE, reading).await else {
            tracing::warn!(
                "the checkpoints of the audit log cannot be read yet; the chain goes on from its file"
            );
            return None;
        };
        for key in &stored.forged {
            tracing::error!(key, "a checkpoint of the audit log has a wrong signature");
        }
        stored.newest()
    }

    /// Stores the newest checkpoint after each offer, until `shutdown`. Nothing is stored before `begin`: an empty store gets
    /// its CAs first.
    pub(crate) async fn follow(self, begin: impl Future<Output = ()> + Send, shutdown: CancellationToken) {
        if shutdown.run_until_cancelled(begin).await.is_none() {
            return;
        }
        self.may_write.store(true, Ordering::Release);
        let (mut changes, mut outage) = (self.newest.0.subscribe(), Outage::default());
        changes.mark_changed();
        while let Some(Ok(())) = shutdown.run_until_cancelled(changes.changed()).await {
            while let Err(error) = self.store_newest().await {
                if outage.should_log() {
                    tracing::warn!("a checkpoint of the audit log cannot be stored: {error:#}; retrying");
                }
                if shutdown.run_until_cancelled(tokio::time::sleep(RETRY_INTERVAL)).await.is_none() {
                    return;
                }
            }
            outage = Outage::default();
        }
    }

    /// Stores the checkpoint of the last lines, at the end of the process.
    pub(crate) async fn finish(&self) {
        if !self.may_write.load(Ordering::Acquire) {
            return;
        }
        let stored = tokio::time::timeout(PATIENCE, self.store_newest()).await;
        if !matches!(stored, Ok(Ok(()))) {
            tracing::warn!("the last checkpoint of the audit log is not stored: the store does not answer");
        }
    }

    async fn store_newest(&self) -> anyhow::Result<()> {
        let newest = *self.newest.0.borrow();
        let Some(link) = newest.filter(|link| link.number != self.last.load(Ordering::Acquire)) else {
            return Ok(());
        };
        let key = key_of(&self.replica, link.number)?;
        let checkpoint = Checkpoint::sign(&self.key, &self.replica, link, Timestamp::now());
        let value = Bytes::from(serde_json::to_vec(&checkpoint).context("the checkpoint cannot be written")?);
        match self.store.create(&key, value).await {
            Ok(_) => {}
            // An earlier attempt may have had an unknown outcome.
            Err(StoreError::Exists { .. }) => self.compare(&key, &checkpoint.chain).await?,
            Err(error) => return Err(error.into()),
        }
        self.last.store(link.number, Ordering::Release);
        if self.count.fetch_add(1, Ordering::Relaxed).is_multiple_of(PRUNE_INTERVAL) {
            self.prune(KEPT).await?;
        }
        Ok(())
    }

    /// Compares a checkpoint with the one that the store has for the same line.
    async fn compare(&self, key: &Key, chain: &str) -> anyhow::Result<()> {
        let known = self.store.get(key).await?;
        let known = known.and_then(|entry| serde_json::from_slice::<Checkpoint>(&entry.value).ok());
        if known.is_none_or(|known| known.chain != chain) {
            tracing::error!(
                %key,
                "the store has another checkpoint of this line: lines of the audit log were lost or changed; run `capstan \
                 audit verify`"
            );
        }
        Ok(())
    }

    /// Removes the oldest checkpoints, and leaves the newest ones of this number.
    async fn prune(&self, kept: u64) -> anyhow::Result<()> {
        let range = KeyRange::prefix(&folder(&self.replica));
        let page = self.store.list(&range, &ListOptions { limit: PAGE, revision: None }).await?;
        let read = u64::try_from(page.entries.len()).unwrap_or(u64::MAX);
        let surplus = page.remaining.saturating_add(read).saturating_sub(kept);
        for entry in page.entries.iter().take(usize::try_from(surplus).unwrap_or(usize::MAX)) {
            match self.store.delete(&entry.key, entry.modified).await {
                Ok(_) | Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "checkpoints_tests.rs"]
mod tests;
