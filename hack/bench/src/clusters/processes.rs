//! Child processes of a measurement: the server, and the cloud with its nodes.

use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::cloud;

/// Longest time from the start of the server until it is ready. A debug build on a busy machine needs a tenth of it.
const START_TIMEOUT: Duration = Duration::from_mins(1);

/// Interval of looks at a server that starts.
const POLL: Duration = Duration::from_millis(20);

/// Longest time for a graceful shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(20);

/// Process of the simulated cloud.
pub(super) struct CloudProcess {
    child: Child,
    requests: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    /// Documents `clouds.yaml`, by the name of the cloud.
    pub(super) credentials: Value,
}

impl CloudProcess {
    /// Starts the cloud, which is this program with another command.
    pub(super) async fn start(arguments: &cloud::Arguments) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("cloud");
        let cloud::Arguments { latency, boot, delete_time, node } = arguments;
        let times = [("latency", latency), ("boot", boot), ("delete-time", delete_time), ("node", node)];
        for (name, value) in times {
            command.arg(format!("--{name}")).arg(value.to_string());
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().context("the cloud cannot be started")?;
        let requests = child.stdin.take().context("the cloud has no standard input")?;
        let answers = child.stdout.take().context("the cloud has no standard output")?;
        let mut answers = BufReader::new(answers).lines();
        let credentials = read(&mut answers).await?;
        Ok(Self { child, requests, answers, credentials })
    }

    /// Returns the process id, or 0 if it has exited.
    pub(super) fn pid(&self) -> u32 {
        self.child.id().unwrap_or_default()
    }

    /// Sends a request, and returns its answer.
    pub(super) async fn ask(&mut self, request: &cloud::Request) -> anyhow::Result<Value> {
        self.requests.write_all(format!("{}\n", serde_json::to_string(request)?).as_bytes()).await?;
        read(&mut self.answers).await
    }

    /// Stops the cloud.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        let Self { mut child, requests, .. } = self;
        drop(requests);
        if tokio::time::timeout(SHUTDOWN_TIMEOUT, child.wait()).await.is_err() {
            child.kill().await?;
        }
        Ok(())
    }
}

async fn read(answers: &mut Lines<BufReader<ChildStdout>>) -> anyhow::Result<Value> {
    let line = answers.next_line().await?.context("the cloud has exited")?;
    serde_json::from_str(&line).context(line)
}

/// Process of the server.
pub(super) struct Capstan {
    child: Child,
    pub(super) client: Client,
}

impl Capstan {
    /// Starts a server with a store of its own, and waits until it is ready.
    pub(super) async fn start(binary: &Path, directory: &Path) -> anyhow::Result<Self> {
        let shown = binary.display();
        // Only the kernel can choose a free port. The server takes it a moment later.
        let address = std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?;
        let (log, data) = (File::create(directory.join("capstan.log"))?, directory.join("data"));
        let mut command = Command::new(binary);
        command.args(["serve", "--listen", &address.to_string(), "--data-dir"]).arg(&data);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).env("NO_COLOR", "1");
        let child = command.kill_on_drop(true).spawn().with_context(|| format!("{shown} cannot be run"))?;
        let begun = Instant::now();
        while tokio::net::TcpStream::connect(address).await.is_err() {
            wait(begun).await?;
        }
        let mut mint = Command::new(binary);
        mint.args(["kubeconfig", "--expires", "7d", "--server", &format!("https://{address}"), "--data-dir"]);
        let output = mint.arg(&data).output().await?;
        if !output.status.success() {
            bail!("{shown} kubeconfig: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let kubeconfig = Kubeconfig::from_yaml(std::str::from_utf8(&output.stdout)?)?;
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        let client = Client::try_from(config)?;
        let ready = || http::Request::get("/readyz").body(Vec::new());
        while client.request_text(ready()?).await.is_err() {
            wait(begun).await?;
        }
        Ok(Self { child, client })
    }

    /// Returns the process id, or 0 if it has exited.
    pub(super) fn pid(&self) -> u32 {
        self.child.id().unwrap_or_default()
    }

    /// Stops the server.
    pub(super) async fn stop(mut self) -> anyhow::Result<()> {
        let status = Command::new("kill").arg(self.pid().to_string()).status().await?;
        let ended = tokio::time::timeout(SHUTDOWN_TIMEOUT, self.child.wait()).await;
        if !status.success() || ended.is_err() {
            self.child.kill().await?;
        }
        Ok(())
    }
}

async fn wait(begun: Instant) -> anyhow::Result<()> {
    if begun.elapsed() > START_TIMEOUT {
        bail!("the server was not ready within {} s", START_TIMEOUT.as_secs());
    }
    tokio::time::sleep(POLL).await;
    Ok(())
}
