//! Writes as one transaction of etcd's, and what its answer says of each.
//!
//! There are two forms. *Whole*: all guards before all writes, so that all are made or none is. *In parts*: each write is
//! a transaction within the transaction, so that one may fail and the others do not. Guards nearly always hold, and the
//! whole costs etcd about a tenth less.

use std::iter::once;

use etcd_client::proto::{PbTxnOpResponse, PbTxnResponse};
use etcd_client::{Txn, TxnOp};
use storage_contract::Unchanged;

use crate::queue::Waiting;
use crate::revision::{EACH, before};
use crate::write::holds;

/// Guards of a whole at most: what etcd counts of the largest that is in parts, which are as many as there are revisions,
/// and of two guards within the last. An etcd that is configured to take the one takes the other.
const MOST_GUARDS: u8 = EACH + 2;

/// Whether it can go as a whole.
pub(crate) fn fits_whole(batch: &[Waiting]) -> bool {
    batch.len() + depended_on(batch).count() <= usize::from(MOST_GUARDS)
}

/// All of them or none.
pub(crate) fn whole(batch: &[Waiting]) -> Txn {
    let own = batch.iter().flat_map(|it| it.write.own_guards());
    let guards: Vec<_> = own.chain(depended_on(batch).flat_map(holds)).collect();
    let changes: Vec<_> = numbered(batch).map(|(it, others)| it.write.change(others)).collect();
    Txn::new().when(guards).and_then(changes)
}

/// Each by itself.
pub(crate) fn in_parts(batch: &[Waiting]) -> Txn {
    let parts: Vec<_> =
        numbered(batch).map(|(it, others)| TxnOp::txn(it.write.transaction(others))).collect();
    // Without a condition this is never done. But until 2026 etcd did not see what is written by parts, and would have
    // taken them when its space is used up.
    let seen = batch.first().map(|first| TxnOp::put(first.write.key.as_bytes(), "", None));
    Txn::new().and_then(parts).or_else(seen.into_iter().collect::<Vec<_>>())
}

/// Etcd's number of the transaction.
pub(crate) fn number(answer: &PbTxnResponse) -> i64 {
    answer.header.as_ref().map_or(0, |header| header.revision)
}

/// Tells each what became of it in a transaction that was carried out.
pub(crate) fn hand_out(batch: Vec<Waiting>, answer: PbTxnResponse) {
    let (number, count) = (number(&answer), batch.len());
    let mut parts = answer.responses.into_iter();
    for (Waiting { write, answer, .. }, others) in batch.into_iter().zip(others(count)) {
        let told = match parts.next().and_then(|part| part.response) {
            Some(PbTxnOpResponse::ResponsePut(_)) => Ok(before(number, others)),
            Some(PbTxnOpResponse::ResponseTxn(part)) => write.outcome(&part, before(number, others)),
            _ => Err(write.unknown("etcd answered other parts than it was sent")),
        };
        let _ = answer.send(told);
    }
}

/// What they depend on beside their own keys, once where those that follow each other depend on the same: creations have
/// their namespace.
fn depended_on(batch: &[Waiting]) -> impl Iterator<Item = &Unchanged> {
    let all = || batch.iter().map(|it| it.write.unchanged.as_ref());
    all().zip(once(None).chain(all())).filter(|(it, previous)| it != previous).filter_map(|(it, _)| it)
}

/// Each with how many come after it.
fn numbered(batch: &[Waiting]) -> impl Iterator<Item = (&Waiting, u8)> {
    batch.iter().zip(others(batch.len()))
}

/// How many come after each of so many, in order.
fn others(count: usize) -> impl Iterator<Item = u8> {
    (0..count).rev().map(|others| u8::try_from(others).unwrap_or(u8::MAX))
}
