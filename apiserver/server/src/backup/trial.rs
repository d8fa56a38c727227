//! Trial restore: each week the newest backup of each destination is restored to a temporary store, and listed.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use apiserver_machinery::encryption::Encryption;
use bytes::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use storage_backup::{BackupKey, ROOT, Scan, is_portable};
use storage_contract::{Key, Store, StoreError};
use storage_embedded::EmbeddedStore;

use super::location::{Location, uploads};
use super::restore::Verified;
use super::{embedded, file, retention};
use crate::config::ServerConfiguration;

/// Interval of successful trials. A backup that cannot be restored is known long before the oldest one expires.
const EVERY: Duration = Duration::from_hours(7 * 24);

/// Interval after a failed trial. Each one reads a whole backup, and the cause may be a network that was away for a moment.
const RETRY: Duration = Duration::from_hours(1);

/// Key of the record of the last trial, relative to the prefix of the store. The next leader reads it.
const RECORD: &str = "meta/backup-trial";

/// Record of the last trial.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    /// Time of the last attempt, in seconds since 1970.
    attempted: i64,
    /// Time of the last success, in seconds since 1970. 0: none.
    succeeded: i64,
}

impl Record {
    /// Returns the time until the next trial is due. A time in the future is that of a clock that was wrong.
    fn due_in(&self, now: i64) -> Duration {
        let left = |time: i64, interval: Duration| match u64::try_from(now.saturating_sub(time)) {
            Ok(age) => interval.saturating_sub(Duration::from_secs(age)),
            Err(_) => Duration::ZERO,
        };
        left(self.succeeded, EVERY).max(left(self.attempted, RETRY))
    }
}

/// Result of a trial.
#[derive(Debug)]
pub(super) struct Tried {
    /// Values in the restored store.
    pub(super) values: u64,
    /// Name of the backup.
    pub(super) file: String,
}

/// Returns true if a trial is due, and records the attempt: two leaders in a row do not both begin one.
///
/// # Errors
/// The store's.
pub(super) async fn begin(store: &dyn Store) -> anyhow::Result<bool> {
    let now = Timestamp::now().as_second();
    let record = read(store).await?;
    if !record.due_in(now).is_zero() {
        return Ok(false);
    }
    write(store, &Record { attempted: now, ..record }).await?;
    Ok(true)
}

/// Returns the time until the next trial is due.
///
/// # Errors
/// The store's.
pub(super) async fn due_in(store: &dyn Store) -> anyhow::Result<Duration> {
    Ok(read(store).await?.due_in(Timestamp::now().as_second()))
}

/// Records a success. Returns its time, in seconds since 1970.
///
/// # Errors
/// The store's.
pub(super) async fn succeed(store: &dyn Store) -> anyhow::Result<i64> {
    let now = Timestamp::now().as_second();
    write(store, &Record { attempted: now, succeeded: now }).await?;
    Ok(now)
}

/// Returns the time of the last success, in seconds since 1970.
///
/// # Errors
/// The store's.
pub(super) async fn last_success(store: &dyn Store) -> anyhow::Result<i64> {
    Ok(read(store).await?.succeeded)
}

async fn read(store: &dyn Store) -> anyhow::Result<Record> {
    let entry = store.get(&Key::new(format!("{ROOT}{RECORD}"))?).await?;
    Ok(entry.and_then(|entry| serde_json::from_slice(&entry.value).ok()).unwrap_or_default())
}

async fn write(store: &dyn Store, record: &Record) -> anyhow::Result<()> {
    let key = Key::new(format!("{ROOT}{RECORD}"))?;
    let value = Bytes::from(serde_json::to_vec(record)?);
    let written = match store.get(&key).await? {
        Some(entry) => store.update(&key, entry.modified, value).await,
        None => store.create(&key, value).await,
    };
    match written {
        // Another leader has written it just now.
        Ok(_) | Err(StoreError::Conflict { .. } | StoreError::Exists { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Restores the newest backup of a place to a temporary embedded store, and lists it.
///
/// # Errors
/// A place without a backup, or one whose newest backup cannot be read, restored or opened.
pub(super) async fn run(
    place: &Location,
    configuration: &ServerConfiguration,
    key: &BackupKey,
    encryption: &Encryption,
    data: &Path,
) -> anyhow::Result<Tried> {
    let name = configuration.backup.name();
    let newest = retention::newest(&place.times(name).await?, Timestamp::now());
    let newest = newest.context("there is no backup to try")?;
    let file = retention::file_name(name, newest);
    let url = place.url(&file);
    let restored = restore(place, &file, key, encryption, data).await;
    let values = restored.with_context(|| format!("{url}: the trial restore failed"))?;
    Ok(Tried { values, file: url })
}

/// Restores a backup, and returns the number of values that a list of the new store has.
async fn restore(
    place: &Location,
    name: &str,
    key: &BackupKey,
    encryption: &Encryption,
    data: &Path,
) -> anyhow::Result<u64> {
    let work = uploads(data)?;
    let path = place.fetch(name, work.path()).await?;
    let (header, summary, values) = file::verify(&path, key, Some(encryption))?;
    values.result()?;
    values.all_opened()?;
    let backup = Verified { path, key: key.clone(), header, summary };
    let store = work.path().join("trial.redb");
    let (copied, _) = embedded::fill(&store, &backup, None, backup.header.revision, false).await?;
    let listed = count(&EmbeddedStore::open(&store)?).await?;
    ensure!(listed == copied.written, "the store lists {listed} values, and {} were written", copied.written);
    Ok(listed)
}

async fn count(store: &dyn Store) -> anyhow::Result<u64> {
    let (mut scan, mut count) = (Scan::begin(store, ROOT).await?, 0);
    while let Some(entry) = scan.next().await? {
        count += u64::from(is_portable(entry.key.as_str()));
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bk_03_a_trial_is_due_each_week_and_an_hour_after_a_failed_one() {
        const HOUR: i64 = 3_600;
        const DAY: i64 = 24 * HOUR;
        let now = 1_000 * DAY;
        let due = |attempted, succeeded| Record { attempted, succeeded }.due_in(now);
        assert_eq!(due(0, 0), Duration::ZERO, "a new store has had none");
        assert_eq!(due(now - 6 * DAY, now - 6 * DAY), Duration::from_hours(24));
        assert_eq!(due(now - 7 * DAY, now - 7 * DAY), Duration::ZERO);
        assert_eq!(due(now - HOUR + 60, now - 9 * DAY), Duration::from_mins(1));
        assert_eq!(due(now - HOUR, now - 9 * DAY), Duration::ZERO);
        assert_eq!(due(now + DAY, now + DAY), Duration::ZERO, "a clock was wrong");
    }
}
