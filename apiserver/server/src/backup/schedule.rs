//! Backups that the leader writes to their destinations, at an interval.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use jiff::Timestamp;
use storage_contract::Store;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::location::{Location, Source};
use super::metrics::BackupMetrics;
use super::{background, key_file, refuse_the_encryption_key, retention, trial};
use crate::config::{Destination, Schedule, ServerConfiguration};
use crate::encryption_keys::EncryptionKeys;

/// Pause after a failed backup, if the interval is longer.
const RETRY: Duration = Duration::from_mins(5);

/// Largest random delay of a backup, as a part of the interval and as a time. Many installations on one disk or network
/// do not begin at the same moment.
const JITTER: (u32, Duration) = (10, Duration::from_secs(60));

/// Largest time until a destination is due with which it belongs to the present round, as a part of the interval. The
/// longest one is [`RETRY`].
const ROUND: u32 = 10;

/// Scheduled backups of a server.
pub(crate) struct Backups {
    configuration: ServerConfiguration,
    schedule: Schedule,
    /// Data directory, for files on their way to a remote place.
    data: PathBuf,
    store: Arc<dyn Store>,
    encryption: EncryptionKeys,
    metrics: BackupMetrics,
    /// Time of the newest backup in each destination, by its index, as far as this server knows it.
    newest: Mutex<BTreeMap<usize, Timestamp>>,
}

impl Backups {
    /// Creates them, if the configuration has a schedule.
    pub(crate) fn new(
        configuration: &ServerConfiguration,
        data: &Path,
        store: &Arc<dyn Store>,
        encryption: &EncryptionKeys,
        metrics: BackupMetrics,
    ) -> Option<Arc<Self>> {
        let schedule = configuration.backup.schedule.clone()?;
        // The start of a server refuses an interval that cannot be read.
        metrics.interval.set(schedule.interval().unwrap_or_default().as_secs_f64());
        Some(Arc::new(Self {
            schedule,
            configuration: configuration.clone(),
            data: data.to_owned(),
            store: Arc::clone(store),
            encryption: encryption.clone(),
            metrics,
            newest: Mutex::default(),
        }))
    }

    /// Writes backups until `end`. A run that was missed is made up once.
    pub(crate) async fn run(self: Arc<Self>, end: CancellationToken) {
        let Ok(interval) = self.schedule.interval() else { return };
        loop {
            let due = end.run_until_cancelled(Box::pin(self.until_due(interval))).await;
            let wait = due.unwrap_or_default() + jitter(interval);
            if end.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
                return;
            }
            let (backups, handle, ended) = (Arc::clone(&self), Handle::current(), end.clone());
            let written = background::run(move || {
                handle.block_on(async {
                    let written = Box::pin(backups.write_all(&ended)).await;
                    ended.run_until_cancelled(Box::pin(backups.try_restore())).await;
                    written
                })
            });
            let result = written.await.flatten();
            if end.is_cancelled() {
                return;
            }
            if let Err(error) = result {
                self.metrics.fail(&error);
                tracing::error!(error = %format!("{error:#}"), "scheduled backup failed; retrying");
                let pause = tokio::time::sleep(RETRY.min(interval));
                if end.run_until_cancelled(pause).await.is_none() {
                    return;
                }
            }
        }
    }

    /// Returns the time until a destination needs a backup, or a trial restore is due. A trial waits for [`RETRY`] at least:
    /// one that cannot even be recorded is not begun all the time.
    async fn until_due(&self, interval: Duration) -> Duration {
        let trial = trial::due_in(self.store.as_ref()).await;
        let mut least = trial.map_or(interval, |due| due.max(RETRY).min(interval));
        for (index, destination) in self.schedule.destinations().unwrap_or_default().iter().enumerate() {
            let times = async {
                let place = Location::open(destination, &self.configuration.backup).await?;
                self.newest(index, &place).await
            };
            // A place that cannot be read has no backup: the attempt to write one reports the error.
            least = least.min(due_in(times.await.unwrap_or_default(), Timestamp::now(), interval));
        }
        least
    }

    /// Returns the time of the newest backup in a destination.
    async fn newest(&self, index: usize, place: &Location) -> anyhow::Result<Option<Timestamp>> {
        let times = place.times(self.configuration.backup.name()).await?;
        let newest = retention::newest(&times, Timestamp::now());
        if let Some(newest) = newest {
            self.note(index, newest);
        }
        if times.last().copied() != newest {
            tracing::warn!(
                destination = %place.url(""),
                newest = times.last().map(ToString::to_string),
                "a backup of a clock that was ahead does not count; remove it"
            );
        }
        Ok(newest)
    }

    /// Notes the time of the newest backup in a destination.
    fn note(&self, index: usize, time: Timestamp) {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        newest.insert(index, time);
        if newest.len() == self.schedule.to.len()
            && let Some(least) = newest.values().min()
        {
            self.metrics.newest(*least);
        }
    }

    /// Writes a backup to each destination that is due, and removes those that expired. An error of one destination does
    /// not keep the others from theirs.
    pub(super) async fn write_all(&self, end: &CancellationToken) -> anyhow::Result<()> {
        let path = self.configuration.backup.key_file.as_deref().context("backup.keyFile is not set")?;
        let key = key_file::read(path)?;
        let encryption = self.encryption.encryption();
        refuse_the_encryption_key(&key, Some(&encryption))?;
        let source = Source {
            store: self.store.as_ref(),
            configuration: &self.configuration,
            key: &key,
            encryption: Some(&encryption),
            keys: None,
        };
        let mut result = Ok(());
        for (index, destination) in self.schedule.destinations()?.iter().enumerate() {
            let written = Box::pin(self.write((index, destination), &source, end));
            let written = end.run_until_cancelled(written).await;
            let written = written.unwrap_or_else(|| Err(anyhow!("the server stops")));
            result = match (result, written) {
                (Err(first), Err(also)) => {
                    tracing::error!(error = %format!("{also:#}"), "scheduled backup failed for another destination");
                    Err(first)
                }
                (first, written) => first.and(written),
            };
        }
        result
    }

    async fn write(
        &self,
        (index, destination): (usize, &Destination),
        source: &Source<'_>,
        end: &CancellationToken,
    ) -> anyhow::Result<()> {
        let place = Location::open(destination, &self.configuration.backup).await?;
        let interval = self.schedule.interval()?;
        // A round that begins for another destination, such as one that fails, is not one for this.
        let (newest, now) = (self.newest(index, &place).await?, Timestamp::now());
        if due_in(newest, now, interval) > RETRY.min(interval / ROUND) {
            return Ok(());
        }
        let name = retention::file_name(self.configuration.backup.name(), now);
        let taken = place.take(source, &name, &self.data, &|| end.is_cancelled()).await?;
        self.metrics.succeed(&taken);
        self.note(index, now);
        tracing::info!(
            file = %place.url(&name),
            values = taken.summary.entries,
            bytes = taken.size,
            revision = %taken.header.revision,
            seconds = taken.duration.as_secs_f64(),
            "backup written and verified"
        );
        if let Err(error) = taken.values.result() {
            tracing::error!(%error, "the store has damaged values");
        }
        self.remove_expired(&place).await
    }

    /// Restores the newest backups to a temporary store, if that is due.
    async fn try_restore(&self) {
        let store = self.store.as_ref();
        let tried = async {
            // A new leader knows nothing yet of the one before.
            self.metrics.trial_success.set(seconds(trial::last_success(store).await?));
            if !trial::begin(store).await? {
                return Ok(());
            }
            let begun = Instant::now();
            self.try_all().await?;
            self.metrics.trial_success.set(seconds(trial::succeed(store).await?));
            self.metrics.trial_duration.set(begun.elapsed().as_secs_f64());
            anyhow::Ok(())
        };
        if let Err(error) = tried.await {
            self.metrics.trial_failures.inc();
            tracing::error!(error = %format!("{error:#}"), "trial restore failed; trying again in an hour");
        }
    }

    async fn try_all(&self) -> anyhow::Result<()> {
        let path = self.configuration.backup.key_file.as_deref().context("backup.keyFile is not set")?;
        let (key, encryption) = (key_file::read(path)?, self.encryption.encryption());
        for destination in self.schedule.destinations()? {
            let place = Location::open(&destination, &self.configuration.backup).await?;
            let tried = trial::run(&place, &self.configuration, &key, &encryption, &self.data).await?;
            tracing::info!(file = %tried.file, values = tried.values, "backup restored to a temporary store");
        }
        Ok(())
    }

    async fn remove_expired(&self, place: &Location) -> anyhow::Result<()> {
        let name = self.configuration.backup.name();
        for time in retention::expired(&place.times(name).await?, self.schedule.keep, Timestamp::now()) {
            let file = retention::file_name(name, time);
            let named = || format!("{}: the expired backup cannot be removed", place.url(&file));
            place.remove(&file).await.with_context(named)?;
            tracing::info!(file = %place.url(&file), "expired backup removed");
        }
        place.remove_abandoned(name)
    }
}

/// Returns the time until a destination needs a backup: an interval after its newest one. So one backup makes up for all that
/// were missed.
fn due_in(newest: Option<Timestamp>, now: Timestamp, interval: Duration) -> Duration {
    let Some(newest) = newest else { return Duration::ZERO };
    // The clock of another replica may be ahead by a moment.
    let age = Duration::try_from(now.duration_since(newest)).unwrap_or_default();
    interval.saturating_sub(age)
}

/// Returns seconds since 1970 for a metric.
fn seconds(time: i64) -> f64 {
    Timestamp::from_second(time).unwrap_or_default().as_duration().as_secs_f64()
}

/// Returns a random delay.
fn jitter(interval: Duration) -> Duration {
    let most = (interval / JITTER.0).min(JITTER.1);
    let part = f64::from(uuid::Uuid::new_v4().as_fields().0) / f64::from(u32::MAX);
    most.mul_f64(part)
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    #[test]
    fn bk_02_one_backup_makes_up_for_all_that_were_missed() {
        let now: Timestamp = "2026-11-02T00:30:00Z".parse().unwrap();
        let due = |minutes: i64| due_in(Some(now - SignedDuration::from_mins(minutes)), now, HOUR);
        let missed = [due_in(None, now, HOUR), due(60 * 24), due(60)];
        assert_eq!(missed, [Duration::ZERO; 3]);
        assert_eq!((due(45), due(0), due(-4)), (Duration::from_mins(15), HOUR, HOUR));
    }

    #[test]
    fn bk_02_a_backup_is_late_by_a_random_tenth_of_the_interval_and_at_most_a_minute() {
        for (interval, most) in [(Duration::from_mins(1), 6), (HOUR, 60), (Duration::from_hours(24), 60)] {
            let delays: Vec<Duration> = (0..100).map(|_| jitter(interval)).collect();
            assert!(delays.iter().all(|delay| *delay <= Duration::from_secs(most)), "{delays:?}");
            let (mean, most) = (delays.iter().sum::<Duration>() / 100, Duration::from_secs(most));
            assert!(mean > most / 4 && mean < most * 3 / 4, "{mean:?}");
        }
    }
}
