//! Settlement on an incarnation: the record is read, and replaced if it does not continue the known history.

use std::iter;

use etcd_client::{Compare, CompareOp, GetOptions, KvClient, Txn, TxnOp};
use storage_contract::{Form, StoreError, StoreResult};

use super::Seen;
use super::incarnation::Incarnation;
use super::marked_record::{Mark, Marked};
use super::record::{NAME, Record};
use super::verdict::{Found, Verdict, Why, judge, offset_above};
use crate::ReplacementNote;
use crate::calls::Calls;

/// Attempts to replace the record. A conflict means that another server was faster, and that its record holds.
const ATTEMPTS: usize = 5;

/// Returns the incarnation of the store, which continues what was seen. It replaces the record if the record does not, and
/// writes the note beside it. `returns`: a store that was migrated to another one is used again.
pub(super) async fn settle(
    calls: &Calls,
    key: &[u8],
    seen: Option<&Seen>,
    number: u64,
    returns: bool,
    known: Option<Form>,
    note: Option<&ReplacementNote>,
) -> StoreResult<Incarnation> {
    for _ in 0..ATTEMPTS {
        let (text, (cluster, revision)) = read(calls, key).await?;
        let marked = text.as_deref().map(Marked::parse).transpose()?;
        let found = marked.as_ref().map(|marked| marked.record.form);
        let verdict = match marked {
            Some(Marked { record, mark: Some(Mark::Migrated(_)) }) if returns => {
                let known = seen.map(|seen| seen.revision).unwrap_or_default();
                let offset = offset_above(record.numbering.revision(revision).max(known));
                Verdict::Begin { offset, why: Why::Returned }
            }
            other => {
                let record = other.map(Marked::served).transpose()?;
                judge(seen, Found { record, cluster, revision })
            }
        };
        match verdict {
            Verdict::Holds(record) => {
                return Ok(Incarnation::new(number, key, &record, (cluster, revision)));
            }
            Verdict::Begin { offset, why } => {
                let record = Record::new(offset, form_of_new(calls, key, found.or(known)).await?);
                // Without a record there are no objects either.
                let is_noted = text.is_some() && matches!(why, Why::Rewound(_));
                let note = note.filter(|_| is_noted);
                if let Some(written) = replace_with(calls, key, text, &record.text(), note).await? {
                    log_begin(&record, why);
                    return Ok(Incarnation::new(number, key, &record, written));
                }
            }
        }
    }
    let source = "other servers keep replacing the record of the store's incarnation".into();
    Err(StoreError::Unavailable { operation: "begin a new incarnation", source })
}

/// Returns the stored form of a new incarnation. It keeps a known form. A store without a record has the oldest form if it
/// has data, and the newest if it is empty.
async fn form_of_new(calls: &Calls, key: &[u8], known: Option<Form>) -> StoreResult<Form> {
    if let Some(known) = known {
        return Ok(known);
    }
    let prefix = key.strip_suffix(NAME.as_bytes()).unwrap_or(key);
    let count = |mut kv: KvClient| async move {
        kv.get(prefix, Some(GetOptions::new().with_prefix().with_count_only())).await
    };
    let is_empty = calls.reading("count the keys", count).await?.count() == 0;
    Ok(Form::of(if is_empty { Form::NEWEST } else { Form::OLDEST }))
}

/// Reads the text of the record, with etcd's cluster id and revision.
pub(super) async fn read(calls: &Calls, key: &[u8]) -> StoreResult<(Option<Vec<u8>>, (u64, i64))> {
    let get = |mut kv: KvClient| async move { kv.get(key.to_vec(), None).await };
    let answer = calls.reading("read the record of the incarnation", get).await?;
    let text = answer.kvs().first().map(|found| found.value().to_vec());
    Ok((text, answer.0.header.map_or((0, 0), |it| (it.cluster_id, it.revision))))
}

/// Replaces the text of the record. Returns etcd's cluster id and revision, or `None` if another server was faster. A
/// second attempt after a lost answer finds the record of the first.
pub(super) async fn replace(
    calls: &Calls,
    key: &[u8],
    text: Option<Vec<u8>>,
    new: &str,
) -> StoreResult<Option<(u64, i64)>> {
    replace_with(calls, key, text, new, None).await
}

/// Replaces the text of the record as [`replace`] does, and writes a note in the same transaction.
async fn replace_with(
    calls: &Calls,
    key: &[u8],
    text: Option<Vec<u8>>,
    new: &str,
    note: Option<&ReplacementNote>,
) -> StoreResult<Option<(u64, i64)>> {
    let guard = match text {
        Some(text) => Compare::value(key, CompareOp::Equal, text),
        None => Compare::mod_revision(key, CompareOp::Equal, 0),
    };
    let note = note.map(|note| TxnOp::put(note.key.as_bytes(), (note.value)(), None));
    let puts: Vec<TxnOp> = iter::once(TxnOp::put(key, new, None)).chain(note).collect();
    let transaction = Txn::new().when([guard]).and_then(puts);
    let send = |mut kv: KvClient| {
        let transaction = transaction.clone();
        async move { kv.txn(transaction).await }
    };
    let answer = calls.reading("write the record of the incarnation", send).await?.0;
    let position = answer.header.map_or((0, 0), |header| (header.cluster_id, header.revision));
    Ok(answer.succeeded.then_some(position))
}

fn log_begin(record: &Record, why: Why) {
    let (incarnation, offset) = (record.incarnation, record.numbering.offset);
    match why {
        Why::First => tracing::info!(%incarnation, "first incarnation of the store in etcd"),
        Why::Returned => {
            tracing::warn!(%incarnation, offset, "a store whose objects were migrated to another one is used again");
        }
        Why::Rewound(why) => {
            tracing::error!(%incarnation, offset, why, "new incarnation of the store in etcd");
        }
    }
}
