//! Transactions of several writes, and the result of each write.
//!
//! There are two forms. *Whole*: all guards before all writes, so that all are made or none is. *In parts*: each
//! write is a transaction within the transaction, so that one may fail and the others do not. Guards nearly always
//! hold, and the whole form costs etcd about a tenth less.

use std::iter::once;

use etcd_client::proto::{PbTxnOpResponse, PbTxnResponse};
use etcd_client::{Txn, TxnOp};
use storage_contract::Unchanged;

use crate::queue::Waiting;
use crate::revision::{EACH, before};
use crate::write::holds;

/// Maximum number of guards of a transaction in the whole form: the number that etcd counts in the largest transaction
/// in parts, which has as many parts as there are revisions, and two guards in the last. An etcd that is configured to
/// accept the one accepts the other.
const MOST_GUARDS: u8 = EACH + 2;

/// Returns true if the batch fits into the whole form.
pub(crate) fn fits_as_a_whole(batch: &[Waiting]) -> bool {
    batch.len() + depended_on(batch).count() <= usize::from(MOST_GUARDS)
}

/// Creates the transaction that makes all writes or none.
pub(crate) fn whole(batch: &[Waiting]) -> Txn {
    let own = batch.iter().flat_map(|it| it.write.own_guards());
    let guards: Vec<_> = own.chain(depended_on(batch).flat_map(holds)).collect();
    let changes: Vec<_> = numbered(batch).map(|(it, others)| it.write.change(others)).collect();
    Txn::new().when(guards).and_then(changes)
}

/// Creates the transaction that makes each write by itself.
pub(crate) fn in_parts(batch: &[Waiting]) -> Txn {
    let parts: Vec<_> =
        numbered(batch).map(|(it, others)| TxnOp::txn(it.write.transaction(others))).collect();
    // Without a condition the `else` branch never runs. But until 2026 etcd did not count the writes within parts,
    // and would have accepted them with its space used up.
    let never = batch.first().map(|first| TxnOp::put(first.write.key.as_bytes(), "", None));
    Txn::new().and_then(parts).or_else(never.into_iter().collect::<Vec<_>>())
}

/// Returns the etcd revision of the transaction.
pub(crate) fn number(answer: &PbTxnResponse) -> i64 {
    answer.header.as_ref().map_or(0, |header| header.revision)
}

/// Reports its result to each caller of a transaction that was carried out.
pub(crate) fn report_results(batch: Vec<Waiting>, answer: PbTxnResponse) {
    let (number, count) = (number(&answer), batch.len());
    let mut parts = answer.responses.into_iter();
    for (Waiting { write, answer, .. }, others) in batch.into_iter().zip(others(count)) {
        let result = match parts.next().and_then(|part| part.response) {
            Some(PbTxnOpResponse::ResponsePut(_)) => Ok(before(number, others)),
            Some(PbTxnOpResponse::ResponseTxn(part)) => write.outcome(&part, before(number, others)),
            _ => Err(write.unknown("etcd answered with other parts than the request had")),
        };
        let _ = answer.send(result);
    }
}

/// Returns the dependencies of the writes beside their own keys, once where successive writes share one: creations
/// share their namespace.
fn depended_on(batch: &[Waiting]) -> impl Iterator<Item = &Unchanged> {
    let all = || batch.iter().map(|it| it.write.unchanged.as_ref());
    all().zip(once(None).chain(all())).filter(|(it, previous)| it != previous).filter_map(|(it, _)| it)
}

/// Returns each write with the number of writes that follow it.
fn numbered(batch: &[Waiting]) -> impl Iterator<Item = (&Waiting, u8)> {
    batch.iter().zip(others(batch.len()))
}

/// Returns the number of followers of each of so many writes, in order.
fn others(count: usize) -> impl Iterator<Item = u8> {
    (0..count).rev().map(|others| u8::try_from(others).unwrap_or(u8::MAX))
}
