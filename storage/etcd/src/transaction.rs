//! Transactions of several writes, and the result of each write.
//!
//! There are two forms. *Whole*: all guards before all writes, so that all are made or none is. *In parts*: each
//! write is a transaction within the transaction, so that one may fail and the others do not. Guards nearly always
//! hold, and the whole form costs etcd about a tenth less.
//!
//! Both forms write nothing if the record of the incarnation is not the expected one.

use std::iter::once;

use etcd_client::proto::{PbTxnOpResponse, PbTxnResponse};
use etcd_client::{Txn, TxnOp};
use storage_contract::Unchanged;

use crate::history::{Access, Incarnation};
use crate::queue::Waiting;
use crate::revision::{EACH, Numbering};
use crate::write::holds;

/// Maximum number of guards of a transaction in the whole form, beside that of the record: the number that etcd counts
/// in the largest transaction in parts, which has as many parts as there are revisions, and two guards in the last. An
/// etcd that is configured to accept the one accepts the other.
const MOST_GUARDS: u8 = EACH + 2;

/// Returns true if the batch fits into the whole form.
pub(crate) fn fits_as_a_whole(batch: &[Waiting]) -> bool {
    batch.len() + depended_on(batch).count() <= usize::from(MOST_GUARDS)
}

/// Creates the transaction that makes all writes or none.
pub(crate) fn whole(batch: &[Waiting], incarnation: &Incarnation) -> Txn {
    let numbering = incarnation.numbering;
    let own = batch.iter().flat_map(|it| it.write.own_guards(numbering));
    let guards = own.chain(depended_on(batch).flat_map(|it| holds(it, numbering)));
    let guards: Vec<_> = guards.chain(once(incarnation.guard())).collect();
    let changes: Vec<_> = numbered(batch).map(|(it, others)| it.write.change(others)).collect();
    Txn::new().when(guards).and_then(changes)
}

/// Creates the transaction that makes each write by itself.
pub(crate) fn in_parts(batch: &[Waiting], incarnation: &Incarnation) -> Txn {
    let part = |(it, others): (&Waiting, u8)| TxnOp::txn(it.write.part(others, incarnation.numbering));
    let parts: Vec<_> = numbered(batch).map(part).collect();
    let guarded = Txn::new().when([incarnation.guard()]).and_then(parts);
    // Without a condition the `else` branch never runs. But until 2026 etcd did not count the writes within parts,
    // and would have accepted them with its space used up.
    let never = batch.first().map(|first| TxnOp::put(first.write.key.as_bytes(), "", None));
    Txn::new().and_then([TxnOp::txn(guarded)]).or_else(never.into_iter().collect::<Vec<_>>())
}

/// Returns the answers to the parts, or `None` if the record was not the expected one, so that nothing was written.
pub(crate) fn parts(answer: PbTxnResponse) -> Option<PbTxnResponse> {
    let header = answer.header;
    match answer.responses.into_iter().next().and_then(|guarded| guarded.response) {
        Some(PbTxnOpResponse::ResponseTxn(parts)) => {
            parts.succeeded.then_some(PbTxnResponse { header, ..parts })
        }
        // Without parts, each write gets an unknown outcome.
        _ => Some(PbTxnResponse { header, ..PbTxnResponse::default() }),
    }
}

/// Returns the etcd revision of the transaction.
pub(crate) fn number(answer: &PbTxnResponse) -> i64 {
    answer.header.as_ref().map_or(0, |header| header.revision)
}

/// Returns whether a transaction in either form wrote anything.
pub(crate) fn access(answer: &PbTxnResponse) -> Access {
    let wrote = answer.responses.iter().any(|part| match &part.response {
        Some(PbTxnOpResponse::ResponsePut(_)) => true,
        Some(PbTxnOpResponse::ResponseTxn(part)) => part.succeeded,
        _ => false,
    });
    if wrote { Access::Write } else { Access::Read }
}

/// Reports its result to each caller of a transaction that was carried out.
pub(crate) fn report_results(batch: Vec<Waiting>, answer: PbTxnResponse, numbering: Numbering) {
    let (number, count) = (number(&answer), batch.len());
    let mut parts = answer.responses.into_iter();
    for (Waiting { write, answer, .. }, others) in batch.into_iter().zip(others(count)) {
        let revision = numbering.before(number, others);
        let result = match parts.next().and_then(|part| part.response) {
            Some(PbTxnOpResponse::ResponsePut(_)) => Ok(revision),
            Some(PbTxnOpResponse::ResponseTxn(part)) => write.outcome(&part, revision, numbering),
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
