//! Record of one replica.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use storage_contract::Key;

use super::PREFIX;
use crate::backup;

/// Record of a replica, as JSON at `/capstan/replicas/<id>`. Replicas of later releases may add fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Replica {
    /// Name of the machine and a random part. Unique.
    pub(crate) id: String,
    /// Version of the program.
    pub(crate) version: String,
    /// Stored forms that it reads.
    pub(crate) reads: Vec<u64>,
    /// Stored form that it writes.
    pub(crate) writes: u64,
    /// Fingerprints of the encryption keys that it has.
    pub(crate) keys: BTreeSet<String>,
    /// Address and port at which it listens.
    pub(crate) address: String,
    /// Start of the process.
    pub(crate) since: Timestamp,
    /// Last renewal, by the clock of its machine.
    pub(crate) renewed: Timestamp,
}

impl Replica {
    /// Creates the record of this process.
    pub(super) fn of_this_process(address: String) -> Self {
        let now = Timestamp::now();
        Self {
            id: crate::election::identity(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            reads: vec![backup::FORM],
            writes: backup::FORM,
            keys: BTreeSet::new(),
            address,
            since: now,
            renewed: now,
        }
    }

    /// Renews the record. The keys may have changed.
    pub(super) fn renew(&mut self, keys: BTreeSet<String>) {
        (self.keys, self.renewed) = (keys, Timestamp::now());
    }

    pub(super) fn key(&self) -> anyhow::Result<Key> {
        Ok(Key::new(format!("{PREFIX}{}", self.id))?)
    }

    /// Reads a record; `None` if it is one of a later release that this one cannot read.
    pub(super) fn read(value: &[u8]) -> Option<Self> {
        serde_json::from_slice(value).ok()
    }
}
