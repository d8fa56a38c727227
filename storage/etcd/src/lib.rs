//! The store on etcd: transactions and watches.
//!
//! Every write is one transaction that compares the key's mod revision. Every call has a deadline.
//! A call that finds no connection, and a read that is not answered, is tried again with the other
//! members for a moment. A write that may have left us is never repeated here: without an answer it
//! is `Unknown`. Watches reconnect and resume by themselves.
//!
//! Progress: asked for every few seconds, and at once when a reader waits, when all members are of a version whose answers are sound
//! (3.4.31, 3.5.13 and later). On older ones an answer may overtake events, so it is not asked for
//! and comes only when etcd offers it by itself, which is sound in all versions and happens every
//! ten minutes, or as often as its `--experimental-watch-progress-notify-interval` says.
//!
//! Compaction keeps one revision more than asked for, because etcd can tell the entry before a
//! change only from the revision before it. A watch that meets a change whose predecessor somebody
//! else compacted answers `Compacted`, not half a change.

mod channel;
mod configuration;
mod error;
mod last_frame;
mod version;
mod watch;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use etcd_client::{
    Client, Compare, CompareOp, GetOptions, GetResponse, KeyValue, KvClient, Txn, TxnOp, TxnOpResponse,
};
use storage_contract::{
    Entry, Key, KeyRange, ListOptions, Page, Revision, Store, StoreError, StoreResult, Unchanged, WatchStream,
};
use tokio::sync::watch as signal;

use crate::channel::InOneTask;

pub use configuration::EtcdConfiguration;

/// Largest value: etcd's default request limit of 1.5 MiB, less room for the key and the guard.
pub const LARGEST_VALUE: usize = 1_500_000;

/// Largest answer: a page of 500 of the largest values would not fit the default of 4 MiB.
const LARGEST_ANSWER: usize = 1024 * 1024 * 1024;

/// First pause before a call is tried again, and the longest: another member is there at once, and
/// a store without any must say so within a second.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(100));

/// Tries per member beyond the first: the client picks members at random, the dead as well.
const TRIES: u32 = 3;

/// A store in etcd.
#[derive(Clone)]
pub struct EtcdStore {
    client: Client,
    deadline: Duration,
    largest_value: usize,
    tries: u32,
    sound_progress: bool,
    /// Counts the times that progress was asked for out of turn.
    hastened: Arc<signal::Sender<u64>>,
}

impl std::fmt::Debug for EtcdStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EtcdStore").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

impl EtcdStore {
    /// Connects, and asks the members which version they are.
    ///
    /// # Errors
    /// `Unavailable` when no endpoint answers within the deadline, or refuses us.
    pub async fn connect(configuration: EtcdConfiguration) -> StoreResult<Self> {
        let opening = async {
            let versions = version::of_members(&configuration).await?;
            let (members, options) = (&configuration.endpoints, configuration.options());
            let client = Client::connect_with_balanced_channel(members, Some(options), InOneTask).await?;
            Ok::<_, etcd_client::Error>((client, versions))
        };
        let (client, versions) = match tokio::time::timeout(configuration.deadline, opening).await {
            Ok(result) => result.map_err(|error| error::read("connect", error))?,
            Err(elapsed) => {
                return Err(StoreError::Unavailable { operation: "connect", source: Box::new(elapsed) });
            }
        };
        let sound_progress = versions.iter().all(|version| version::has_sound_progress(version));
        tracing::info!(?versions, sound_progress, "connected to etcd");
        let members = u32::try_from(configuration.endpoints.len()).unwrap_or(u32::MAX);
        let EtcdConfiguration { deadline, largest_value, .. } = configuration;
        let tries = members.saturating_mul(TRIES);
        let hastened = Arc::new(signal::Sender::new(0));
        Ok(Self { client, deadline, largest_value, tries, sound_progress, hastened })
    }

    /// Makes a call, again if it failed in a way that `again` allows.
    async fn call<T, F>(
        &self,
        again: fn(&etcd_client::Error) -> bool,
        call: impl Fn(KvClient) -> F + Send + Sync,
    ) -> Result<T, etcd_client::Error>
    where
        F: Future<Output = Result<T, etcd_client::Error>> + Send,
    {
        let (mut pause, mut tries) = (PAUSES.0, self.tries);
        loop {
            let kv = self.client.kv_client().max_decoding_message_size(LARGEST_ANSWER);
            match call(kv).await {
                Err(error) if again(&error) && tries > 0 => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSES.1);
                    tries -= 1;
                }
                other => return other,
            }
        }
    }

    async fn reading<T, F>(
        &self,
        operation: &'static str,
        call: impl Fn(KvClient) -> F + Send + Sync,
    ) -> StoreResult<T>
    where
        F: Future<Output = Result<T, etcd_client::Error>> + Send,
    {
        match tokio::time::timeout(self.deadline, self.call(error::may_pass, call)).await {
            Ok(result) => result.map_err(|error| error::read(operation, error)),
            Err(elapsed) => Err(StoreError::Unavailable { operation, source: Box::new(elapsed) }),
        }
    }

    async fn range(
        &self,
        operation: &'static str,
        key: &[u8],
        options: Option<GetOptions>,
    ) -> StoreResult<GetResponse> {
        self.reading(operation, |mut kv| {
            let (key, options) = (key.to_vec(), options.clone());
            async move { kv.get(key, options).await }
        })
        .await
    }

    /// Carries out `change`, of `size` bytes, if `guards` hold; tells the revisions that the key and `another` have
    /// otherwise.
    async fn guarded(
        &self,
        operation: &'static str,
        key: &Key,
        size: usize,
        guards: Vec<Compare>,
        change: impl Fn() -> TxnOp + Send + Sync,
        another: Option<&Key>,
    ) -> StoreResult<Result<Revision, [Revision; 2]>> {
        let look = |key: &Key| TxnOp::get(key.as_bytes(), Some(GetOptions::new().with_keys_only()));
        let looks: Vec<TxnOp> = std::iter::once(key).chain(another).map(look).collect();
        // Put together for each try: the value is copied once where there is one.
        let sending = self.call(error::never_sent, |mut kv| {
            let guarded = Txn::new().when(guards.clone());
            let transaction = guarded.and_then([change()]).or_else(looks.clone());
            async move { kv.txn(transaction).await }
        });
        let answer = match tokio::time::timeout(self.deadline, sending).await {
            Ok(result) => result.map_err(|error| error::write(operation, key, size, error))?,
            Err(elapsed) => {
                let source = Box::new(elapsed);
                return Err(StoreError::Unknown { operation, key: key.clone(), source });
            }
        };
        if answer.succeeded() {
            return Ok(Ok(revision(answer.header().map_or(0, etcd_client::ResponseHeader::revision))));
        }
        let mut found = answer.op_responses().into_iter().map(|response| match response {
            TxnOpResponse::Get(got) => revision(got.kvs().first().map_or(0, KeyValue::mod_revision)),
            TxnOpResponse::Put(_) | TxnOpResponse::Delete(_) | TxnOpResponse::Txn(_) => Revision::NONE,
        });
        let mut next = || found.next().unwrap_or(Revision::NONE);
        Ok(Err([next(), next()]))
    }

    fn stream(&self, range: &KeyRange, with_previous: bool, from: Revision) -> WatchStream {
        let asking = self.sound_progress.then(|| self.hastened.subscribe());
        watch::stream(self.client.watch_client(), range.clone(), with_previous, from, asking)
    }

    fn check_size(&self, key: &Key, value: &Bytes) -> StoreResult<()> {
        let limit = self.largest_value;
        if value.len() > limit {
            return Err(StoreError::TooLarge { key: key.clone(), size: value.len(), limit });
        }
        Ok(())
    }
}

/// Holds when the key exists and is at `expected`. It must be asked whether it exists when `expected` is none, which
/// is also the mod revision of a key that does not; otherwise that would only have etcd read the value once more.
fn exists_at(key: &Key, expected: Revision) -> Vec<Compare> {
    let mut guards = vec![Compare::mod_revision(key.as_bytes(), CompareOp::Equal, number(expected))];
    if expected == Revision::NONE {
        guards.push(Compare::create_revision(key.as_bytes(), CompareOp::Greater, 0));
    }
    guards
}

#[async_trait]
impl Store for EtcdStore {
    async fn create_while(
        &self,
        key: &Key,
        value: Bytes,
        unchanged: Option<&Unchanged>,
    ) -> StoreResult<Revision> {
        let absent = Compare::mod_revision(key.as_bytes(), CompareOp::Equal, 0);
        let as_read = |it: &Unchanged| exists_at(&it.key, it.modified);
        let guards = unchanged.map(as_read).into_iter().flatten().chain([absent]).collect();
        self.check_size(key, &value)?;
        let put = || TxnOp::put(key.as_bytes(), value.as_ref(), None);
        let another = unchanged.map(|it| &it.key);
        let done = self.guarded("create", key, value.len(), guards, put, another).await?;
        done.map_err(|[found, other]| match unchanged {
            Some(Unchanged { key, modified: expected }) if found == Revision::NONE => {
                StoreError::Conflict { key: key.clone(), expected: *expected, found: other }
            }
            _ => StoreError::Exists { key: key.clone(), found },
        })
    }

    async fn update(&self, key: &Key, expected: Revision, value: Bytes) -> StoreResult<Revision> {
        self.check_size(key, &value)?;
        let put = || TxnOp::put(key.as_bytes(), value.as_ref(), None);
        let done = self.guarded("update", key, value.len(), exists_at(key, expected), put, None).await?;
        done.map_err(|[found, _]| StoreError::Conflict { key: key.clone(), expected, found })
    }

    async fn delete(&self, key: &Key, expected: Revision) -> StoreResult<Revision> {
        let delete = || TxnOp::delete(key.as_bytes(), None);
        let done = self.guarded("delete", key, 0, exists_at(key, expected), delete, None).await?;
        done.map_err(|[found, _]| StoreError::Conflict { key: key.clone(), expected, found })
    }

    async fn get(&self, key: &Key) -> StoreResult<Option<Entry>> {
        let mut answer = self.range("get", key.as_bytes(), None).await?;
        answer.take_kvs().into_iter().next().map(entry).transpose()
    }

    async fn list(&self, range: &KeyRange, options: &ListOptions) -> StoreResult<Page> {
        if range.start >= range.end {
            // etcd would take an empty end for "this key alone".
            let current = self.current_revision().await?;
            return Ok(Page {
                entries: Vec::new(),
                revision: options.revision.unwrap_or(current),
                remaining: 0,
            });
        }
        let mut request = GetOptions::new().with_range(range.end.clone());
        if options.limit > 0 {
            request = request.with_limit(i64::try_from(options.limit).unwrap_or(i64::MAX));
        }
        if let Some(at) = options.revision {
            // etcd reads 0 as "now"; ours is before the first write, as etcd's 1 is.
            request = request.with_revision(number(at).max(1));
        }
        let mut answer = match self.range("list", &range.start, Some(request)).await {
            Err(StoreError::Compacted { .. }) => {
                let requested = options.revision.unwrap_or_default();
                return Err(StoreError::Compacted { requested, oldest: Revision::NONE });
            }
            Err(StoreError::Future { .. }) => {
                let current = self.current_revision().await?;
                return Err(StoreError::Future { requested: options.revision.unwrap_or_default(), current });
            }
            other => other?,
        };
        let newest = revision(answer.header().map_or(0, etcd_client::ResponseHeader::revision));
        let total = answer.count();
        let entries = answer.take_kvs().into_iter().map(entry).collect::<StoreResult<Vec<_>>>()?;
        let taken = i64::try_from(entries.len()).unwrap_or(i64::MAX);
        let remaining = u64::try_from(total.saturating_sub(taken)).unwrap_or_default();
        Ok(Page { entries, revision: options.revision.unwrap_or(newest), remaining })
    }

    async fn watch(&self, range: &KeyRange, from: Revision) -> StoreResult<WatchStream> {
        Ok(self.stream(range, true, from))
    }

    async fn follow(&self, range: &KeyRange, from: Revision) -> StoreResult<WatchStream> {
        Ok(self.stream(range, false, from))
    }

    async fn compact(&self, at: Revision) -> StoreResult<()> {
        let current = self.current_revision().await?;
        if at > current {
            return Err(StoreError::Future { requested: at, current });
        }
        // One less: see the crate's documentation.
        let before = number(at) - 1;
        if before < 1 {
            return Ok(());
        }
        let done = self.reading("compact", |mut kv| async move { kv.compact(before, None).await });
        match done.await {
            Err(StoreError::Compacted { .. }) => Ok(()),
            other => other.map(|_| ()),
        }
    }

    async fn current_revision(&self) -> StoreResult<Revision> {
        // Any linearizable read tells it; one of a key that is never there is the cheapest.
        let options = GetOptions::new().with_count_only();
        let answer = self.range("current revision", b"/", Some(options)).await?;
        Ok(revision(answer.header().map_or(0, etcd_client::ResponseHeader::revision)))
    }

    fn reports_progress(&self) -> bool {
        self.sound_progress
    }

    fn hasten_progress(&self) {
        self.hastened.send_modify(|count| *count = count.wrapping_add(1));
    }
}

/// etcd counts with signed numbers that are never negative.
fn revision(number: i64) -> Revision {
    Revision::new(u64::try_from(number).unwrap_or_default())
}

fn number(revision: Revision) -> i64 {
    i64::try_from(revision.number()).unwrap_or(i64::MAX)
}

fn entry(found: KeyValue) -> StoreResult<Entry> {
    let (modified, created) = (revision(found.mod_revision()), revision(found.create_revision()));
    let (key, value) = found.into_key_value();
    Ok(Entry { key: self::key(&key)?, value: Bytes::from(value), modified, created })
}

fn key(bytes: &[u8]) -> StoreResult<Key> {
    let text = String::from_utf8(bytes.to_vec());
    let text = text.map_err(|error| StoreError::Corrupt { detail: format!("a key is not text: {error}") })?;
    Key::new(text).map_err(|error| StoreError::Corrupt { detail: error.to_string() })
}
