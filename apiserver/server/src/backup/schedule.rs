//! Backups that the leader writes to directories, at an interval.

use std::collections::BTreeSet;
use std::fs::DirEntry;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use anyhow::Context;
use jiff::Timestamp;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use storage_contract::Store;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use super::file::{self, Taken, VerificationFailed};
use super::{key_file, refuse_the_encryption_key, retention};
use crate::config::{Schedule, ServerConfiguration};
use crate::encryption_keys::EncryptionKeys;
use crate::pki;

/// Pause after a failed backup, if the interval is longer.
const RETRY: Duration = Duration::from_mins(5);

/// Largest random delay of a backup, as a part of the interval and as a time. Many installations on one disk or network
/// do not begin at the same moment.
const JITTER: (u32, Duration) = (10, Duration::from_secs(60));

/// Age after which an incomplete file is that of a server that was killed.
const ABANDONED: Duration = Duration::from_hours(24);

/// Metrics of backups. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct BackupMetrics {
    last_success: Gauge<f64, AtomicU64>,
    duration: Gauge<f64, AtomicU64>,
    size: Gauge,
    failures: Counter,
    verify_failures: Counter,
}

impl BackupMetrics {
    /// Creates the metrics in a registry.
    pub(crate) fn registered(registry: &mut Registry) -> Self {
        let it = Self::default();
        registry.register(
            "capstan_backup_last_success_timestamp_seconds",
            "Time at which this server last wrote and verified a scheduled backup, 0 before the first one",
            it.last_success.clone(),
        );
        registry.register(
            "capstan_backup_duration_seconds",
            "Duration of the last scheduled backup",
            it.duration.clone(),
        );
        registry.register("capstan_backup_size_bytes", "Size of the last scheduled backup", it.size.clone());
        registry.register("capstan_backup_failures", "Scheduled backups that failed", it.failures.clone());
        registry.register(
            "capstan_backup_verify_failures",
            "Scheduled backups that differed when they were read back, or have damaged values",
            it.verify_failures.clone(),
        );
        it
    }

    fn succeed(&self, taken: &Taken) {
        // A float is exact for seconds, and the size for files below 8 EiB.
        self.last_success.set(Timestamp::now().as_duration().as_secs_f64());
        self.duration.set(taken.duration.as_secs_f64());
        self.size.set(i64::try_from(taken.size).unwrap_or(i64::MAX));
        if taken.values.result().is_err() {
            self.verify_failures.inc();
        }
    }

    fn fail(&self, error: &anyhow::Error) {
        self.failures.inc();
        if error.is::<VerificationFailed>() {
            self.verify_failures.inc();
        }
    }
}

/// Scheduled backups of a server.
pub(crate) struct Backups {
    configuration: ServerConfiguration,
    schedule: Schedule,
    store: Arc<dyn Store>,
    encryption: EncryptionKeys,
    metrics: BackupMetrics,
}

impl Backups {
    /// Creates them, if the configuration has a schedule.
    pub(crate) fn new(
        configuration: &ServerConfiguration,
        store: &Arc<dyn Store>,
        encryption: &EncryptionKeys,
        metrics: BackupMetrics,
    ) -> Option<Arc<Self>> {
        Some(Arc::new(Self {
            schedule: configuration.backup.schedule.clone()?,
            configuration: configuration.clone(),
            store: Arc::clone(store),
            encryption: encryption.clone(),
            metrics,
        }))
    }

    /// Writes backups until `end`. A run that was missed is made up once.
    pub(crate) async fn run(self: Arc<Self>, end: CancellationToken) {
        let Ok(interval) = self.schedule.interval() else { return };
        loop {
            let wait = self.until_due(interval) + jitter(interval);
            if end.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
                return;
            }
            let (backups, handle, ended) = (Arc::clone(&self), Handle::current(), end.clone());
            // Files are read and written on a thread of their own.
            let written = spawn_blocking(move || handle.block_on(backups.write_all(&ended))).await;
            let result = written.map_err(anyhow::Error::from).flatten();
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

    /// Returns the time until the next backup: an interval after the oldest of the targets' newest backups.
    fn until_due(&self, interval: Duration) -> Duration {
        let newest = self.schedule.directories().unwrap_or_default().into_iter().map(|directory| {
            // A directory that cannot be read has no backup: the attempt to write one reports the error.
            self.existing(&directory).unwrap_or_default().last().copied()
        });
        let Some(oldest) = newest.min().flatten() else { return Duration::ZERO };
        let age = Timestamp::now().duration_since(oldest);
        // A file from the future is of a clock that was wrong.
        let age = Duration::try_from(age).unwrap_or_default();
        interval.saturating_sub(age)
    }

    /// Returns the times of the backups in a directory.
    fn existing(&self, directory: &Path) -> std::io::Result<BTreeSet<Timestamp>> {
        let name = self.configuration.backup.name();
        let time = |file: DirEntry| retention::time_of(name, file.file_name().to_str()?);
        Ok(std::fs::read_dir(directory)?.filter_map(|file| time(file.ok()?)).collect())
    }

    /// Writes a backup to each target that is due, and removes those that expired.
    async fn write_all(&self, end: &CancellationToken) -> anyhow::Result<()> {
        let path = self.configuration.backup.key_file.as_deref().context("backup.keyFile is not set")?;
        let key = key_file::read(path)?;
        let encryption = self.encryption.encryption();
        refuse_the_encryption_key(&key, Some(&encryption))?;
        for directory in self.schedule.directories()? {
            pki::private_directory(&directory)?;
            let name = self.configuration.backup.name();
            let target = directory.join(retention::file_name(name, Timestamp::now()));
            let stop = || end.is_cancelled();
            let taken =
                file::take(self.store.as_ref(), &self.configuration, &key, &target, Some(&encryption), &stop);
            let taken = taken.await?;
            self.metrics.succeed(&taken);
            tracing::info!(
                file = %target.display(),
                values = taken.summary.entries,
                bytes = taken.size,
                revision = %taken.header.revision,
                seconds = taken.duration.as_secs_f64(),
                "backup written and verified"
            );
            if let Err(error) = taken.values.result() {
                tracing::error!(%error, "the store has damaged values");
            }
            self.remove_expired(&directory)?;
        }
        Ok(())
    }

    fn remove_expired(&self, directory: &Path) -> anyhow::Result<()> {
        let named = || format!("{}: expired backups cannot be removed", directory.display());
        let existing = self.existing(directory).with_context(named)?;
        for time in retention::expired(&existing, self.schedule.keep) {
            let file: PathBuf = directory.join(retention::file_name(self.configuration.backup.name(), time));
            std::fs::remove_file(&file).with_context(named)?;
            tracing::info!(file = %file.display(), "expired backup removed");
        }
        self.remove_abandoned(directory).with_context(named)
    }

    /// Removes incomplete files of servers that were killed.
    fn remove_abandoned(&self, directory: &Path) -> std::io::Result<()> {
        let name = self.configuration.backup.name();
        for file in std::fs::read_dir(directory)?.filter_map(Result::ok) {
            let path = file.file_name();
            let complete = path.to_str().and_then(|path| path.strip_suffix(file::PARTIAL));
            let time = complete.and_then(|complete| retention::time_of(name, complete));
            let age = time.and_then(|time| Duration::try_from(Timestamp::now().duration_since(time)).ok());
            if age.is_some_and(|age| age > ABANDONED) {
                std::fs::remove_file(file.path())?;
            }
        }
        Ok(())
    }
}

/// Returns a random delay.
fn jitter(interval: Duration) -> Duration {
    let most = (interval / JITTER.0).min(JITTER.1);
    let part = f64::from(uuid::Uuid::new_v4().as_fields().0) / f64::from(u32::MAX);
    most.mul_f64(part)
}
