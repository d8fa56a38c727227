//! Real etcd of one or three members, whose leader can be killed.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::{Value, json};

use crate::client;

/// Longest time of a start on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(60);

struct EtcdMember {
    child: Child,
    arguments: Vec<String>,
    port: u16,
}

/// All members of the etcd.
pub(crate) struct EtcdCluster {
    binary: PathBuf,
    members: Vec<EtcdMember>,
    _data: tempfile::TempDir,
}

pub(crate) fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

impl EtcdCluster {
    pub(crate) async fn start(count: usize) -> anyhow::Result<Self> {
        let binary = std::env::var_os("CAPSTAN_ETCD_CURRENT").map(PathBuf::from);
        let binary = binary
            .context("CAPSTAN_ETCD_CURRENT names no etcd: `cargo xtask test` builds one and sets it")?;
        let data = tempfile::tempdir()?;
        let mut ports = Vec::new();
        for _ in 0..count {
            ports.push((free_port()?, free_port()?));
        }
        let cluster: Vec<String> =
            ports.iter().map(|(peer, _)| format!("m{peer}=http://127.0.0.1:{peer}")).collect();
        let mut members = Vec::new();
        for (peer, port) in ports {
            let (client, peer_url) = (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer}"));
            let arguments = vec![
                format!("--name=m{peer}"),
                "--log-level=error".to_owned(),
                format!("--data-dir={}", data.path().join(peer.to_string()).display()),
                format!("--listen-client-urls={client}"),
                format!("--advertise-client-urls={client}"),
                format!("--listen-peer-urls={peer_url}"),
                format!("--initial-advertise-peer-urls={peer_url}"),
                format!("--initial-cluster={}", cluster.join(",")),
            ];
            members.push(EtcdMember { child: spawn(&binary, &arguments)?, arguments, port });
        }
        let etcd = Self { binary, members, _data: data };
        etcd.wait_for_leader().await?;
        Ok(etcd)
    }

    pub(crate) fn endpoints(&self) -> Vec<String> {
        self.members.iter().map(|member| format!("http://127.0.0.1:{}", member.port)).collect()
    }

    async fn post(&self, index: usize, path: &str, body: &Value) -> anyhow::Result<Value> {
        let port = self.members.get(index).map(|member| member.port).context("no such member")?;
        let (code, response) = client::send(port, "POST", path, Some(body)).await?;
        if code != 200 {
            bail!("etcd returned {code} for {path}: {response}");
        }
        Ok(response)
    }

    /// Returns the index of the leader, if a member says that it leads.
    pub(crate) async fn leader(&self) -> Option<usize> {
        for index in 0..self.members.len() {
            let Ok(status) = self.post(index, "/v3/maintenance/status", &json!({})).await else { continue };
            let id = status.pointer("/header/member_id");
            if id.is_some() && id == status.get("leader") {
                return Some(index);
            }
        }
        None
    }

    async fn wait_for_leader(&self) -> anyhow::Result<()> {
        let begun = Instant::now();
        while self.leader().await.is_none() {
            if begun.elapsed() > START_TIMEOUT {
                bail!("etcd has no leader after {START_TIMEOUT:?}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// Kills a member, as a power failure would.
    pub(crate) fn kill(&mut self, index: usize) -> anyhow::Result<()> {
        let member = self.members.get_mut(index).context("no such member")?;
        member.child.kill()?;
        member.child.wait()?;
        Ok(())
    }

    /// Restarts a member with its data.
    pub(crate) fn restart(&mut self, index: usize) -> anyhow::Result<()> {
        let binary = self.binary.clone();
        let member = self.members.get_mut(index).context("no such member")?;
        member.child = spawn(&binary, &member.arguments)?;
        Ok(())
    }

    pub(crate) fn ports(&self) -> Vec<u16> {
        self.members.iter().map(|member| member.port).collect()
    }

    /// Compacts all history before a revision, even if clients still need it.
    pub(crate) async fn compact(&self, revision: u64) -> anyhow::Result<()> {
        let mut done = Err(anyhow::anyhow!("no members"));
        for index in 0..self.members.len() {
            let body = json!({"revision": revision.to_string()});
            done = self.post(index, "/v3/kv/compaction", &body).await.map(|_| ());
            if done.is_ok() {
                break;
            }
        }
        done
    }

    /// Returns the number of bytes that the first member has sent to clients in total.
    pub(crate) async fn sent_bytes(&self) -> anyhow::Result<u64> {
        let port = self.members.first().map(|member| member.port).context("no members")?;
        let metrics = client::text(port, "/metrics").await?;
        let line =
            metrics.lines().find_map(|line| line.strip_prefix("etcd_network_client_grpc_sent_bytes_total "));
        let number: f64 = line.context("etcd has no metric of the bytes that it sent")?.parse()?;
        Ok(format!("{number:.0}").parse()?)
    }
}

fn spawn(binary: &PathBuf, arguments: &[String]) -> anyhow::Result<Child> {
    let mut command = Command::new(binary);
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().with_context(|| format!("{} cannot be started", binary.display()))
}

impl Drop for EtcdCluster {
    fn drop(&mut self) {
        for member in &mut self.members {
            let _ = member.child.kill();
            let _ = member.child.wait();
        }
    }
}
