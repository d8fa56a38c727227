//! Capstan server of the suite: without controllers, and with the kind Widget.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use apiserver_server::Assembly;
use clap::Args;

/// Lifetime of the client certificate.
const LIFETIME: Duration = Duration::from_secs(365 * 86_400);

/// Interval of the checks whether the parent process is still there.
const PARENT_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Serves until SIGTERM or SIGINT.
#[derive(Debug, Args)]
pub struct ServeArguments {
    /// Port on 127.0.0.1
    #[arg(long)]
    pub port: u16,
    /// Directory for ca.crt, client.crt and client.key, and the store [default: a temporary one]
    #[arg(long, value_name = "DIRECTORY")]
    pub dir: Option<PathBuf>,
    /// Audit policy; DIR/data/audit/audit.log has the events
    #[arg(long, value_name = "FILE")]
    pub audit_policy: Option<PathBuf>,
    /// Run the controllers, which write the status of quotas and of policies
    #[arg(long)]
    pub controllers: bool,
    /// Exit when the parent process has ended
    #[arg(long)]
    pub with_parent: bool,
}

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// Returns an error if the server cannot start.
pub fn serve(arguments: &ServeArguments) -> anyhow::Result<()> {
    let temporary = tempfile::tempdir().context("a temporary directory cannot be created")?;
    let directory = arguments.dir.as_deref().unwrap_or_else(|| temporary.path());
    mint(directory)?;
    let data = directory.join("data");
    if arguments.with_parent {
        end_with_parent();
    }
    let mut line = vec!["serve".to_owned()];
    line.push(format!("--listen=127.0.0.1:{}", arguments.port));
    line.push(format!("--data-dir={}", data.display()));
    if let Some(policy) = &arguments.audit_policy {
        line.push(format!("--config={}", configuration(directory, policy)?.display()));
    }
    run(line, arguments.controllers)
}

/// Writes the configuration of a server with an audit policy. Returns its path.
fn configuration(directory: &Path, policy: &Path) -> anyhow::Result<PathBuf> {
    let policy = std::path::absolute(policy)?;
    let text = format!(
        "apiVersion: capstan.dev/v1alpha1\nkind: ServerConfiguration\naudit:\n  policyFile: {}\n",
        policy.display()
    );
    let path = directory.join("capstan.yaml");
    std::fs::write(&path, text).with_context(|| format!("{} cannot be written", path.display()))?;
    Ok(path)
}

/// Runs Capstan's command line with its own kinds and the Widget, without controllers.
///
/// # Errors
/// Returns an error if the command fails.
pub fn capstan(arguments: Vec<String>) -> anyhow::Result<()> {
    run(arguments, false)
}

fn run(arguments: Vec<String>, controllers: bool) -> anyhow::Result<()> {
    // The namespace that a real server creates by itself. Capstan's own one has the Lease of the controllers.
    let own = controllers.then_some("capstan-system");
    let namespaces = ["default"].into_iter().chain(own).map(str::to_owned).collect();
    let assembly = Assembly { kinds: tests_widget::resources()?, namespaces, controllers };
    apiserver_server::run(std::iter::once("capstan".to_owned()).chain(arguments), &assembly)
}

/// Users of a server, each with the names of its files and its group. They have the names of the users of the reference.
const USERS: [(&str, &str, &str); 2] = [("admin", "client", "system:masters"), ("alice", "alice", "")];

/// Writes the credentials of an administrator and of `alice` for a server whose data directory is `directory/data`.
///
/// # Errors
/// Returns an error if the directory cannot be written to.
pub fn mint(directory: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory)
        .with_context(|| format!("{} cannot be created", directory.display()))?;
    for (user, file, group) in USERS {
        let credentials = apiserver_server::credentials(&directory.join("data"), user, group, LIFETIME)?;
        for (name, text) in [
            ("ca.crt".to_owned(), &credentials.ca),
            (format!("{file}.crt"), &credentials.certificate),
            (format!("{file}.key"), &credentials.key),
        ] {
            let path = directory.join(name);
            std::fs::write(&path, text).with_context(|| format!("{} cannot be written", path.display()))?;
        }
    }
    Ok(())
}

/// Sends SIGTERM to this process when its parent process has changed.
fn end_with_parent() {
    let parent = std::os::unix::process::parent_id();
    std::thread::spawn(move || {
        while std::os::unix::process::parent_id() == parent {
            std::thread::sleep(PARENT_CHECK_INTERVAL);
        }
        let _ = std::process::Command::new("kill").arg(std::process::id().to_string()).status();
    });
}
