//! Metrics of scheduled backups and of their trial restores.

use std::sync::atomic::AtomicU64;

use jiff::Timestamp;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::file::{Taken, VerificationFailed};

/// Metrics of backups. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct BackupMetrics {
    last_success: Gauge<f64, AtomicU64>,
    pub(super) interval: Gauge<f64, AtomicU64>,
    duration: Gauge<f64, AtomicU64>,
    size: Gauge,
    failures: Counter,
    verify_failures: Counter,
    pub(super) trial_success: Gauge<f64, AtomicU64>,
    pub(super) trial_duration: Gauge<f64, AtomicU64>,
    pub(super) trial_failures: Counter,
}

impl BackupMetrics {
    /// Creates the metrics in a registry.
    pub(crate) fn registered(registry: &mut Registry) -> Self {
        let it = Self::default();
        registry.register(
            "capstan_backup_last_success_timestamp_seconds",
            "Time of the newest scheduled backup in the destination where that is the oldest, as the leader knows it; 0 before it knows each",
            it.last_success.clone(),
        );
        registry.register(
            "capstan_backup_interval_seconds",
            "Interval of scheduled backups, as this server is configured",
            it.interval.clone(),
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
        registry.register(
            "capstan_backup_trial_restore_last_success_timestamp_seconds",
            "Time at which the newest backup of each destination was last restored to a temporary store, 0 before that",
            it.trial_success.clone(),
        );
        registry.register(
            "capstan_backup_trial_restore_duration_seconds",
            "Duration of the last trial restore",
            it.trial_duration.clone(),
        );
        registry.register(
            "capstan_backup_trial_restore_failures",
            "Trial restores that failed",
            it.trial_failures.clone(),
        );
        it
    }

    /// Sets the time of the last success: the least over all destinations.
    pub(super) fn newest(&self, time: Timestamp) {
        // A float is exact for seconds.
        self.last_success.set(time.as_duration().as_secs_f64());
    }

    pub(super) fn succeed(&self, taken: &Taken) {
        // The size is exact for files below 8 EiB.
        self.duration.set(taken.duration.as_secs_f64());
        self.size.set(i64::try_from(taken.size).unwrap_or(i64::MAX));
        if taken.values.result().is_err() {
            self.verify_failures.inc();
        }
    }

    pub(super) fn fail(&self, error: &anyhow::Error) {
        self.failures.inc();
        if error.is::<VerificationFailed>() {
            self.verify_failures.inc();
        }
    }
}
