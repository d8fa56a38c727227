//! Our revisions, of etcd's.
//!
//! etcd gives every write of a transaction the same revision; ours are each write's own. So there are a hundred of
//! ours for one of etcd's: its number times 100 is that of the last write of a transaction, and those before it have
//! the numbers before. A transaction of one write has that of the last.
//!
//! How many writes come after one is not told when it is read, so it is kept with the value: a mark and two digits at
//! its end. The last write of a transaction, which most are alone in, has none.

use std::borrow::Cow;

use bytes::Bytes;
use etcd_client::KeyValue;
use storage_contract::Revision;

use crate::compression;

/// Our revisions for each of etcd's, and the most writes in a transaction. etcd takes transactions of 128 parts unless
/// `--max-txn-ops` says otherwise, and counts the parts within parts; a hundred reads well.
pub(crate) const EACH: u8 = 100;

/// What comes before the digits. No JSON ends so; whatever else does gets a mark of its own.
const MARK: &[u8] = b"\n//then:";

/// Bytes of the mark with its digits.
const LENGTH: usize = MARK.len() + 2;

/// The revision of the last write of the transaction that etcd gave this number.
pub(crate) fn revision(number: i64) -> Revision {
    before(number, 0)
}

/// The revision of a write that so many come after.
pub(crate) fn before(number: i64, others: u8) -> Revision {
    let last = u64::try_from(number).unwrap_or_default().saturating_mul(u64::from(EACH));
    Revision::new(last.saturating_sub(u64::from(others)))
}

/// etcd's number of the transaction that a revision belongs to.
pub(crate) fn number(revision: Revision) -> i64 {
    i64::try_from(revision.number().div_ceil(u64::from(EACH))).unwrap_or(i64::MAX)
}

/// A value as it is kept when so many writes of its transaction come after it.
pub(crate) fn marked(value: &[u8], others: u8) -> Vec<u8> {
    let needed = others > 0 || mark(value).is_some();
    let mut kept = Vec::with_capacity(value.len() + if needed { LENGTH } else { 0 });
    kept.extend_from_slice(value);
    if needed {
        kept.extend_from_slice(MARK);
        kept.extend([b'0' + others / 10 % 10, b'0' + others % 10]);
    }
    kept
}

/// How many bytes of what is kept are the value, and how many writes came after it.
fn mark(kept: &[u8]) -> Option<(usize, u8)> {
    let (value, mark) = kept.split_at_checked(kept.len().checked_sub(LENGTH)?)?;
    match mark.strip_prefix(MARK)? {
        [tens @ b'0'..=b'9', ones @ b'0'..=b'9'] => Some((value.len(), (tens - b'0') * 10 + (ones - b'0'))),
        _ => None,
    }
}

/// When a key was written, and how many of its bytes are the value.
fn written(found: &KeyValue) -> (Revision, usize) {
    let kept = found.value();
    let (length, others) = mark(kept).unwrap_or((kept.len(), 0));
    (before(found.mod_revision(), others), length)
}

/// When a key was written.
pub(crate) fn modified(found: &KeyValue) -> Revision {
    written(found).0
}

/// When a key was created, since it was last absent. Of one that was written again only the transaction is known: then
/// it is the last revision of that, in which nothing else happened to the key.
pub(crate) fn created(found: &KeyValue) -> Revision {
    if found.create_revision() == found.mod_revision() {
        modified(found)
    } else {
        revision(found.create_revision())
    }
}

/// What is stored, without its mark.
pub(crate) fn stored(found: &KeyValue) -> &[u8] {
    &found.value()[..written(found).1]
}

/// The value.
pub(crate) fn value(found: &KeyValue) -> Bytes {
    let stored = stored(found);
    expanded(found.key(), stored).map_or_else(|| Bytes::copy_from_slice(stored), Bytes::from)
}

/// The same, of one that is not needed otherwise: without a copy.
pub(crate) fn into_key_value(found: KeyValue) -> (Vec<u8>, Bytes) {
    let length = written(&found).1;
    let (key, mut kept) = found.into_key_value();
    kept.truncate(length);
    let value = expanded(&key, &kept).unwrap_or(kept);
    (key, Bytes::from(value))
}

/// What was compressed. What is damaged is handed on as it is stored: who reads it finds that it says nothing, and all
/// others are read as before.
fn expanded(key: &[u8], stored: &[u8]) -> Option<Vec<u8>> {
    match compression::expand(stored) {
        Ok(Cow::Owned(value)) => Some(value),
        Ok(Cow::Borrowed(_)) => None,
        Err(error) => {
            tracing::error!(key = %String::from_utf8_lossy(key), %error, "a value in etcd cannot be read");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_revisions_of_a_transaction_are_between_the_last_one_and_its_own() {
        assert_eq!(revision(7), Revision::new(700));
        assert_eq!(before(7, 99), Revision::new(601));
        assert_eq!(before(1, 99), Revision::new(1));
        assert_eq!(revision(0), Revision::NONE);
        for (ours, etcds) in [(0, 0), (1, 1), (100, 1), (101, 2), (600, 6), (601, 7), (700, 7)] {
            assert_eq!(number(Revision::new(ours)), etcds, "{ours}");
        }
    }

    #[test]
    fn numbers_that_cannot_be_are_no_panic() {
        assert_eq!(revision(-1), Revision::NONE);
        assert_eq!(number(Revision::new(u64::MAX)), 184_467_440_737_095_517);
        assert!(revision(i64::MAX) > revision(1));
    }

    #[test]
    fn a_mark_is_taken_off_again_whatever_the_value_ends_with() {
        let values: [&[u8]; 6] =
            [b"", b"{}", b"\n//then:", b"{}\n//then:07", b"{}\n//then:07\n//then:00", b"\n//then:xx"];
        for value in values {
            for others in [0, 1, 9, 10, 42, 99] {
                let kept = marked(value, others);
                let (length, told) = mark(&kept).unwrap_or((kept.len(), 0));
                assert_eq!((&kept[..length], told), (value, others), "{value:?}");
            }
        }
        assert_eq!(marked(b"{}", 0), b"{}");
    }
}
