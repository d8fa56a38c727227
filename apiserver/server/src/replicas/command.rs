//! Command `capstan replicas`.

use std::fmt::Write as _;

use jiff::{SignedDuration, Timestamp};
use storage_contract::Store;

use super::{DEAD, INTERVAL, Replica, list};
use crate::backup::{self, Setup};
use crate::cli::StoreArguments;
use crate::output;
use crate::report::report;

/// Prints the replicas that use the store.
///
/// # Errors
/// The store cannot be read, and the running server does not answer.
pub(crate) fn run(arguments: &StoreArguments) -> anyhow::Result<()> {
    let setup = Setup::load(arguments)?;
    let report = backup::block_on(report(&setup))?;
    Ok(output::print(&table(&report.replicas, Timestamp::now()))?)
}

/// Returns the records that this release can read, also those of dead replicas.
///
/// # Errors
/// The store cannot be read.
pub(crate) async fn all(store: &dyn Store) -> anyhow::Result<Vec<Replica>> {
    Ok(list(store).await?.iter().filter_map(|entry| Replica::read(&entry.value)).collect())
}

/// Returns the replicas that renew their records. The clock of a replica may be wrong, so those that seem to be dead are
/// observed for longer than a renewal takes.
///
/// # Errors
/// The store cannot be read; a record of a later release that cannot be read.
pub(crate) async fn live(store: &dyn Store) -> anyhow::Result<Vec<Replica>> {
    let now = Timestamp::now();
    let first = list(store).await?;
    let is_recent = |replica: &Replica| !is_dead(replica, now);
    if first.iter().all(|entry| Replica::read(&entry.value).as_ref().is_some_and(is_recent)) {
        return Ok(first.iter().filter_map(|entry| Replica::read(&entry.value)).collect());
    }
    tokio::time::sleep(INTERVAL + INTERVAL / 2).await;
    let mut live = Vec::new();
    for entry in list(store).await? {
        let is_renewed = first.iter().all(|known| known.key != entry.key || known.modified != entry.modified);
        match Replica::read(&entry.value) {
            Some(replica) if is_renewed || is_recent(&replica) => live.push(replica),
            None if is_renewed => {
                anyhow::bail!("{}: a live replica has a record that this release cannot read", entry.key)
            }
            _ => {}
        }
    }
    Ok(live)
}

/// Returns true if the last renewal of a replica, by its own clock, is too old.
pub(crate) fn is_dead(replica: &Replica, now: Timestamp) -> bool {
    now.duration_since(replica.renewed) > SignedDuration::try_from(DEAD).unwrap_or(SignedDuration::MAX)
}

/// Returns the table. A replica is dead if its last renewal, by its own clock, is too old.
pub(super) fn table(replicas: &[Replica], now: Timestamp) -> String {
    if replicas.is_empty() {
        return "no replica uses this store: start a server with `capstan serve`\n".to_owned();
    }
    let mut rows = vec![
        ["REPLICA", "STATE", "VERSION", "READS", "WRITES", "KEYS", "ADDRESS", "SINCE"].map(str::to_owned),
    ];
    for replica in replicas {
        let age = now.duration_since(replica.renewed);
        let reads: Vec<String> = replica.reads.iter().map(u64::to_string).collect();
        let keys: Vec<&str> = replica.keys.iter().map(String::as_str).collect();
        rows.push([
            replica.id.clone(),
            if is_dead(replica, now) { format!("dead {} s", age.as_secs()) } else { "live".to_owned() },
            replica.version.clone(),
            reads.join(","),
            replica.writes.to_string(),
            keys.join(","),
            replica.address.clone(),
            replica.since.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        ]);
    }
    let mut text = String::new();
    for row in &rows {
        for (column, cell) in row.iter().enumerate() {
            let width = rows.iter().filter_map(|row| row.get(column)).map(String::len).max().unwrap_or(0);
            let _ = write!(text, "{cell:<width$}  ");
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}
