//! Record of the rewrite of all values: what was done, and where it goes on.

use anyhow::Context;
use bytes::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use storage_contract::{Entry, Key, Store, StoreError};
use uuid::Uuid;

/// Key of the record in the store.
const RECORD: &str = "/capstan/meta/rewrite";

/// Errors that the record keeps. Each names a key.
const ERRORS: usize = 10;

/// Command that has begun a rewrite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Reason {
    /// `capstan encryption reencrypt`.
    Reencrypt,
    /// `capstan storage migrate`.
    Migrate,
    /// `capstan storage downgrade`.
    Downgrade,
}

impl Reason {
    /// Returns the command, for people.
    pub(crate) const fn command(self) -> &'static str {
        match self {
            Self::Reencrypt => "capstan encryption reencrypt",
            Self::Migrate => "capstan storage migrate",
            Self::Downgrade => "capstan storage downgrade",
        }
    }
}

/// Counts of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counts {
    /// Values that were read.
    pub(crate) read: u64,
    /// Values that were written anew.
    pub(crate) rewritten: u64,
    /// Values that cannot be read, or cannot be written anew.
    pub(crate) failed: u64,
}

/// Rewrite of all values, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Job {
    /// Identity of this rewrite.
    pub(crate) id: String,
    pub(crate) reason: Reason,
    pub(crate) begun: Timestamp,
    /// Last key that was handled. A later leader goes on behind it.
    #[serde(default)]
    pub(crate) after: String,
    /// Counts by kind, as the qualified plural.
    #[serde(default)]
    pub(crate) kinds: std::collections::BTreeMap<String, Counts>,
    /// The first errors. They name the key and never show a value.
    #[serde(default)]
    pub(crate) errors: Vec<String>,
    /// Time of the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ended: Option<Timestamp>,
}

impl Job {
    pub(crate) fn new(reason: Reason) -> Self {
        Self {
            id: Uuid::new_v4().to_string(),
            reason,
            begun: Timestamp::now(),
            after: String::new(),
            kinds: Default::default(),
            errors: Vec::new(),
            ended: None,
        }
    }

    /// Returns the sum over all kinds.
    pub(crate) fn total(&self) -> Counts {
        self.kinds.values().fold(Counts::default(), |sum, it| Counts {
            read: sum.read + it.read,
            rewritten: sum.rewritten + it.rewritten,
            failed: sum.failed + it.failed,
        })
    }

    pub(super) fn counts(&mut self, kind: &str) -> &mut Counts {
        self.kinds.entry(kind.to_owned()).or_default()
    }

    pub(super) fn fail(&mut self, kind: &str, error: String) {
        self.counts(kind).failed += 1;
        if self.errors.len() < ERRORS {
            self.errors.push(error);
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.ended.is_none()
    }
}

/// Job of the store, with the entry that it was read from.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub(crate) job: Job,
    pub(crate) entry: Entry,
}

/// Returns the newest job of a store.
///
/// # Errors
/// The store's; a record that is no job.
pub(crate) async fn load(store: &dyn Store) -> anyhow::Result<Option<Stored>> {
    let Some(entry) = store.get(&Key::new(RECORD)?).await? else { return Ok(None) };
    let job = serde_json::from_slice(&entry.value)
        .with_context(|| format!("{RECORD}: is no record of a rewrite that this release can read"))?;
    Ok(Some(Stored { job, entry }))
}

/// Writes a job in place of the `former` record. Returns `None` if another program was faster.
///
/// # Errors
/// The store's.
pub(crate) async fn save(
    store: &dyn Store,
    job: Job,
    former: Option<&Entry>,
) -> anyhow::Result<Option<Stored>> {
    let (key, value) = (Key::new(RECORD)?, Bytes::from(serde_json::to_vec(&job)?));
    let written = match former {
        None => store.create(&key, value.clone()).await,
        Some(entry) => store.update(&key, entry.modified, value.clone()).await,
    };
    match written {
        Ok(modified) => {
            let created = former.map_or(modified, |entry| entry.created);
            Ok(Some(Stored { job, entry: Entry { key, value, modified, created } }))
        }
        Err(StoreError::Exists { .. } | StoreError::Conflict { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
