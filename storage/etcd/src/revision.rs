//! Mapping between the store's revisions and etcd's.
//!
//! A revision of the store is etcd's times a hundred, plus the offset of the incarnation ([`Numbering`]).
//!
//! etcd gives every write of a transaction the same revision; the store's revisions are unique per write. So each
//! etcd revision has a hundred store revisions: its number times 100 belongs to the last write of a transaction, and
//! the writes before it have the numbers before. A transaction of one write has the number of the last.
//!
//! etcd does not report the position of a write in its transaction, so it is stored with the value: a marker and two
//! digits at its end count the writes that follow. The last write of a transaction, which is usually its only one,
//! has none.

use std::borrow::Cow;

use bytes::Bytes;
use etcd_client::KeyValue;
use storage_contract::{Revision, StoreError, StoreResult};

use crate::compression;

/// Store revisions per etcd revision, and the most writes in a transaction. etcd accepts transactions of 128 parts
/// unless `--max-txn-ops` says otherwise, and counts the parts within parts; a hundred reads well.
pub(crate) const EACH: u8 = 100;

/// Marker before the digits. No JSON ends like this; any other value that does gets a marker of its own.
const MARKER: &[u8] = b"\n//then:";

/// Bytes of the marker with its digits.
const LENGTH: usize = MARKER.len() + 2;

/// Numbering of one incarnation of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Numbering {
    /// Revision before the first one of the incarnation. All revisions of earlier incarnations are at most this.
    pub(crate) offset: u64,
}

impl Numbering {
    /// Returns the revision of the last write of the transaction with this etcd revision.
    pub(crate) fn revision(self, number: i64) -> Revision {
        self.before(number, 0)
    }

    /// Returns the revision of a write that so many others follow.
    pub(crate) fn before(self, number: i64, others: u8) -> Revision {
        let last = u64::try_from(number).unwrap_or_default().saturating_mul(u64::from(EACH));
        Revision::new(last.saturating_sub(u64::from(others)).saturating_add(self.offset))
    }

    /// Returns the etcd revision of the transaction that a revision belongs to, and 0 for one of an earlier incarnation.
    pub(crate) fn number(self, revision: Revision) -> i64 {
        let own = revision.number().saturating_sub(self.offset);
        i64::try_from(own.div_ceil(u64::from(EACH))).unwrap_or(i64::MAX)
    }

    /// Checks that a revision does not belong to an earlier incarnation, whose history is gone.
    ///
    /// # Errors
    /// `Compacted`.
    pub(crate) fn check(self, requested: Revision) -> StoreResult<()> {
        if self.offset > 0 && requested.number() <= self.offset {
            return Err(StoreError::Compacted { requested, oldest: Revision::new(self.offset).next() });
        }
        Ok(())
    }

    /// Returns the revision of the last write to a key.
    pub(crate) fn modified(self, found: &KeyValue) -> Revision {
        self.before(found.mod_revision(), written(found).1)
    }

    /// Returns the revision of a key's creation, since it was last absent. If the key was written again, only the
    /// transaction is known: then it is the transaction's last revision, in which nothing else happened to the key.
    pub(crate) fn created(self, found: &KeyValue) -> Revision {
        if found.create_revision() == found.mod_revision() {
            self.modified(found)
        } else {
            self.revision(found.create_revision())
        }
    }
}

/// Returns the stored form of a value when so many writes of its transaction follow.
pub(crate) fn marked(value: &[u8], others: u8) -> Vec<u8> {
    let needed = others > 0 || marker(value).is_some();
    let mut stored_form = Vec::with_capacity(value.len() + if needed { LENGTH } else { 0 });
    stored_form.extend_from_slice(value);
    if needed {
        stored_form.extend_from_slice(MARKER);
        stored_form.extend([b'0' + others / 10 % 10, b'0' + others % 10]);
    }
    stored_form
}

/// Returns the length of the value in its stored form, and the number of writes that followed it.
fn marker(stored_form: &[u8]) -> Option<(usize, u8)> {
    let (value, marker) = stored_form.split_at_checked(stored_form.len().checked_sub(LENGTH)?)?;
    match marker.strip_prefix(MARKER)? {
        [tens @ b'0'..=b'9', ones @ b'0'..=b'9'] => Some((value.len(), (tens - b'0') * 10 + (ones - b'0'))),
        _ => None,
    }
}

/// Returns the length of an entry's value, and the number of writes that followed it in its transaction.
fn written(found: &KeyValue) -> (usize, u8) {
    let stored_form = found.value();
    marker(stored_form).unwrap_or((stored_form.len(), 0))
}

/// Returns the stored bytes without their marker.
pub(crate) fn stored(found: &KeyValue) -> &[u8] {
    &found.value()[..written(found).0]
}

/// Returns the value.
pub(crate) fn value(found: &KeyValue) -> Bytes {
    let stored = stored(found);
    expanded(found.key(), stored).map_or_else(|| Bytes::copy_from_slice(stored), Bytes::from)
}

/// Returns the key and the value of an entry that is not needed otherwise, without a copy.
pub(crate) fn into_key_value(found: KeyValue) -> (Vec<u8>, Bytes) {
    let length = written(&found).0;
    let (key, mut stored_form) = found.into_key_value();
    stored_form.truncate(length);
    let value = expanded(&key, &stored_form).unwrap_or(stored_form);
    (key, Bytes::from(value))
}

/// Decompresses a stored value. A damaged one is returned as it is stored: its reader finds that it cannot be
/// decoded, and all others are read as before.
fn expanded(key: &[u8], stored: &[u8]) -> Option<Vec<u8>> {
    match compression::expand(stored) {
        Ok(Cow::Owned(value)) => Some(value),
        Ok(Cow::Borrowed(_)) => None,
        Err(error) => {
            tracing::error!(key = %String::from_utf8_lossy(key), %error, "etcd value cannot be decompressed");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Numbering = Numbering { offset: 0 };

    #[test]
    fn the_revisions_of_a_transaction_are_between_the_last_one_and_its_own() {
        assert_eq!(FIRST.revision(7), Revision::new(700));
        assert_eq!(FIRST.before(7, 99), Revision::new(601));
        assert_eq!(FIRST.before(1, 99), Revision::new(1));
        assert_eq!(FIRST.revision(0), Revision::NONE);
        for (ours, etcds) in [(0, 0), (1, 1), (100, 1), (101, 2), (600, 6), (601, 7), (700, 7)] {
            assert_eq!(FIRST.number(Revision::new(ours)), etcds, "{ours}");
        }
    }

    #[test]
    fn revisions_of_a_later_incarnation_are_above_its_offset_and_earlier_ones_have_no_transaction() {
        let later = Numbering { offset: 5_000 };
        assert_eq!(later.before(7, 99), Revision::new(5_601));
        for (ours, etcds) in [(0, 0), (700, 0), (5_000, 0), (5_001, 1), (5_700, 7), (5_701, 8)] {
            let revision = Revision::new(ours);
            assert_eq!(
                (later.number(revision), later.check(revision).is_err()),
                (etcds, etcds == 0),
                "{ours}"
            );
        }
        assert!(FIRST.check(Revision::NONE).is_ok(), "the first incarnation has no earlier one");
    }

    #[test]
    fn impossible_numbers_cause_no_panic() {
        assert_eq!(FIRST.revision(-1), Revision::NONE);
        assert_eq!(FIRST.number(Revision::new(u64::MAX)), 184_467_440_737_095_517);
        assert!(FIRST.revision(i64::MAX) > FIRST.revision(1));
        assert!(Numbering { offset: u64::MAX }.revision(7) == Revision::new(u64::MAX));
    }

    #[test]
    fn a_marker_is_removed_from_every_value() {
        let values: [&[u8]; 6] =
            [b"", b"{}", b"\n//then:", b"{}\n//then:07", b"{}\n//then:07\n//then:00", b"\n//then:xx"];
        for value in values {
            for others in [0, 1, 9, 10, 42, 99] {
                let stored_form = marked(value, others);
                let (length, found) = marker(&stored_form).unwrap_or((stored_form.len(), 0));
                assert_eq!((&stored_form[..length], found), (value, others), "{value:?}");
            }
        }
        assert_eq!(marked(b"{}", 0), b"{}");
    }
}
