//! Compaction: forgetting history, a little at a time so that writes need not wait for it.

use std::collections::BTreeSet;

use redb::{Database, ReadableTable, WriteTransaction};
use storage_contract::Revision;

use crate::layout::{COMPACTED, HISTORY, LOG, META};

/// Log lines forgotten in one transaction: some ten milliseconds, for which what was written meanwhile may have to
/// wait on its way to the database.
const STEP: usize = 1000;

/// Forgets a part of the history before `revision`, which the database has; `true` when all of it is gone. From the
/// first step on, reads from before `revision` are refused. A kill between steps leaves the rest to the next
/// compaction.
pub(crate) fn step(database: &Database, revision: Revision) -> Result<bool, redb::Error> {
    let transaction = database.begin_write()?;
    let done = forget(&transaction, revision.number())?;
    transaction.commit()?;
    Ok(done)
}

fn forget(transaction: &WriteTransaction, revision: u64) -> Result<bool, redb::Error> {
    let mut meta = transaction.open_table(META)?;
    let before = meta.get(COMPACTED)?.map_or(0, |value| value.value());
    if before < revision {
        meta.insert(COMPACTED, revision)?;
    }
    let mut log = transaction.open_table(LOG)?;
    let mut keys = BTreeSet::new();
    let mut bound = revision;
    for (count, line) in log.range(..revision)?.enumerate() {
        let (at, key) = line?;
        if count == STEP {
            bound = at.value();
            break;
        }
        keys.insert(key.value().to_vec());
    }
    for key in &keys {
        forget_key(transaction, key, bound)?;
    }
    log.retain_in(..bound, |_, _| false)?;
    Ok(bound == revision)
}

/// Drops of a key's history before `bound` all but the newest, which is what the key was then. A
/// deletion that is the newest goes too.
fn forget_key(transaction: &WriteTransaction, key: &[u8], bound: u64) -> Result<(), redb::Error> {
    let mut history = transaction.open_table(HISTORY)?;
    let mut old = Vec::new();
    for item in history.range((key, 0)..(key, bound))? {
        let (at, what) = item?;
        old.push((at.value().1, what.value().1.is_some()));
    }
    if old.last().is_some_and(|(_, exists)| *exists) {
        old.pop();
    }
    for (at, _) in old {
        history.remove((key, at))?;
    }
    Ok(())
}
