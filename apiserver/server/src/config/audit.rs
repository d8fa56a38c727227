//! Settings under `audit`: the audit log of requests.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use apiserver_http::{AuditChain, AuditFile, AuditLog, ChainLink, Stage};
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
    /// Links between the lines, which `capstan audit verify` checks. Default: none.
    pub(crate) chain: AuditLinks,
}

/// Settings of the links between the lines.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct AuditLinks {
    /// True if each line has the annotation `capstan.dev/chain`. Default: false, because the lines then have the form of
    /// upstream.
    pub(crate) enabled: bool,
    /// File with the audit key. Default: `audit.key` in the data directory, which the first start creates.
    pub(crate) key_file: Option<PathBuf>,
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
            chain: AuditLinks::default(),
        }
    }
}

impl Audit {
    pub(super) fn check(&self) -> anyhow::Result<()> {
        if self.max_size_megabytes == 0 {
            bail!("audit.maxSizeMegabytes: must be at least 1");
        }
        if !self.enabled && (self.policy_file.is_some() || self.webhook.is_some() || self.chain.enabled) {
            bail!(
                "audit.enabled: must be true if audit.policyFile, audit.webhook or audit.chain.enabled is set"
            );
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

    /// Opens the audit log without links. Returns `None` if it is disabled.
    pub(crate) fn open(&self, data: &Path) -> anyhow::Result<Option<AuditLog>> {
        if !self.enabled {
            return Ok(None);
        }
        let omitted = self.omitted()?;
        let log = match self.file(data) {
            None => AuditLog::to_stdout(omitted, None)?,
            Some(path) => {
                let file = AuditFile::open(&path, self.largest(), self.max_backups);
                AuditLog::to_file(file.with_context(|| unwritable(&path))?, omitted)?
            }
        };
        self.with_webhook(log).map(Some)
    }

    /// Opens the file of a log with links, and returns it with the link of its last line. `None`: the log goes to standard
    /// output.
    pub(crate) fn open_chained_file(
        &self,
        data: &Path,
    ) -> anyhow::Result<Option<(AuditFile, Option<ChainLink>)>> {
        let Some(path) = self.file(data) else { return Ok(None) };
        let file = AuditFile::open_chained(&path, self.largest(), self.max_backups);
        file.with_context(|| unwritable(&path)).map(Some)
    }

    /// Starts a log with links.
    pub(crate) fn start_chained(
        &self,
        file: Option<AuditFile>,
        chain: AuditChain,
    ) -> anyhow::Result<AuditLog> {
        let omitted = self.omitted()?;
        let log = match file {
            None => AuditLog::to_stdout(omitted, Some(chain))?,
            Some(file) => AuditLog::to_chained_file(file, omitted, chain)?,
        };
        self.with_webhook(log)
    }

    fn with_webhook(&self, log: AuditLog) -> anyhow::Result<AuditLog> {
        let Some(webhook) = &self.webhook else { return Ok(log) };
        let webhook = Webhook::start(webhook.destination()?).context("audit.webhook")?;
        Ok(log.with_webhook(Arc::new(webhook)))
    }

    /// Returns the path of the file; `None` for standard output.
    fn file(&self, data: &Path) -> Option<PathBuf> {
        let path = self.path.clone().unwrap_or_else(|| data.join("audit/audit.log"));
        (path != Path::new(STDOUT)).then_some(path)
    }

    fn largest(&self) -> u64 {
        self.max_size_megabytes.saturating_mul(1_000_000)
    }
}

fn unwritable(path: &Path) -> String {
    format!("audit.path: {} cannot be written", path.display())
}
