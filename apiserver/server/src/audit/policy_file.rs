//! Policy file of the audit log, reloaded while the server runs.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use apiserver_http::{AuditLog, Policy};
use tokio_util::sync::CancellationToken;

use crate::pki;
use crate::reload_health::ReloadHealth;
use crate::rereads::Rereads;

/// Interval at which the file is checked for changes.
const POLL_INTERVAL: Duration = Duration::from_secs(30);

/// The policy file, and the log that it configures.
#[derive(Debug)]
pub(crate) struct PolicyFile {
    path: PathBuf,
    /// Text in force; `None` before the first read, so that an empty file is no policy that is in force already.
    last: Option<String>,
    log: AuditLog,
    health: ReloadHealth,
}

impl PolicyFile {
    /// Reads the file and applies it to the log.
    ///
    /// # Errors
    /// The file cannot be read or is not valid. The server then does not start.
    pub(crate) fn open(path: &Path, log: &AuditLog) -> anyhow::Result<Self> {
        let (path, log) = (path.to_owned(), log.clone());
        let mut file = Self { path, last: None, log, health: ReloadHealth::default() };
        file.reload().context("audit.policyFile")?;
        Ok(file)
    }

    /// Applies the file after each change, until `shutdown`. While it is invalid, the last policy stays in force.
    pub(crate) async fn follow(mut self, shutdown: CancellationToken) {
        let mut rereads = Rereads::every(POLL_INTERVAL);
        while shutdown.run_until_cancelled(rereads.next()).await.is_some() {
            match self.reload() {
                Ok(is_new) => {
                    self.health.succeed();
                    if is_new {
                        tracing::info!(file = %self.path.display(), "the audit policy is reloaded");
                    }
                }
                Err(error) => {
                    let error = format!("{error:#}");
                    if self.health.fail(&error, Instant::now()) {
                        tracing::error!(error, "the audit policy is invalid; the last one stays in force");
                    }
                }
            }
        }
    }

    /// Applies the file if it changed. Returns true if it did.
    fn reload(&mut self) -> anyhow::Result<bool> {
        let text = pki::read(&self.path)?;
        if self.last.as_ref() == Some(&text) {
            return Ok(false);
        }
        let policy = Policy::parse(&text).map_err(|error| anyhow!("{}: {error}", self.path.display()))?;
        self.log.set_policy(policy);
        self.last = Some(text);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use apiserver_http::AuditFile;

    use super::*;

    const HEAD: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\n";

    #[test]
    fn an_invalid_policy_is_refused_at_the_start_and_changes_nothing_later() {
        let directory = tempfile::tempdir().unwrap();
        let (path, log) = (directory.path().join("policy.yaml"), directory.path().join("audit.log"));
        let log = AuditLog::to_file(AuditFile::open(&log, 1000, 1).unwrap(), Vec::new()).unwrap();
        let open = || PolicyFile::open(&path, &log);
        assert!(format!("{:#}", open().unwrap_err()).contains("policy.yaml: cannot be read"));
        std::fs::write(&path, "").unwrap();
        assert!(open().is_err(), "an empty file is no policy");
        std::fs::write(&path, format!("{HEAD}rules: [{{level: Some}}]")).unwrap();
        let error = format!("{:#}", open().unwrap_err());
        assert!(error.contains("audit.policyFile") && error.contains("rules[0].level"), "{error}");
        std::fs::write(&path, format!("{HEAD}rules: [{{level: Metadata}}]")).unwrap();
        let mut file = open().unwrap();
        assert!(!file.reload().unwrap());
        std::fs::write(&path, "kind: Other").unwrap();
        assert!(file.reload().is_err() && file.reload().is_err(), "it is not taken for the one in force");
        std::fs::write(&path, format!("{HEAD}rules: [{{level: None}}]")).unwrap();
        assert!(file.reload().unwrap());
    }
}
