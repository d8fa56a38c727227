//! Heavy form of a cluster: a real kube-apiserver over a real etcd, with the certificates of the user data.
//!
//! Kubelets, the scheduler and the controllers of Kubernetes stay records: they are clients of the real API.

pub(crate) mod budgets;
mod files;
pub(crate) mod remote;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

use crate::cluster::Cluster;
use crate::lab::Lab;
use crate::lock;
use files::Files;
use remote::Remote;

/// Longest start of an API server on a busy machine.
const START: Duration = Duration::from_secs(90);

/// Paths of the programs of the heavy form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RealPrograms {
    /// kube-apiserver.
    pub kube_apiserver: PathBuf,
    /// etcd.
    pub etcd: PathBuf,
}

/// Programs of one cluster. Dropping it ends etcd, and removes all files.
#[derive(Debug)]
pub(crate) struct RealCluster {
    programs: RealPrograms,
    files: Files,
    /// Port of etcd for the API server.
    etcd_port: u16,
    _etcd: Child,
}

/// Starts etcd and the API server of a new cluster, and lets its store be the API. Returns when it is ready.
pub(crate) async fn start(
    lab: &Arc<Lab>,
    cluster: &Arc<Cluster>,
    programs: &RealPrograms,
    service_account_key: &str,
) -> Result<(), String> {
    let [client, peer] = ports()?;
    let files = Files::write(cluster, service_account_key)?;
    let etcd = etcd(programs, &files, client, peer).spawn();
    let etcd = etcd.map_err(|error| format!("{} cannot be started: {error}", programs.etcd.display()))?;
    let remote = Remote::connect(cluster)?;
    let real = RealCluster { programs: programs.clone(), files, etcd_port: client, _etcd: etcd };
    let _ = cluster.real.set(real);
    cluster.store.delegate(remote);
    serve(lab, cluster)?;
    let ready = lab.until(START, || cluster.store.answers().then_some(())).await;
    ready.ok_or_else(|| {
        let log = cluster.real.get().map(|real| real.files.log("kube-apiserver")).unwrap_or_default();
        let stop = "error execution phase wait-control-plane: kube-apiserver is not ready";
        format!("{stop} after {} s: {log}", START.as_secs())
    })
}

/// Starts the API server of a cluster at its endpoint, until the cluster stops to listen.
pub(crate) fn serve(lab: &Lab, cluster: &Arc<Cluster>) -> Result<(), String> {
    let Some(real) = cluster.real.get() else { return Err("the cluster has no real API server".to_owned()) };
    let program = real.programs.kube_apiserver.display();
    let started = real.api_server(cluster.address).spawn();
    let child = started.map_err(|error| format!("{program} cannot be started: {error}"))?;
    let stop = lab.stop.child_token();
    *lock(&cluster.listener) = Some(stop.clone());
    lab.tasks.spawn(keep(child, stop));
    Ok(())
}

/// Ends the API server with the token, and the token with the API server.
async fn keep(mut child: Child, stop: CancellationToken) {
    tokio::select! {
        _ = child.wait() => stop.cancel(),
        () = stop.cancelled() => {
            let _ = child.kill().await;
        }
    }
}

/// Returns ports that are free now.
fn ports() -> Result<[u16; 2], String> {
    let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| error.to_string());
    let port =
        |listener: &TcpListener| listener.local_addr().map(|it| it.port()).map_err(|it| it.to_string());
    // Both are open at the same time, so they differ.
    let (first, second) = (listen()?, listen()?);
    Ok([port(&first)?, port(&second)?])
}

fn etcd(programs: &RealPrograms, files: &Files, client: u16, peer: u16) -> Command {
    let (client, peer) = (format!("https://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
    let mut command = Command::new(&programs.etcd);
    command.args(["--name=hollow", "--log-level=warn", "--client-cert-auth", "--unsafe-no-fsync"]);
    command.arg(format!("--data-dir={}", files.path("etcd")));
    command.arg(format!("--listen-client-urls={client}")).arg(format!("--advertise-client-urls={client}"));
    command.arg(format!("--listen-peer-urls={peer}")).arg(format!("--initial-advertise-peer-urls={peer}"));
    command.arg(format!("--initial-cluster=hollow={peer}"));
    for (flag, name) in
        [("trusted-ca-file", "etcd-ca.crt"), ("cert-file", "etcd.crt"), ("key-file", "etcd.key")]
    {
        command.arg(format!("--{flag}={}", files.path(name)));
    }
    logged(&mut command, files, "etcd");
    command
}

/// Lets a program write its log, and end with its handle.
fn logged(command: &mut Command, files: &Files, name: &str) {
    let log = || files.append_log(name).map_or_else(Stdio::null, Stdio::from);
    command.stdin(Stdio::null()).stdout(log()).stderr(log()).kill_on_drop(true);
}

impl RealCluster {
    /// Returns the command of the API server, which needs only etcd.
    fn api_server(&self, address: SocketAddr) -> Command {
        let mut command = Command::new(&self.programs.kube_apiserver);
        let ip = address.ip();
        command.arg(format!("--etcd-servers=https://127.0.0.1:{}", self.etcd_port));
        command.arg(format!("--bind-address={ip}")).arg(format!("--advertise-address={ip}"));
        command.arg(format!("--secure-port={}", address.port()));
        command.args([
            "--endpoint-reconciler-type=none",
            "--service-cluster-ip-range=10.96.0.0/12",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            "--authorization-mode=Node,RBAC",
            "--enable-bootstrap-token-auth=true",
            // No controller creates service accounts here.
            "--disable-admission-plugins=ServiceAccount",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        ]);
        for (flag, name) in [
            ("etcd-cafile", "etcd-ca.crt"),
            ("etcd-certfile", "etcd-client.crt"),
            ("etcd-keyfile", "etcd-client.key"),
            ("tls-cert-file", "apiserver.crt"),
            ("tls-private-key-file", "apiserver.key"),
            ("client-ca-file", "ca.crt"),
            ("service-account-key-file", "sa.key"),
            ("service-account-signing-key-file", "sa.key"),
            ("requestheader-client-ca-file", "front-proxy-ca.crt"),
        ] {
            command.arg(format!("--{flag}={}", self.files.path(name)));
        }
        logged(&mut command, &self.files, "kube-apiserver");
        command
    }
}
