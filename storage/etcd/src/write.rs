//! A write: the transaction that carries it out, and what the answer says.

use bytes::Bytes;
use etcd_client::proto::{PbTxnOpResponse, PbTxnResponse};
use etcd_client::{Compare, CompareOp, KeyValue, Txn, TxnOp};
use storage_contract::{Key, Revision, StoreError, StoreResult, Unchanged};

use crate::revision::{self, number};

/// A write of one key, guarded by what was read before.
#[derive(Debug)]
pub(crate) struct Write {
    /// Which call it is.
    pub(crate) operation: &'static str,
    pub(crate) key: Key,
    /// What the key is to have, compressed where that is shorter; none where it is to go.
    pub(crate) value: Option<Bytes>,
    /// What the key has to be at; none where it must not exist.
    pub(crate) expected: Option<Revision>,
    /// Another key that has to be as it was read.
    pub(crate) unchanged: Option<Unchanged>,
}

impl Write {
    /// Bytes of the value.
    pub(crate) fn size(&self) -> usize {
        self.value.as_ref().map_or(0, Bytes::len)
    }

    /// Bytes of its part of a transaction, or a little more: the value, each key as often as it is told, and what they are
    /// wrapped in.
    pub(crate) fn size_of_part(&self) -> usize {
        let another = self.unchanged.as_ref().map_or(0, |unchanged| 3 * unchanged.key.as_bytes().len());
        self.size() + 4 * self.key.as_bytes().len() + another + 200
    }

    /// That nobody knows what became of it.
    pub(crate) fn unknown(&self, why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> StoreError {
        StoreError::Unknown { operation: self.operation, key: self.key.clone(), source: why.into() }
    }

    /// The write as a transaction, of which so many others come after it.
    pub(crate) fn transaction(&self, others: u8) -> Txn {
        let mut guards = self.own_guards();
        guards.extend(self.unchanged.iter().flat_map(holds));
        // With their values: those say which of its transaction's revisions a key has.
        let another = self.unchanged.as_ref().map(|it| &it.key);
        let looks: Vec<TxnOp> =
            std::iter::once(&self.key).chain(another).map(|key| TxnOp::get(key.as_bytes(), None)).collect();
        Txn::new().when(guards).and_then([self.change(others)]).or_else(looks)
    }

    /// That its own key is as it is expected.
    pub(crate) fn own_guards(&self) -> Vec<Compare> {
        match self.expected {
            None => vec![Compare::mod_revision(self.key.as_bytes(), CompareOp::Equal, 0)],
            Some(expected) => exists_at(&self.key, expected),
        }
    }

    /// What it does with its key, when so many others come after it.
    pub(crate) fn change(&self, others: u8) -> TxnOp {
        match &self.value {
            Some(value) => TxnOp::put(self.key.as_bytes(), revision::marked(value, others), None),
            None => TxnOp::delete(self.key.as_bytes(), None),
        }
    }

    /// The revision of the write, if it is what is there.
    pub(crate) fn made(&self, found: &KeyValue) -> Option<Revision> {
        let modified = revision::modified(found);
        let is_ours =
            self.expected != Some(modified) && self.value.as_deref() == Some(revision::stored(found));
        is_ours.then_some(modified)
    }

    /// What became of the write, which has this revision if it was made.
    pub(crate) fn outcome(&self, answer: &PbTxnResponse, revision: Revision) -> StoreResult<Revision> {
        if answer.succeeded {
            return Ok(revision);
        }
        let mut found = answer.responses.iter().map(|part| match &part.response {
            Some(PbTxnOpResponse::ResponseRange(range)) => {
                range.kvs.first().map_or(Revision::NONE, |found| revision::modified(found.into()))
            }
            _ => Revision::NONE,
        });
        let mut next = || found.next().unwrap_or(Revision::NONE);
        let (found, other) = (next(), next());
        let key = self.key.clone();
        Err(match (self.expected, &self.unchanged) {
            (Some(expected), _) => StoreError::Conflict { key, expected, found },
            (None, Some(Unchanged { key, modified })) if found == Revision::NONE => {
                StoreError::Conflict { key: key.clone(), expected: *modified, found: other }
            }
            (None, _) => StoreError::Exists { key, found },
        })
    }
}

/// That a key which a write depends on is as it was read.
pub(crate) fn holds(unchanged: &Unchanged) -> Vec<Compare> {
    exists_at(&unchanged.key, unchanged.modified)
}

/// Holds when the key exists and is at `expected`, or at another revision of the same transaction: there is none, since a
/// transaction writes a key once, and nobody was told one. It must be asked whether it exists when `expected` is none, which
/// is also the mod revision of a key that does not; otherwise that would only have etcd read the value once more.
fn exists_at(key: &Key, expected: Revision) -> Vec<Compare> {
    let mut guards = vec![Compare::mod_revision(key.as_bytes(), CompareOp::Equal, number(expected))];
    if expected == Revision::NONE {
        guards.push(Compare::create_revision(key.as_bytes(), CompareOp::Greater, 0));
    }
    guards
}
