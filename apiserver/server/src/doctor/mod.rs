//! Command `capstan doctor`: the health of a node and of its installation, with a remedy for each finding.

mod etcd;
mod files;
mod host;
mod server;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use serde::Serialize;

use crate::cli::DoctorArguments;
use crate::config::ServerConfiguration;
use crate::output;

/// Longest time of one query. A person waits for the command.
const PATIENCE: Duration = Duration::from_secs(5);

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    Ok,
    /// An operator must act soon.
    Warning,
    /// Something does not work.
    Error,
}

/// Result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Finding {
    level: Level,
    /// The subject: a file, a member, a server.
    subject: String,
    message: String,
}

impl Finding {
    fn new(level: Level, subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self { level, subject: subject.into(), message: message.into() }
    }
}

/// Node that is examined.
struct Node {
    configuration: ServerConfiguration,
    data: PathBuf,
}

/// Runs all checks, and prints their results.
///
/// # Errors
/// A configuration that cannot be read; an error that a check has found.
pub(crate) fn doctor(arguments: &DoctorArguments) -> anyhow::Result<()> {
    let configuration = ServerConfiguration::read(&arguments.config)?;
    let data = configuration.data_directory()?;
    let node = Node { configuration, data };
    let mut findings = files::check(&node);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    findings.extend(runtime.block_on(async {
        let mut found = server::check(&node).await;
        found.extend(etcd::check(&node).await);
        found
    }));
    let text = match arguments.json {
        true => format!("{}\n", serde_json::to_string_pretty(&findings)?),
        false => rendered(&findings),
    };
    output::print(&text)?;
    let errors = findings.iter().filter(|it| it.level == Level::Error).count();
    if errors > 0 {
        bail!("{errors} of {} checks have found an error", findings.len());
    }
    Ok(())
}

fn rendered(findings: &[Finding]) -> String {
    let mut text = String::new();
    for Finding { level, subject, message } in findings {
        let level = match level {
            Level::Ok => "ok",
            Level::Warning => "WARNING",
            Level::Error => "ERROR",
        };
        let _ = writeln!(text, "{level:<8} {subject}: {message}");
    }
    text
}
