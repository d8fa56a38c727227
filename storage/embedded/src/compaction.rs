//! Compaction: removes old history in small steps, so that writes need not wait for it.

use std::collections::BTreeSet;

use redb::{Database, ReadableTable, WriteTransaction};
use storage_contract::Revision;

use crate::layout::{COMPACTED, HISTORY, LOG, META};

/// Log lines that one transaction removes: about ten milliseconds, for which a checkpoint may have to wait.
const STEP: usize = 1000;

/// Removes a part of the history before `revision`, which the database has. Returns `true` when all of it is gone.
/// From the first step on, reads from before `revision` are refused. After a kill between two steps, the next
/// compaction removes the rest.
pub(crate) fn step(database: &Database, revision: Revision) -> Result<bool, redb::Error> {
    let transaction = database.begin_write()?;
    let done = compact(&transaction, revision.number())?;
    transaction.commit()?;
    Ok(done)
}

fn compact(transaction: &WriteTransaction, revision: u64) -> Result<bool, redb::Error> {
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
        compact_key(transaction, key, bound)?;
    }
    log.retain_in(..bound, |_, _| false)?;
    Ok(bound == revision)
}

/// Removes a key's history before `bound`, except for its newest entry, which is the key's value at `bound`. If the
/// newest entry is a deletion, it is removed too.
fn compact_key(transaction: &WriteTransaction, key: &[u8], bound: u64) -> Result<(), redb::Error> {
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
