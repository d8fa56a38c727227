//! Settings under `backup`: the key of backups, and the schedule of those that the leader writes.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use serde::Deserialize;

use super::{Destination, S3, Swift};
use crate::cli;

/// Default name of the installation.
const NAME: &str = "capstan";

/// Shortest interval: a backup of many objects takes some seconds.
const SHORTEST: Duration = Duration::from_mins(1);

/// Settings of backups.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Backup {
    /// Name of the installation, in backups and in the names of their files. Default: `capstan`.
    pub(crate) name: Option<String>,
    /// File with the key that seals backups, see `capstan backup key`. Default: none.
    pub(crate) key_file: Option<PathBuf>,
    /// Backups that the leader writes. Default: none.
    pub(crate) schedule: Option<Schedule>,
    /// Credentials for destinations in S3. Default: environment variables.
    pub(crate) s3: S3,
    /// Credentials for destinations in Swift. Default: none.
    pub(crate) swift: Swift,
}

/// Backups that the leader writes.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Schedule {
    /// Interval, e.g. `1h`. Minimum: `1m`.
    pub(crate) every: String,
    /// Destinations: `file:` and the absolute path of a directory, `s3://BUCKET/PREFIX?endpoint=URL`, or
    /// `swift://CONTAINER/PREFIX`.
    #[serde(default)]
    pub(crate) to: Vec<String>,
    /// Number of backups to keep.
    #[serde(default)]
    pub(crate) keep: Keep,
}

/// Number of backups to keep: the newest one of each of so many hours, days and weeks that have one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Keep {
    /// Hours. Default: 24.
    pub(crate) hourly: usize,
    /// Days. Default: 7.
    pub(crate) daily: usize,
    /// Weeks. Default: 4.
    pub(crate) weekly: usize,
}

impl Default for Keep {
    fn default() -> Self {
        Self { hourly: 24, daily: 7, weekly: 4 }
    }
}

impl Backup {
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if self.name().is_empty() || !self.name().chars().all(is_letter) {
            bail!("backup.name: must consist of letters, digits, dots, dashes and underscores");
        }
        self.s3.check()?;
        let Some(schedule) = &self.schedule else { return Ok(()) };
        schedule.interval()?;
        if schedule.to.is_empty() {
            bail!("backup.schedule.to: must name at least one target, such as file:/var/backups/capstan");
        }
        let has_swift = schedule.destinations()?.iter().any(|it| matches!(it, Destination::Swift(_)));
        if has_swift && self.swift.clouds_file.is_none() {
            bail!("backup.swift.cloudsFile: must be set for a destination swift://");
        }
        if self.key_file.is_none() {
            bail!(
                "backup.keyFile: must be set for backup.schedule; create one with `capstan backup key FILE`"
            );
        }
        Ok(())
    }

    /// Returns the name of the installation.
    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(NAME)
    }
}

impl Schedule {
    /// Returns the interval.
    pub(crate) fn interval(&self) -> anyhow::Result<Duration> {
        let interval = cli::duration_or_none(&self.every);
        let interval = interval.map_err(|error| anyhow!("backup.schedule.every: {error}"))?;
        if interval < SHORTEST {
            bail!("backup.schedule.every: must be at least 1m");
        }
        Ok(interval)
    }

    /// Returns the destinations.
    pub(crate) fn destinations(&self) -> anyhow::Result<Vec<Destination>> {
        let each = self.to.iter().enumerate().map(|(index, text)| {
            let named = || format!("backup.schedule.to[{index}]: {text:?} is no destination");
            let destination = Destination::parse(text).with_context(named)?;
            destination.check_scheduled().with_context(named)?;
            Ok(destination)
        });
        each.collect()
    }
}
