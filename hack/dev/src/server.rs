//! Capstan server as a child process.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::process::{Child, Command};

use crate::home::Home;

/// Longest time from start to the first connection.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Longest time for a graceful shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(15);

/// Number of log lines that are shown if the server exits by itself.
const SHOWN_LOG_LINES: usize = 10;

/// A running server.
pub(crate) struct CapstanProcess {
    child: Child,
    binary: PathBuf,
    address: String,
    log: PathBuf,
}

impl CapstanProcess {
    /// Starts the server.
    pub(crate) fn start(binary: &Path, home: &Home, address: &str) -> anyhow::Result<Self> {
        let log = home.path("capstan.log");
        let file = File::create(&log).with_context(|| format!("{} cannot be written", log.display()))?;
        let mut command = Command::new(binary);
        command.args(["serve", "--listen", address, "--data-dir"]).arg(home.path("data"));
        // The server gets a process group of its own: Ctrl-C reaches this process only, which then shuts it
        // down.
        command.process_group(0).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).env("NO_COLOR", "1");
        let child = command.spawn().with_context(|| format!("{} cannot be run", binary.display()))?;
        Ok(Self { child, binary: binary.to_owned(), address: address.to_owned(), log })
    }

    /// Returns the server's URL.
    pub(crate) fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Waits until the server accepts connections, and writes a kubeconfig.
    pub(crate) async fn ready(&mut self, home: &Home) -> anyhow::Result<Client> {
        let end = Instant::now() + START_TIMEOUT;
        while tokio::net::TcpStream::connect(&self.address).await.is_err() {
            self.check()?;
            if Instant::now() > end {
                bail!(
                    "the server did not accept connections on {} within {} s",
                    self.address,
                    START_TIMEOUT.as_secs()
                );
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let mut mint = Command::new(&self.binary);
        mint.args(["kubeconfig", "--expires", "30d", "--server", &self.url(), "--data-dir"])
            .arg(home.path("data"));
        let output = mint.output().await.context("a kubeconfig cannot be created")?;
        if !output.status.success() {
            bail!("a kubeconfig cannot be created: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let path = home.path("kubeconfig");
        std::fs::write(&path, &output.stdout)
            .with_context(|| format!("{} cannot be written", path.display()))?;
        let kubeconfig = Kubeconfig::read_from(&path)?;
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        let client = Client::try_from(config)?;
        // The permissions of the kubeconfig come from a role, which the server reads when it starts.
        let ready = || http::Request::get("/readyz").body(Vec::new());
        while client.request_text(ready()?).await.is_err() {
            self.check()?;
            if Instant::now() > end {
                bail!("the server was not ready within {} s", START_TIMEOUT.as_secs());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(client)
    }

    /// Fails if the server has exited, with the last lines of its log.
    pub(crate) fn check(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait()? {
            Some(status) => Err(self.exit_error(&status.to_string())),
            None => Ok(()),
        }
    }

    /// Waits until the server exits by itself.
    pub(crate) async fn ended(&mut self) -> anyhow::Error {
        match self.child.wait().await {
            Ok(status) => self.exit_error(&status.to_string()),
            Err(error) => error.into(),
        }
    }

    fn exit_error(&self, status: &str) -> anyhow::Error {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines.get(lines.len().saturating_sub(SHOWN_LOG_LINES)..).unwrap_or_default().join("\n  ");
        anyhow!("the server exited ({status}); the last lines of its log:\n  {last}")
    }

    /// Sends SIGTERM, and kills the server if it does not exit in time.
    pub(crate) async fn stop(&mut self) {
        let Some(id) = self.child.id() else { return };
        let _ = Command::new("kill").arg(id.to_string()).status().await;
        if tokio::time::timeout(SHUTDOWN_TIMEOUT, self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
    }
}
