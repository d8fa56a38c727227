//! A Capstan for anybody's recorded requests: the product without controllers, and the kind Widget.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use apiserver_server::Assembly;
use clap::Args;

/// How long the client certificate is good.
const LIFETIME: Duration = Duration::from_secs(365 * 86_400);

/// How often it is looked whether the parent is still there.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Serves until SIGTERM or SIGINT.
#[derive(Debug, Args)]
pub struct ServeArguments {
    /// Port on 127.0.0.1
    #[arg(long)]
    pub port: u16,
    /// Directory for ca.crt, client.crt and client.key, and the store [default: a temporary one]
    #[arg(long, value_name = "DIRECTORY")]
    pub dir: Option<PathBuf>,
    /// End when whoever started it is gone
    #[arg(long)]
    pub with_parent: bool,
}

/// Serves until told to stop.
///
/// # Errors
/// When it cannot.
pub fn serve(arguments: &ServeArguments) -> anyhow::Result<()> {
    let temporary = tempfile::tempdir().context("there is no place for a temporary directory")?;
    let directory = arguments.dir.as_deref().unwrap_or_else(|| temporary.path());
    mint(directory)?;
    let data = directory.join("data");
    if arguments.with_parent {
        end_with_parent();
    }
    let mut line = vec!["serve".to_owned()];
    line.push(format!("--listen=127.0.0.1:{}", arguments.port));
    line.push(format!("--data-dir={}", data.display()));
    capstan(line)
}

/// Runs the product's command line with the product's parts and the Widget, without controllers.
///
/// # Errors
/// When it cannot.
pub fn capstan(arguments: Vec<String>) -> anyhow::Result<()> {
    // Those that a real server makes by itself, and not our own.
    let namespaces = vec!["default".to_owned()];
    let assembly = Assembly { kinds: tests_widget::resources()?, namespaces, controllers: false };
    apiserver_server::run(std::iter::once("capstan".to_owned()).chain(arguments), &assembly)
}

/// Writes what a client who may do everything needs, for a server whose data are in `directory/data`.
///
/// # Errors
/// When the directory cannot be written to.
pub fn mint(directory: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory).with_context(|| format!("{} cannot be made", directory.display()))?;
    let made =
        apiserver_server::credentials(&directory.join("data"), "conformance", "system:masters", LIFETIME)?;
    for (name, text) in [("ca.crt", &made.ca), ("client.crt", &made.certificate), ("client.key", &made.key)] {
        let path = directory.join(name);
        std::fs::write(&path, text).with_context(|| format!("{} cannot be written", path.display()))?;
    }
    Ok(())
}

/// Tells this process to end in its orderly way once its parent is another one.
fn end_with_parent() {
    let parent = std::os::unix::process::parent_id();
    std::thread::spawn(move || {
        while std::os::unix::process::parent_id() == parent {
            std::thread::sleep(LOOK_EVERY);
        }
        let _ = std::process::Command::new("kill").arg(std::process::id().to_string()).status();
    });
}
