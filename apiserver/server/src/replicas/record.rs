//! Record of one replica.

use std::collections::BTreeSet;

use apiserver_machinery::encryption::Encryption;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use storage_contract::{Form, Key};

use super::PREFIX;

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
    /// Names of the keys with which it seals new values. Empty for one of an older release.
    #[serde(default)]
    pub(crate) seals: BTreeSet<String>,
    /// Address and port at which other machines reach it.
    pub(crate) address: String,
    /// Start of the process.
    pub(crate) since: Timestamp,
    /// Last renewal, by the clock of its machine.
    pub(crate) renewed: Timestamp,
}

impl Replica {
    /// Creates the record of this process.
    pub(crate) fn of_this_process(address: String) -> Self {
        let now = Timestamp::now();
        Self {
            id: crate::election::identity(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            reads: Form::READ.to_vec(),
            writes: Form::OLDEST,
            keys: BTreeSet::new(),
            seals: BTreeSet::new(),
            address,
            since: now,
            renewed: now,
        }
    }

    /// Renews the record. The keys and the written form may have changed.
    pub(super) fn renew(&mut self, encryption: &Encryption, form: Form) {
        (self.keys, self.seals) = (encryption.opening_keys(), encryption.sealing_keys());
        (self.writes, self.renewed) = (form.writes(), Timestamp::now());
    }

    pub(super) fn key(&self) -> anyhow::Result<Key> {
        Ok(Key::new(format!("{PREFIX}{}", self.id))?)
    }

    /// Reads a record; `None` if it is one of a later release that this one cannot read.
    pub(super) fn read(value: &[u8]) -> Option<Self> {
        serde_json::from_slice(value).ok()
    }
}
