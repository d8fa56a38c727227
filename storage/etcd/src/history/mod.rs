//! History of the store: it notices that etcd's data were replaced by others, and begins a new incarnation.
//!
//! An answer of etcd to a linearizable call has its cluster id, and a revision that is at least the one of every answer
//! before the call. If not, an older copy of the data or another etcd is in its place, and nothing that this server has
//! read is valid. Then the store is *rewound*: all calls fail and all watches end, until the *record* names a new
//! incarnation with an offset. The offset puts all its revisions above those of the earlier incarnations.
//!
//! Every write and every read depends on the record, in the same call. So no server writes or serves in an incarnation
//! that another server has ended.

mod form;
mod incarnation;
mod marked_record;
mod older_servers;
mod record;
mod replacement;
mod settle;
mod verdict;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use apiserver_executor::spawn_detached;
use etcd_client::proto::{PbRangeResponse, PbResponseHeader, PbTxnOpResponse};
use etcd_client::{GetOptions, GetResponse, KvClient, Txn, TxnOp};
use storage_contract::{Outage, Revision, StoreError, StoreResult};
use tokio::sync::watch as signal;
use uuid::Uuid;

pub(crate) use self::form::Changed;
pub(crate) use self::incarnation::{Access, Began, Incarnation};
pub use self::replacement::Replacement;
use self::settle::settle;
use crate::calls::Calls;
use crate::error::NO_SPACE;
use crate::{EtcdConfiguration, ReplacementNote};

/// First pause before the record is read again, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// Newest state of a store that a server has seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Incarnation of the store.
    pub incarnation: Uuid,
    /// Cluster id of the etcd.
    pub cluster: u64,
    /// Largest revision.
    pub revision: Revision,
}

/// State of the history.
#[derive(Debug)]
struct State {
    incarnation: Arc<Incarnation>,
    /// The reason why the incarnation has ended, until the next one begins.
    rewound: Option<String>,
}

impl State {
    /// Returns the error of a call in an incarnation that has ended.
    fn ended(&self, incarnation: &Arc<Incarnation>) -> Option<StoreError> {
        let detail = match &self.rewound {
            Some(why) => why.clone(),
            // The stored form may have changed within the incarnation.
            None if self.incarnation.number == incarnation.number => return None,
            None => "a new incarnation of the store has begun".to_owned(),
        };
        Some(StoreError::Rewound { detail })
    }
}

/// History of the store.
#[derive(Debug)]
pub(crate) struct History {
    calls: Calls,
    /// Key of the record.
    key: Vec<u8>,
    state: signal::Sender<State>,
    /// Form of the store that this release cannot read; 0: there is none.
    unreadable: AtomicU64,
    /// Number of values of a form that no server on the record writes.
    strays: AtomicU64,
    /// Value that is written when the data were replaced.
    note: Option<ReplacementNote>,
}

impl History {
    /// Reads the record below the prefix, or begins an incarnation.
    pub(crate) async fn open(calls: Calls, configuration: &EtcdConfiguration) -> StoreResult<Arc<Self>> {
        let EtcdConfiguration { prefix, seen, accept_migrated, note, .. } = configuration;
        let key = record_key(prefix);
        if seen.is_none() {
            older_servers::refuse(&calls, &key, configuration.observation).await?;
        }
        let incarnation =
            settle(&calls, &key, seen.as_ref(), 0, *accept_migrated, None, note.as_ref()).await?;
        Ok(Self::of(calls, key, incarnation, note.clone()))
    }

    fn of(calls: Calls, key: Vec<u8>, incarnation: Incarnation, note: Option<ReplacementNote>) -> Arc<Self> {
        let incarnation = Arc::new(incarnation);
        let state = signal::Sender::new(State { incarnation, rewound: None });
        let (unreadable, strays) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Self { calls, key, state, unreadable, strays, note })
    }

    /// Returns the client for calls whose answers need no check.
    pub(crate) fn calls(&self) -> &Calls {
        &self.calls
    }

    /// Returns the number of the incarnation: it grows as soon as one ends.
    pub(crate) fn number(&self) -> u64 {
        let state = self.state.borrow();
        state.incarnation.number + u64::from(state.rewound.is_some())
    }

    /// Returns true from the end of an incarnation until the next one begins.
    pub(crate) fn is_rewound(&self) -> bool {
        self.state.borrow().rewound.is_some()
    }

    /// Returns the newest state that this server has seen.
    pub(crate) fn seen(&self) -> Seen {
        self.state.borrow().incarnation.seen()
    }

    /// Begins a call.
    pub(crate) fn begin(&self) -> StoreResult<Began> {
        let state = self.state.borrow();
        match state.ended(&state.incarnation) {
            Some(rewound) => Err(rewound),
            None => Ok(state.incarnation.begin()),
        }
    }

    /// Checks the answer to a linearizable call.
    ///
    /// # Errors
    /// `Rewound`.
    pub(crate) fn end(
        self: &Arc<Self>,
        began: &Began,
        header: Option<&PbResponseHeader>,
        access: Access,
    ) -> StoreResult<()> {
        if let Some(why) = header.and_then(|header| began.contradiction(header, access)) {
            return Err(self.rewind(&began.incarnation, why));
        }
        self.note(&began.incarnation, header)
    }

    /// Checks the message of a watch. The member that sent it may be behind the others.
    ///
    /// # Errors
    /// `Rewound`.
    pub(crate) fn watched(
        self: &Arc<Self>,
        incarnation: &Arc<Incarnation>,
        header: Option<&PbResponseHeader>,
    ) -> StoreResult<()> {
        if let Some(why) = header.and_then(|header| incarnation.foreign(header)) {
            return Err(self.rewind(incarnation, why));
        }
        self.note(incarnation, header)
    }

    fn note(&self, incarnation: &Arc<Incarnation>, header: Option<&PbResponseHeader>) -> StoreResult<()> {
        match self.state.borrow().ended(incarnation) {
            Some(rewound) => Err(rewound),
            None => {
                incarnation.note(header);
                Ok(())
            }
        }
    }

    /// Ends an incarnation, and returns the error of the call that noticed it.
    pub(crate) fn rewind(self: &Arc<Self>, incarnation: &Arc<Incarnation>, why: String) -> StoreError {
        let is_first = self.state.send_if_modified(|state| {
            let is_first = state.ended(incarnation).is_none();
            if is_first {
                state.rewound = Some(why.clone());
            }
            is_first
        });
        if is_first {
            tracing::error!(
                why,
                "the data of etcd were replaced by older or other data; nothing is served until they are read again"
            );
            spawn_detached("etcd history", Arc::clone(self).recover(Arc::clone(incarnation)));
        }
        StoreError::Rewound { detail: why }
    }

    /// Waits until an incarnation has ended, and returns the error of its watches.
    pub(crate) async fn ended(&self, incarnation: &Arc<Incarnation>) -> StoreError {
        let mut states = self.state.subscribe();
        let ended = states.wait_for(|state| state.ended(incarnation).is_some()).await;
        let error = ended.ok().and_then(|state| state.ended(incarnation));
        error.unwrap_or_else(|| StoreError::Unavailable {
            operation: "watch",
            source: "the store has ended".into(),
        })
    }

    /// Begins the next incarnation, as soon as etcd answers.
    async fn recover(self: Arc<Self>, ended: Arc<Incarnation>) {
        let (mut pause, mut outage) = (PAUSES.0, Outage::default());
        loop {
            let (seen, next, form) = (ended.seen(), ended.number + 1, Some(ended.form));
            let note = self.note.as_ref();
            match settle(&self.calls, &self.key, Some(&seen), next, false, form, note).await {
                Ok(next) => {
                    self.unreadable.store(0, Ordering::Release);
                    let state = State { incarnation: Arc::new(next), rewound: None };
                    self.state.send_replace(state);
                    return;
                }
                Err(StoreError::Form { found }) if self.unreadable.swap(found, Ordering::AcqRel) != found => {
                    tracing::error!(
                        found,
                        "the store has a form that this release cannot read; nothing is served"
                    );
                }
                Err(error) if outage.should_log() => {
                    tracing::error!(%error, "cannot begin a new incarnation of the store; retrying");
                }
                Err(_) => {}
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// Reads a range, or a key, if etcd has the record of the incarnation. Returns the answer with the incarnation.
    ///
    /// Old releases of etcd refuse every transaction when their space is used up, also one that only reads. Then the
    /// range is read without the record.
    pub(crate) async fn range(
        self: &Arc<Self>,
        operation: &'static str,
        key: &[u8],
        options: Option<GetOptions>,
    ) -> StoreResult<(GetResponse, Arc<Incarnation>)> {
        loop {
            match self.range_once(operation, key, options.clone()).await? {
                Ok(found) => return Ok(found),
                Err(incarnation) => match self.replaced(&incarnation).await {
                    Changed::Form => {}
                    Changed::Ended(error) => return Err(error),
                },
            }
        }
    }

    /// Reads a range. Returns the incarnation, if etcd does not have its record.
    async fn range_once(
        self: &Arc<Self>,
        operation: &'static str,
        key: &[u8],
        options: Option<GetOptions>,
    ) -> StoreResult<Result<(GetResponse, Arc<Incarnation>), Arc<Incarnation>>> {
        let began = self.begin()?;
        let guarded =
            Txn::new().when([began.incarnation.guard()]).and_then([TxnOp::get(key, options.clone())]);
        let read = |mut kv: KvClient| {
            let guarded = guarded.clone();
            async move { kv.txn(guarded).await }
        };
        let answer = match self.calls.reading(operation, read).await {
            Err(refused) if is_full(&refused) => {
                return self.unguarded(operation, key, options).await.map(Ok);
            }
            other => other?.0,
        };
        self.end(&began, answer.header.as_ref(), Access::Read)?;
        match answer.responses.into_iter().next().and_then(|part| part.response) {
            Some(PbTxnOpResponse::ResponseRange(range)) => {
                let range = PbRangeResponse { header: answer.header, ..range };
                Ok(Ok((GetResponse(range), began.incarnation)))
            }
            _ => Ok(Err(began.incarnation)),
        }
    }

    /// Reads a range, or a key, without the record.
    async fn unguarded(
        self: &Arc<Self>,
        operation: &'static str,
        key: &[u8],
        options: Option<GetOptions>,
    ) -> StoreResult<(GetResponse, Arc<Incarnation>)> {
        let began = self.begin()?;
        let get = |mut kv: KvClient| {
            let (key, options) = (key.to_vec(), options.clone());
            async move { kv.get(key, options).await }
        };
        let answer = self.calls.reading(operation, get).await?;
        self.end(&began, answer.0.header.as_ref(), Access::Read)?;
        Ok((answer, began.incarnation))
    }

    /// Reads the newest revision, with a key that a role for the prefix may read, and compares the record.
    pub(crate) async fn newest(self: &Arc<Self>) -> StoreResult<Revision> {
        loop {
            let (answer, incarnation) = self.unguarded("current revision", &self.key, None).await?;
            if incarnation.is_recorded(answer.kvs().first().map(etcd_client::KeyValue::value)) {
                return Ok(incarnation.revision_of(answer.0.header.as_ref()));
            }
            if let Changed::Ended(error) = self.replaced(&incarnation).await {
                return Err(error);
            }
        }
    }
}

/// Returns the key of the record below a prefix.
fn record_key(prefix: &str) -> Vec<u8> {
    format!("{prefix}{}", record::NAME).into_bytes()
}

/// Returns true if etcd refuses a transaction because its space is used up.
fn is_full(error: &StoreError) -> bool {
    matches!(error, StoreError::Unavailable { source, .. } if source.to_string().contains(NO_SPACE))
}
