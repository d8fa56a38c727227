//! Settings under `audit`: the audit log of requests.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use apiserver_http::{AuditFile, AuditLog, Stage};
use serde::Deserialize;

use crate::audit::{Destination, Webhook};
use crate::cli;

/// Default size of the file before it is rotated, as upstream advises. Unit: megabytes.
const MEGABYTES: u64 = 100;

/// Default number of rotated files that are kept. With the newest file they take 600 MB, some days of a busy server.
const KEPT: usize = 5;

/// Default size of a batch for the webhook: upstream's. Unit: events.
const BATCH: usize = 400;

/// Default of the longest time that an event waits for a batch: upstream's.
const BATCH_WAIT: Duration = Duration::from_secs(30);

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
    /// Stages that are not recorded. Default: `RequestReceived`, because the last stage repeats all of it. With a policy
    /// file: none, because the policy has its own.
    pub(crate) omit_stages: Option<Vec<String>>,
    /// File with the policy, in the format of Kubernetes' `audit.k8s.io/v1` `Policy`. Default: every request is recorded
    /// at level `Metadata`.
    pub(crate) policy_file: Option<PathBuf>,
    /// Webhook that gets all events, besides the file. Default: none.
    pub(crate) webhook: Option<AuditWebhook>,
}

/// Settings of the webhook of the audit log.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AuditWebhook {
    /// URL, which begins with `https://`.
    pub(crate) url: String,
    /// CAs of its serving certificate, in PEM. Default: those of the system.
    pub(crate) ca_file: Option<PathBuf>,
    /// Client certificate of Capstan, in PEM. Default: none.
    pub(crate) client_cert_file: Option<PathBuf>,
    /// Key of the client certificate, in PEM. Default: none.
    pub(crate) client_key_file: Option<PathBuf>,
    /// File with a bearer token. Default: none.
    pub(crate) token_file: Option<PathBuf>,
    /// Largest number of events in one call. Default: 400.
    pub(crate) batch_max_size: Option<usize>,
    /// Longest time that an event waits for others. Default: 30s.
    pub(crate) batch_max_wait: Option<String>,
}

impl AuditWebhook {
    fn destination(&self) -> anyhow::Result<Destination> {
        if !self.url.starts_with("https://") {
            bail!("audit.webhook.url: must begin with https://, because events have names and bodies");
        }
        let certificate = match (&self.client_cert_file, &self.client_key_file) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
            _ => bail!("audit.webhook.clientCertFile and audit.webhook.clientKeyFile: set both or none"),
        };
        let batch = self.batch_max_size.unwrap_or(BATCH);
        if batch == 0 {
            bail!("audit.webhook.batchMaxSize: must be at least 1");
        }
        let wait = self.batch_max_wait.as_deref().map(cli::duration_or_none).transpose();
        let wait = wait.map_err(|error| anyhow!("audit.webhook.batchMaxWait: {error}"))?;
        Ok(Destination {
            url: self.url.clone(),
            ca: self.ca_file.clone(),
            certificate,
            token: self.token_file.clone(),
            batch,
            wait: wait.unwrap_or(BATCH_WAIT),
        })
    }
}

impl Default for Audit {
    fn default() -> Self {
        Self {
            enabled: true,
            path: None,
            max_size_megabytes: MEGABYTES,
            max_backups: KEPT,
            omit_stages: None,
            policy_file: None,
            webhook: None,
        }
    }
}

impl Audit {
    pub(super) fn check(&self) -> anyhow::Result<()> {
        if self.max_size_megabytes == 0 {
            bail!("audit.maxSizeMegabytes: must be at least 1");
        }
        if !self.enabled && (self.policy_file.is_some() || self.webhook.is_some()) {
            bail!("audit.enabled: must be true if audit.policyFile or audit.webhook is set");
        }
        self.webhook.as_ref().map(AuditWebhook::destination).transpose()?;
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
        match &self.omit_stages {
            Some(words) => words.iter().map(stage).collect(),
            None if self.policy_file.is_some() => Ok(Vec::new()),
            None => Ok(vec![Stage::RequestReceived]),
        }
    }

    /// Opens the audit log. Returns `None` if it is disabled.
    pub(crate) fn open(&self, data: &Path) -> anyhow::Result<Option<AuditLog>> {
        if !self.enabled {
            return Ok(None);
        }
        let log = self.open_file(data)?;
        let Some(webhook) = &self.webhook else { return Ok(Some(log)) };
        let webhook = Webhook::start(webhook.destination()?).context("audit.webhook")?;
        Ok(Some(log.with_webhook(Arc::new(webhook))))
    }

    fn open_file(&self, data: &Path) -> anyhow::Result<AuditLog> {
        let omitted = self.omitted()?;
        if self.path.as_deref() == Some(Path::new(STDOUT)) {
            return Ok(AuditLog::to_stdout(omitted)?);
        }
        let path = self.path.clone().unwrap_or_else(|| data.join("audit/audit.log"));
        let largest = self.max_size_megabytes.saturating_mul(1_000_000);
        let file = AuditFile::open(&path, largest, self.max_backups)
            .with_context(|| format!("audit.path: {} cannot be written", path.display()))?;
        Ok(AuditLog::to_file(file, omitted)?)
    }
}
