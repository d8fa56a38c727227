//! Settings under `audit`: the audit log of requests.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use apiserver_http::{AuditFile, AuditLog, Stage};
use serde::Deserialize;

/// Default size of the file before it is rotated, as upstream advises. Unit: megabytes.
const MEGABYTES: u64 = 100;

/// Default number of rotated files that are kept. With the newest file they take 600 MB, some days of a busy server.
const KEPT: usize = 5;

/// Value of `path` for standard output.
const STDOUT: &str = "-";

/// Settings of the audit log, which records the user and the action of each request.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Audit {
    /// True if requests are recorded. Default: true.
    pub(crate) enabled: bool,
    /// The file, or `-` for standard output. Default: `audit/audit.log` in the data directory.
    pub(crate) path: Option<PathBuf>,
    /// Size at which the file is rotated. Unit: megabytes. Default: 100.
    pub(crate) max_size_megabytes: u64,
    /// Number of rotated files that are kept. Default: 5.
    pub(crate) max_backups: usize,
    /// Stages that are not recorded. Default: `RequestReceived`, because the last stage repeats all of it.
    pub(crate) omit_stages: Vec<String>,
}

impl Default for Audit {
    fn default() -> Self {
        let omit_stages = vec![Stage::RequestReceived.word().to_owned()];
        Self { enabled: true, path: None, max_size_megabytes: MEGABYTES, max_backups: KEPT, omit_stages }
    }
}

impl Audit {
    pub(super) fn check(&self) -> anyhow::Result<()> {
        if self.max_size_megabytes == 0 {
            bail!("audit.maxSizeMegabytes: must be at least 1");
        }
        self.omitted().map(|_| ())
    }

    fn omitted(&self) -> anyhow::Result<Vec<Stage>> {
        let stage = |word: &String| {
            Stage::parse(word).with_context(|| {
                format!(
                    "audit.omitStages: must be RequestReceived, ResponseStarted, ResponseComplete or Panic, not {word:?}"
                )
            })
        };
        self.omit_stages.iter().map(stage).collect()
    }

    /// Opens the audit log. Returns `None` if it is disabled.
    pub(crate) fn open(&self, data: &Path) -> anyhow::Result<Option<AuditLog>> {
        if !self.enabled {
            return Ok(None);
        }
        let omitted = self.omitted()?;
        if self.path.as_deref() == Some(Path::new(STDOUT)) {
            return Ok(Some(AuditLog::to_stdout(omitted)?));
        }
        let path = self.path.clone().unwrap_or_else(|| data.join("audit/audit.log"));
        let largest = self.max_size_megabytes.saturating_mul(1_000_000);
        let file = AuditFile::open(&path, largest, self.max_backups)
            .with_context(|| format!("audit.path: {} cannot be written", path.display()))?;
        Ok(Some(AuditLog::to_file(file, omitted)?))
    }
}
