//! The store on etcd: transactions and watches.
//!
//! Every write is one transaction that compares the key's mod revision. Every call has a deadline.
//! A write without an answer is `Unknown`, never repeated here. Watches reconnect and resume by
//! themselves.
//!
//! Progress: asked for every few seconds on servers whose answers are sound (3.4.31, 3.5.13 and
//! later); on older ones it comes only when etcd offers it by itself, about every ten minutes.

mod error;
mod version;
mod watch;

use std::future::Future;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use etcd_client::{
    Certificate, Client, Compare, CompareOp, ConnectOptions, GetOptions, Identity, KeyValue, TlsOptions, Txn,
    TxnOp, TxnOpResponse,
};
use storage_contract::{
    Entry, Key, KeyRange, ListOptions, Page, Revision, Store, StoreError, StoreResult, WatchStream,
};

/// Largest value: etcd's default request limit of 1.5 MiB, less room for the key and the guard.
pub const LARGEST_VALUE: usize = 1_500_000;

/// Largest answer: a page of 500 of the largest values would not fit the default of 4 MiB.
const LARGEST_ANSWER: usize = 1024 * 1024 * 1024;

/// How to reach an etcd.
#[derive(Debug, Clone)]
pub struct EtcdConfiguration {
    /// Client URLs of its members, e.g. `https://192.0.2.1:2379`.
    pub endpoints: Vec<String>,
    /// CA of its serving certificates, PEM. Default: none, for plain http.
    pub ca: Option<String>,
    /// Our certificate and key, PEM. Default: none.
    pub identity: Option<(String, String)>,
    /// Longest any call may take. Default: 10 s, as long as a leader election plus a slow disk.
    pub deadline: Duration,
    /// Longest a connection may take to stand. Default: 2 s.
    pub connect_timeout: Duration,
}

impl Default for EtcdConfiguration {
    fn default() -> Self {
        Self {
            endpoints: Vec::new(),
            ca: None,
            identity: None,
            deadline: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(2),
        }
    }
}

/// A store in etcd.
#[derive(Clone)]
pub struct EtcdStore {
    client: Client,
    deadline: Duration,
    sound_progress: bool,
}

impl std::fmt::Debug for EtcdStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EtcdStore").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

impl EtcdStore {
    /// Connects, and asks the server which version it is.
    ///
    /// # Errors
    /// `Unavailable` when no endpoint answers within the deadline, or refuses us.
    pub async fn connect(configuration: EtcdConfiguration) -> StoreResult<Self> {
        let EtcdConfiguration { endpoints, ca, identity, deadline, connect_timeout } = configuration;
        let mut options = ConnectOptions::new()
            .with_connect_timeout(connect_timeout)
            // A dead peer is noticed within 13 s even when nothing is asked.
            .with_keep_alive(Duration::from_secs(10), Duration::from_secs(3))
            .with_keep_alive_while_idle(true)
            .with_require_leader(true);
        if ca.is_some() || identity.is_some() {
            let mut tls = TlsOptions::new();
            if let Some(ca) = ca {
                tls = tls.ca_certificate(Certificate::from_pem(ca));
            }
            if let Some((certificate, key)) = identity {
                tls = tls.identity(Identity::from_pem(certificate, key));
            }
            options = options.with_tls(tls);
        }
        let opening = async {
            let mut client = Client::connect(&endpoints, Some(options)).await?;
            let status = client.status().await?;
            Ok::<_, etcd_client::Error>((client, status.version().to_owned()))
        };
        let (client, version) = match tokio::time::timeout(deadline, opening).await {
            Ok(result) => result.map_err(|error| error::read("connect", error))?,
            Err(elapsed) => {
                return Err(StoreError::Unavailable { operation: "connect", source: Box::new(elapsed) });
            }
        };
        let sound_progress = version::has_sound_progress(&version);
        tracing::info!(version, sound_progress, "connected to etcd");
        Ok(Self { client, deadline, sound_progress })
    }

    /// Whether watches report progress every few seconds; see the crate's documentation.
    pub fn reports_progress(&self) -> bool {
        self.sound_progress
    }

    fn kv(&self) -> etcd_client::KvClient {
        self.client.kv_client().max_decoding_message_size(LARGEST_ANSWER)
    }

    async fn reading<T>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, etcd_client::Error>> + Send,
    ) -> StoreResult<T> {
        match tokio::time::timeout(self.deadline, call).await {
            Ok(result) => result.map_err(|error| error::read(operation, error)),
            Err(elapsed) => Err(StoreError::Unavailable { operation, source: Box::new(elapsed) }),
        }
    }

    /// Carries out `change` if `key` is at `expected`; tells the revision it has otherwise.
    async fn guarded(
        &self,
        operation: &'static str,
        key: &Key,
        expected: Revision,
        change: TxnOp,
    ) -> StoreResult<Result<Revision, Revision>> {
        let guard = Compare::mod_revision(key.as_bytes(), CompareOp::Equal, number(expected));
        let look = TxnOp::get(key.as_bytes(), Some(GetOptions::new().with_keys_only()));
        let transaction = Txn::new().when([guard]).and_then([change]).or_else([look]);
        let mut kv = self.kv();
        let answer = match tokio::time::timeout(self.deadline, kv.txn(transaction)).await {
            Ok(result) => result.map_err(|error| error::write(operation, key, error))?,
            Err(elapsed) => {
                let source = Box::new(elapsed);
                return Err(StoreError::Unknown { operation, key: key.clone(), source });
            }
        };
        if answer.succeeded() {
            return Ok(Ok(revision(answer.header().map_or(0, etcd_client::ResponseHeader::revision))));
        }
        let found = answer.op_responses().into_iter().find_map(|response| match response {
            TxnOpResponse::Get(got) => got.kvs().first().map(KeyValue::mod_revision),
            TxnOpResponse::Put(_) | TxnOpResponse::Delete(_) | TxnOpResponse::Txn(_) => None,
        });
        Ok(Err(revision(found.unwrap_or_default())))
    }
}

#[async_trait]
impl Store for EtcdStore {
    async fn create(&self, key: &Key, value: Bytes) -> StoreResult<Revision> {
        let put = TxnOp::put(key.as_bytes(), fitting(key, &value)?, None);
        let done = self.guarded("create", key, Revision::NONE, put).await?;
        done.map_err(|found| StoreError::Exists { key: key.clone(), found })
    }

    async fn update(&self, key: &Key, expected: Revision, value: Bytes) -> StoreResult<Revision> {
        let put = TxnOp::put(key.as_bytes(), fitting(key, &value)?, None);
        let done = self.guarded("update", key, expected, put).await?;
        done.map_err(|found| StoreError::Conflict { key: key.clone(), expected, found })
    }

    async fn delete(&self, key: &Key, expected: Revision) -> StoreResult<Revision> {
        let delete = TxnOp::delete(key.as_bytes(), None);
        let done = self.guarded("delete", key, expected, delete).await?;
        done.map_err(|found| StoreError::Conflict { key: key.clone(), expected, found })
    }

    async fn get(&self, key: &Key) -> StoreResult<Option<Entry>> {
        let mut kv = self.kv();
        let mut answer = self.reading("get", kv.get(key.as_bytes(), None)).await?;
        answer.take_kvs().into_iter().next().map(entry).transpose()
    }

    async fn list(&self, range: &KeyRange, options: &ListOptions) -> StoreResult<Page> {
        let mut request = GetOptions::new().with_range(range.end.clone());
        if options.limit > 0 {
            request = request.with_limit(i64::try_from(options.limit).unwrap_or(i64::MAX));
        }
        if let Some(at) = options.revision {
            request = request.with_revision(number(at));
        }
        let mut kv = self.kv();
        let mut answer = match self.reading("list", kv.get(range.start.clone(), Some(request))).await {
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
        Ok(watch::stream(self.client.watch_client(), range.clone(), from, self.sound_progress))
    }

    async fn compact(&self, at: Revision) -> StoreResult<()> {
        let mut kv = self.kv();
        match self.reading("compact", kv.compact(number(at), None)).await {
            Err(StoreError::Compacted { .. }) => Ok(()),
            Err(StoreError::Future { .. }) => {
                let current = self.current_revision().await?;
                Err(StoreError::Future { requested: at, current })
            }
            other => other.map(|_| ()),
        }
    }

    async fn current_revision(&self) -> StoreResult<Revision> {
        // Any linearizable read tells it; one of a key that is never there is the cheapest.
        let mut kv = self.kv();
        let options = GetOptions::new().with_count_only();
        let answer = self.reading("current revision", kv.get("/", Some(options))).await?;
        Ok(revision(answer.header().map_or(0, etcd_client::ResponseHeader::revision)))
    }
}

fn fitting(key: &Key, value: &Bytes) -> StoreResult<Vec<u8>> {
    if value.len() > LARGEST_VALUE {
        return Err(StoreError::TooLarge { key: key.clone(), size: value.len(), limit: LARGEST_VALUE });
    }
    Ok(value.to_vec())
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
