//! Write of one key: its transaction, and the result.

use bytes::Bytes;
use etcd_client::proto::{PbTxnOpResponse, PbTxnResponse};
use etcd_client::{Compare, CompareOp, KeyValue, Txn, TxnOp};
use storage_contract::{Form, Key, Revision, StoreError, StoreResult, Unchanged};

use crate::history::Incarnation;
use crate::revision::{self, Numbering};

/// Write of one key, with its guards.
#[derive(Debug)]
pub(crate) struct Write {
    /// Name of the call.
    pub(crate) operation: &'static str,
    pub(crate) key: Key,
    /// The new value, compressed where that is shorter; `None` for a deletion.
    pub(crate) value: Option<Bytes>,
    /// The expected revision of the key; `None` where it must not exist.
    pub(crate) expected: Option<Revision>,
    /// Another key that must be unchanged since it was read.
    pub(crate) unchanged: Option<Unchanged>,
}

impl Write {
    /// Returns the bytes of the value.
    pub(crate) fn size(&self) -> usize {
        self.value.as_ref().map_or(0, Bytes::len)
    }

    /// Returns an upper bound of the bytes of its part of a transaction: the value, each key as often as it occurs,
    /// and the encoding around them.
    pub(crate) fn size_of_part(&self) -> usize {
        let another = self.unchanged.as_ref().map_or(0, |unchanged| 3 * unchanged.key.as_bytes().len());
        self.size() + 4 * self.key.as_bytes().len() + another + 200
    }

    /// Checks that a store of this form may have the value. The form may have changed since the value was sealed.
    ///
    /// # Errors
    /// `Unavailable`.
    pub(crate) fn check_form(&self, form: Form) -> StoreResult<()> {
        let needed = self.value.as_deref().map_or(Form::OLDEST, Form::needed);
        if needed <= form.writes() {
            return Ok(());
        }
        let source = "the stored form has just changed, and the value has a newer one; try again".into();
        Err(StoreError::Unavailable { operation: self.operation, source })
    }

    /// Returns the error of an unknown outcome.
    pub(crate) fn unknown(&self, why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> StoreError {
        StoreError::Unknown { operation: self.operation, key: self.key.clone(), source: why.into() }
    }

    /// Creates the transaction of a write that is sent by itself. It depends on the record of the incarnation.
    pub(crate) fn transaction(&self, incarnation: &Incarnation) -> Txn {
        let (mut guards, mut looks) = self.guards_and_looks(incarnation.numbering);
        guards.push(incarnation.guard());
        looks.push(incarnation.look());
        Txn::new().when(guards).and_then([self.change(0)]).or_else(looks)
    }

    /// Creates the transaction of the write within another one, in which so many others follow.
    pub(crate) fn part(&self, others: u8, numbering: Numbering) -> Txn {
        let (guards, looks) = self.guards_and_looks(numbering);
        Txn::new().when(guards).and_then([self.change(others)]).or_else(looks)
    }

    /// Creates the guards of the write, and the reads that show which of them failed.
    fn guards_and_looks(&self, numbering: Numbering) -> (Vec<Compare>, Vec<TxnOp>) {
        let mut guards = self.own_guards(numbering);
        guards.extend(self.unchanged.iter().flat_map(|unchanged| holds(unchanged, numbering)));
        // With their values: their markers show which of its transaction's revisions a key has.
        let another = self.unchanged.as_ref().map(|it| &it.key);
        let looks = std::iter::once(&self.key).chain(another).map(|key| TxnOp::get(key.as_bytes(), None));
        (guards, looks.collect())
    }

    /// Creates the guards of its own key.
    pub(crate) fn own_guards(&self, numbering: Numbering) -> Vec<Compare> {
        match self.expected {
            None => vec![Compare::mod_revision(self.key.as_bytes(), CompareOp::Equal, 0)],
            Some(expected) => exists_at(&self.key, expected, numbering),
        }
    }

    /// Creates the operation on its key, which so many others follow.
    pub(crate) fn change(&self, others: u8) -> TxnOp {
        match &self.value {
            Some(value) => TxnOp::put(self.key.as_bytes(), revision::marked(value, others), None),
            None => TxnOp::delete(self.key.as_bytes(), None),
        }
    }

    /// Returns the revision of the write, if the entry is its result.
    pub(crate) fn made(&self, found: &KeyValue, numbering: Numbering) -> Option<Revision> {
        let modified = numbering.modified(found);
        let is_ours =
            self.expected != Some(modified) && self.value.as_deref() == Some(revision::stored(found));
        is_ours.then_some(modified)
    }

    /// Returns the result of the write, which has this revision if it was made.
    pub(crate) fn outcome(
        &self,
        answer: &PbTxnResponse,
        revision: Revision,
        numbering: Numbering,
    ) -> StoreResult<Revision> {
        if answer.succeeded {
            return Ok(revision);
        }
        let mut found = answer.responses.iter().map(|part| match &part.response {
            Some(PbTxnOpResponse::ResponseRange(range)) => {
                range.kvs.first().map_or(Revision::NONE, |found| numbering.modified(found.into()))
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

/// Creates the guards of a key that a write depends on.
pub(crate) fn holds(unchanged: &Unchanged, numbering: Numbering) -> Vec<Compare> {
    exists_at(&unchanged.key, unchanged.modified, numbering)
}

/// Creates guards that hold when the key exists and is at `expected`, or at another revision of the same transaction:
/// there is none, since a transaction writes a key once, and no client has received one. When `expected` is none,
/// which is also the mod revision of a missing key, or of an earlier incarnation, a guard must check that the key
/// exists; otherwise that guard would only make etcd read the value once more.
fn exists_at(key: &Key, expected: Revision, numbering: Numbering) -> Vec<Compare> {
    let number = numbering.number(expected);
    let mut guards = vec![Compare::mod_revision(key.as_bytes(), CompareOp::Equal, number)];
    if number == 0 {
        guards.push(Compare::create_revision(key.as_bytes(), CompareOp::Greater, 0));
    }
    guards
}
