//! `audit`: where it is written down who did what.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use apiserver_http::{AuditFile, AuditLog, Stage};
use serde::Deserialize;

/// Size of the file after which the next is begun, when nothing is said: upstream's advice.
const MEGABYTES: u64 = 100;

/// Older files that are kept, when nothing is said: with the newest they are 600 MB, some days of a
/// busy server.
const KEPT: usize = 5;

/// Stands for standard output.
const STDOUT: &str = "-";

/// Where it is written down who did what.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Audit {
    /// Whether it is. Default: true.
    pub(crate) enabled: bool,
    /// The file, or `-` for standard output. Default: `audit/audit.log` in the data directory.
    pub(crate) path: Option<PathBuf>,
    /// The file is put aside when it is larger. Default: 100.
    pub(crate) max_size_megabytes: u64,
    /// Files put aside that are kept. Default: 5.
    pub(crate) max_backups: usize,
    /// Stages that are not written. Default: `RequestReceived`, as the end tells it all again.
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

    /// Opens it; `None` when none is wanted.
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
