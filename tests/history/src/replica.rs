//! Server under test, as a child process.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::{InjectedBug, client, etcd};

/// Longest time of a start on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A running server.
pub(crate) struct Replica {
    child: Child,
    binary: PathBuf,
    port: u16,
    endpoints: String,
    bug: Option<InjectedBug>,
    log: PathBuf,
}

impl Replica {
    pub(crate) async fn start(
        binary: &Path,
        endpoints: &[String],
        bug: Option<InjectedBug>,
        log: PathBuf,
    ) -> anyhow::Result<Self> {
        let (port, endpoints) = (etcd::free_port()?, endpoints.join(","));
        let child = spawn(binary, port, &endpoints, bug, &log)?;
        let replica = Self { child, binary: binary.to_owned(), port, endpoints, bug, log };
        replica.wait().await?;
        Ok(replica)
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// Kills the server, as a power failure would.
    pub(crate) fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Restarts the server on the same port.
    pub(crate) fn restart(&mut self) -> anyhow::Result<()> {
        self.child = spawn(&self.binary, self.port, &self.endpoints, self.bug, &self.log)?;
        Ok(())
    }

    async fn wait(&self) -> anyhow::Result<()> {
        let begun = Instant::now();
        while !client::send(self.port, "GET", crate::writers::GADGETS, None)
            .await
            .is_ok_and(|(code, _)| code == 200)
        {
            if begun.elapsed() > START_TIMEOUT {
                let log = std::fs::read_to_string(&self.log).unwrap_or_default();
                bail!("a server did not start within {START_TIMEOUT:?}: {log}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }
}

fn spawn(
    binary: &Path,
    port: u16,
    endpoints: &str,
    bug: Option<InjectedBug>,
    log: &Path,
) -> anyhow::Result<Child> {
    let log = File::options().create(true).append(true).open(log)?;
    let mut command = Command::new(binary);
    command.arg(port.to_string()).arg(endpoints);
    command.args(bug.map(|bug| bug.to_string()));
    command.stdout(log.try_clone()?).stderr(log);
    command.spawn().with_context(|| format!("{} cannot be started", binary.display()))
}

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
