//! etcd store: transactions and watches.
//!
//! Every write is a transaction that compares the key's mod revision, or part of one with others that arrived at the
//! same time. Every call has a deadline. A call that finds no connection, and a read without an answer, is retried
//! with the other members for a moment. A write that may have left the client is never repeated here: without an
//! answer it is `Unknown`. Watches reconnect and resume by themselves.
//!
//! Progress is requested every few seconds, and at once when a reader waits, if all members have a version whose
//! progress reports are sound (3.4.31, 3.5.13 and later). On older ones a report may overtake events, so progress is
//! not requested. It arrives only when etcd sends it by itself, which is sound in all versions and happens every ten
//! minutes, or as often as its `--experimental-watch-progress-notify-interval` says.
//!
//! If etcd's data were replaced by an older copy, the store begins a new incarnation (`history`).
//!
//! Compaction keeps one revision more than requested, because etcd reads the entry before a change only from the
//! revision before it. If another client has compacted the predecessor of a change, a watch answers `Compacted`, not
//! half a change.

mod batch;
mod calls;
mod channel;
pub mod compression;
mod configuration;
mod connection;
mod eager_end_stream;
mod error;
mod history;
mod maintenance;
mod members;
mod queue;
mod revision;
mod transaction;
mod version;
mod watch;
mod write;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use etcd_client::{Client, GetOptions, KeyValue, KvClient, TlsOptions};
use storage_contract::{
    Entry, Form, Key, KeyRange, ListOptions, Page, Revision, Store, StoreError, StoreResult, Unchanged,
    WatchStream,
};
use tokio::sync::watch as signal;

use crate::batch::Batches;
use crate::compression::compress;
use crate::connection::Connection;
use crate::history::History;
use crate::revision::Numbering;
use crate::write::Write;

pub use configuration::{EtcdConfiguration, ReplacementNote};
pub use history::{Replacement, Seen};
pub use maintenance::{Limits, Maintenance, MemberSpace};
pub use members::{Member, MemberStatus, Members, member_status};

/// Largest value: etcd's default request limit of 1.5 MiB, less room for the key and the guard.
pub const LARGEST_VALUE: usize = 1_500_000;

/// Store in etcd.
#[derive(Clone)]
pub struct EtcdStore {
    client: Client,
    /// TLS of new connections.
    tls: Arc<signal::Sender<Option<TlsOptions>>>,
    history: Arc<History>,
    batches: Arc<Batches>,
    /// Limit before compression: otherwise patches could create a repetitive object that fills the memory of every
    /// reader.
    largest_value: usize,
    sound_progress: bool,
    /// Number of extra progress requests.
    hastened: Arc<signal::Sender<u64>>,
}

impl std::fmt::Debug for EtcdStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EtcdStore").field("deadline", &self.history.calls().deadline).finish_non_exhaustive()
    }
}

impl EtcdStore {
    /// Connects, and queries the members' versions.
    ///
    /// # Errors
    /// `Unavailable` when no endpoint answers within the deadline, or all refuse the client; `Corrupt` when the store
    /// is of a newer release; `Refused` while its data are being replaced, or if they were migrated to another store.
    pub async fn connect(configuration: EtcdConfiguration) -> StoreResult<Self> {
        let connection = Connection::open(&configuration).await?;
        let history = Box::pin(History::open(connection.calls.clone(), &configuration)).await?;
        Ok(Self::on(connection, history, &configuration))
    }

    /// Begins to replace the data of an etcd, or continues an interrupted replacement by the same new data. From then on
    /// no server serves them. The store is for the writes of the replacement only.
    ///
    /// # Errors
    /// `Refused`, if there are data that the replacement does not put aside, or another replacement has not ended; the
    /// errors of [`EtcdStore::connect`].
    pub async fn replace(
        configuration: EtcdConfiguration,
        replacement: &mut Replacement,
    ) -> StoreResult<Self> {
        let connection = Connection::open(&configuration).await?;
        let (calls, prefix) = (connection.calls.clone(), &configuration.prefix);
        let history = Box::pin(History::replace(calls, prefix, replacement)).await?;
        Ok(Self::on(connection, history, &configuration))
    }

    /// Ends the present part of a replacement: first the move of the old data, then the writes of the new ones. The next
    /// part needs another call of [`EtcdStore::replace`]. After the second one, servers serve the new data.
    ///
    /// # Errors
    /// `Refused`, if another program has changed the record; `Unavailable`.
    pub async fn advance_replacement(&self) -> StoreResult<()> {
        self.history.advance().await
    }

    /// Begins to migrate the data to another store, or continues that. No server serves or changes them from then on.
    ///
    /// # Errors
    /// `Refused`, if they were migrated to another one, or are being replaced; the errors of [`EtcdStore::connect`].
    pub async fn migrate(configuration: EtcdConfiguration, to: &str) -> StoreResult<Self> {
        let connection = Connection::open(&configuration).await?;
        let history = Box::pin(History::migrate(connection.calls.clone(), &configuration.prefix, to)).await?;
        Ok(Self::on(connection, history, &configuration))
    }

    /// Ends a migration that failed: servers serve the data again.
    ///
    /// # Errors
    /// `Refused`, if another program has changed the record; `Unavailable`.
    pub async fn cancel_migration(&self) -> StoreResult<()> {
        self.history.cancel_migration().await
    }

    fn on(connection: Connection, history: Arc<History>, configuration: &EtcdConfiguration) -> Self {
        let Connection { client, tls, sound_progress, .. } = connection;
        let largest_value = configuration.largest_value;
        let batches = Arc::new(Batches::new(Arc::clone(&history), largest_value));
        let hastened = Arc::new(signal::Sender::new(0));
        Self { client, tls, history, batches, largest_value, sound_progress, hastened }
    }

    /// Uses the certificates and the user of this configuration from now on. New connections replace the present ones,
    /// which end with their calls.
    ///
    /// # Errors
    /// `Unavailable`, if the certificates cannot be used: then the former ones stay in force. Also if etcd refuses the user,
    /// or no member answers: then the former user stays in force.
    pub async fn renew(&self, configuration: &EtcdConfiguration) -> StoreResult<()> {
        let refused = |error| error::read("renew", error);
        if let Some(tls) = configuration.tls() {
            let check = tonic::transport::Endpoint::from_static("https://localhost").tls_config(tls.clone());
            check.map_err(|error| refused(etcd_client::Error::TransportError(error)))?;
            self.tls.send_replace(Some(tls));
        }
        let mut client = self.client.clone();
        match tokio::time::timeout(configuration.deadline, client.update_user(configuration.user.clone()))
            .await
        {
            Ok(result) => result.map_err(refused),
            Err(elapsed) => Err(StoreError::Unavailable { operation: "renew", source: Box::new(elapsed) }),
        }
    }

    /// Returns the newest state of the store that this server has seen. A later run needs it, to notice that the history
    /// went back between the two.
    pub fn seen(&self) -> Seen {
        self.history.seen()
    }

    /// Reads a part of a range, with all writes of the transaction at the requested revision.
    async fn page(&self, start: &[u8], end: &[u8], options: &ListOptions) -> StoreResult<(Page, Numbering)> {
        let mut request = GetOptions::new().with_range(end);
        if options.limit > 0 {
            request = request.with_limit(i64::try_from(options.limit).unwrap_or(i64::MAX));
        }
        let began = self.history.begin()?.incarnation;
        if let Some(at) = options.revision {
            began.numbering.check(at)?;
            // etcd reads 0 as "now"; revision 0 of the store precedes the first write, as etcd's 1 does.
            request = request.with_revision(began.numbering.number(at).max(1));
        }
        let (mut answer, incarnation) = self.history.range("list", start, Some(request)).await?;
        let numbering = incarnation.numbering;
        if let Some(at) = options.revision {
            numbering.check(at)?;
        }
        let newest = numbering.revision(answer.header().map_or(0, etcd_client::ResponseHeader::revision));
        let total = answer.count();
        let entries = answer.take_kvs().into_iter().map(|found| entry(found, numbering));
        let entries = entries.collect::<StoreResult<Vec<_>>>()?;
        let taken = i64::try_from(entries.len()).unwrap_or(i64::MAX);
        let remaining = u64::try_from(total.saturating_sub(taken)).unwrap_or_default();
        Ok((Page { entries, revision: options.revision.unwrap_or(newest), remaining }, numbering))
    }

    /// Reads a part of a range, without the writes after the requested revision, and the start of the next part,
    /// which may lie past entries that are left out here. `remaining` counts keys that were created later in the same
    /// transaction.
    async fn page_then(
        &self,
        start: &[u8],
        end: &[u8],
        options: &ListOptions,
    ) -> StoreResult<(Page, Option<Vec<u8>>)> {
        let (page, numbering) = self.page(start, end, options).await?;
        let behind = page.entries.last().map(|entry| [entry.key.as_bytes(), &[0]].concat());
        let Some(at) = options.revision else { return Ok((page, behind)) };
        let entries = self.without_later(page.entries, at, numbering).await?;
        Ok((Page { entries, ..page }, behind))
    }

    /// Replaces the later writes of the transaction of `at` by the entries before them.
    async fn without_later(
        &self,
        entries: Vec<Entry>,
        at: Revision,
        numbering: Numbering,
    ) -> StoreResult<Vec<Entry>> {
        let mut then = Vec::with_capacity(entries.len());
        for entry in entries {
            if entry.modified <= at {
                then.push(entry);
                continue;
            }
            let before = GetOptions::new().with_revision((numbering.number(at) - 1).max(1));
            let range = self.history.range("list", entry.key.as_bytes(), Some(before));
            let (mut answer, incarnation) = range.await?;
            incarnation.numbering.check(at)?;
            let found = answer.take_kvs().into_iter().next();
            then.extend(found.map(|found| self::entry(found, numbering)).transpose()?);
        }
        Ok(then)
    }

    fn stream(&self, range: &KeyRange, with_previous: bool, from: Revision) -> StoreResult<WatchStream> {
        let hastened = self.sound_progress.then(|| self.hastened.subscribe());
        let history = Arc::clone(&self.history);
        watch::stream(self.client.watch_client(), history, range.clone(), with_previous, from, hastened)
    }

    fn check_size(&self, key: &Key, value: &Bytes) -> StoreResult<()> {
        let limit = self.largest_value;
        if value.len() > limit {
            return Err(StoreError::TooLarge { key: key.clone(), size: value.len(), limit });
        }
        Ok(())
    }
}

#[async_trait]
impl Store for EtcdStore {
    async fn create_while(
        &self,
        key: &Key,
        value: Bytes,
        unchanged: Option<&Unchanged>,
    ) -> StoreResult<Revision> {
        self.check_size(key, &value)?;
        let (key, unchanged) = (key.clone(), unchanged.cloned());
        let value = Some(compress(value));
        let write = Write { operation: "create", key, value, expected: None, unchanged };
        self.batches.write(write).await
    }

    async fn update(&self, key: &Key, expected: Revision, value: Bytes) -> StoreResult<Revision> {
        self.check_size(key, &value)?;
        let (expected, value) = (Some(expected), Some(compress(value)));
        self.batches
            .write(Write { operation: "update", key: key.clone(), value, expected, unchanged: None })
            .await
    }

    async fn delete(&self, key: &Key, expected: Revision) -> StoreResult<Revision> {
        let expected = Some(expected);
        let write = Write { operation: "delete", key: key.clone(), value: None, expected, unchanged: None };
        self.batches.write(write).await
    }

    async fn get(&self, key: &Key) -> StoreResult<Option<Entry>> {
        let (mut answer, incarnation) = self.history.range("get", key.as_bytes(), None).await?;
        let found = answer.take_kvs().into_iter().next();
        found.map(|found| entry(found, incarnation.numbering)).transpose()
    }

    async fn list(&self, range: &KeyRange, options: &ListOptions) -> StoreResult<Page> {
        if range.start >= range.end {
            // etcd would read an empty end as "this key alone".
            let current = self.current_revision().await?;
            return Ok(Page {
                entries: Vec::new(),
                revision: options.revision.unwrap_or(current),
                remaining: 0,
            });
        }
        let mut start = range.start.clone();
        loop {
            let (page, behind) = match self.page_then(&start, &range.end, options).await {
                Err(StoreError::Compacted { .. }) => {
                    let requested = options.revision.unwrap_or_default();
                    return Err(StoreError::Compacted { requested, oldest: Revision::NONE });
                }
                Err(StoreError::Future { .. }) => {
                    let current = self.current_revision().await?;
                    let requested = options.revision.unwrap_or_default();
                    return Err(StoreError::Future { requested, current });
                }
                other => other?,
            };
            match behind {
                // The caller continues after the last entry, so a page has one.
                Some(behind) if page.entries.is_empty() && page.remaining > 0 => start = behind,
                _ => return Ok(page),
            }
        }
    }

    async fn watch(&self, range: &KeyRange, from: Revision) -> StoreResult<WatchStream> {
        self.stream(range, true, from)
    }

    async fn follow(&self, range: &KeyRange, from: Revision) -> StoreResult<WatchStream> {
        self.stream(range, false, from)
    }

    async fn compact(&self, at: Revision) -> StoreResult<()> {
        let current = self.current_revision().await?;
        if at > current {
            return Err(StoreError::Future { requested: at, current });
        }
        // One less: see the crate's documentation.
        let before = self.history.begin()?.incarnation.numbering.number(at) - 1;
        if before < 1 {
            return Ok(());
        }
        let compact = |mut kv: KvClient| async move { kv.compact(before, None).await };
        match self.history.calls().reading("compact", compact).await {
            Err(StoreError::Compacted { .. }) => Ok(()),
            other => other.map(|_| ()),
        }
    }

    async fn current_revision(&self) -> StoreResult<Revision> {
        self.history.newest().await
    }

    fn form(&self) -> Form {
        self.history.form()
    }

    fn unreadable_form(&self) -> Option<u64> {
        self.history.unreadable()
    }

    fn stray_writes(&self) -> u64 {
        self.history.strays()
    }

    async fn change_form(&self, expected: Form, new: Form) -> StoreResult<()> {
        self.history.change_form(expected, new).await
    }

    fn history(&self) -> u64 {
        self.history.number()
    }

    fn is_rewound(&self) -> bool {
        self.history.is_rewound()
    }

    fn reports_progress(&self) -> bool {
        self.sound_progress
    }

    fn hasten_progress(&self) {
        self.hastened.send_modify(|count| *count = count.wrapping_add(1));
    }
}

fn entry(found: KeyValue, numbering: Numbering) -> StoreResult<Entry> {
    let (modified, created) = (numbering.modified(&found), numbering.created(&found));
    let (key, value) = revision::into_key_value(found);
    Ok(Entry { key: self::key(&key)?, value, modified, created })
}

fn key(bytes: &[u8]) -> StoreResult<Key> {
    let text = String::from_utf8(bytes.to_vec());
    let text = text.map_err(|error| StoreError::Corrupt { detail: format!("a key is not text: {error}") })?;
    Key::new(text).map_err(|error| StoreError::Corrupt { detail: error.to_string() })
}
