//! Testbed of the benchmark: one etcd, one directory, one set of certificates, and the servers that use them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use serde_json::Value;

use super::servers::MeasuredServer;
use crate::e2e::{Certificates, Process, ports, start_etcd};
use crate::{prerequisites, run};

/// Environment that all servers share.
pub(super) struct Environment {
    pub(super) home: PathBuf,
    pub(super) certificates: Certificates,
    pub(super) etcd_url: String,
    /// Ports of the kube-apiserver, the sample-apiserver, Capstan on etcd and Capstan on the embedded store.
    pub(super) ports: [u16; 4],
    /// Ports of two more replicas of Capstan on the same etcd.
    pub(super) replicas: [u16; 2],
    pub(super) floor: u16,
    etcd: Process,
}

/// Storage quota of etcd: the largest that its documentation suggests. A benchmark writes more than the default of 2
/// GiB.
const QUOTA: &str = "--quota-backend-bytes=8589934592";

/// Servers of the benchmark, and the environment that they share.
pub(super) struct Testbed {
    pub(super) servers: Vec<MeasuredServer>,
    floor: Option<Process>,
    keep: bool,
    pub(super) environment: Environment,
}

impl Testbed {
    /// Starts etcd, but no server yet. `capstan` is the program to measure.
    pub(super) fn build(requested: &[String], capstan: &Path) -> anyhow::Result<Self> {
        let home = std::env::temp_dir().join(format!("capstan-bench-{}", std::process::id()));
        std::fs::create_dir_all(home.join("log"))?;
        let certificates = Certificates::create(&home.join("pki"))?;
        let [client, peer, kube, sample, etcd, embedded, floor, second, third] = ports()?;
        let process = start_etcd(&prerequisites::current_etcd()?, &home, [client, peer], &[QUOTA])?;
        let environment = Environment {
            certificates,
            etcd_url: format!("http://127.0.0.1:{client}"),
            ports: [kube, sample, etcd, embedded],
            replicas: [second, third],
            floor,
            etcd: process,
            home,
        };
        environment.certificates.kubeconfig("admin", &format!("https://127.0.0.1:{kube}"))?;
        let servers = MeasuredServer::all(&environment, requested, capstan)?;
        Ok(Self { servers, floor: None, keep: false, environment })
    }

    /// Keeps the logs after the end of the process, for the analysis of a failure. Returns their directory.
    pub(super) fn keep_logs(&mut self) -> String {
        self.keep = true;
        self.environment.home.join("log").display().to_string()
    }

    /// Starts the server that does nothing, if it does not run yet. Returns its process id and the arguments to reach
    /// it.
    pub(super) fn floor(&mut self) -> anyhow::Result<(u32, Vec<String>)> {
        let target = self.environment.target(self.environment.floor);
        let process = match &mut self.floor {
            Some(process) => process,
            floor => {
                let mut command = Command::new(bench()?);
                command.args(["floor", "--listen", &format!("127.0.0.1:{}", self.environment.floor)]);
                command.args(["--cert", &self.environment.certificates.path("apiserver.crt")]);
                command.args(["--key", &self.environment.certificates.path("apiserver.key")]);
                floor.insert(Process::start("floor", &mut command, &self.environment.log("floor"))?)
            }
        };
        self.environment.bench(&["ready"], &target)?;
        Ok((process.id(), target))
    }
}

impl Environment {
    pub(super) fn log(&self, name: &str) -> PathBuf {
        self.home.join("log").join(format!("{name}.log"))
    }

    /// Returns the arguments of the load generator with the address of this port and the client credentials.
    pub(super) fn target(&self, port: u16) -> Vec<String> {
        let file = |name: &str| self.certificates.path(name);
        let server = format!("127.0.0.1:{port}");
        let words = ["--server", &server, "--ca", &file("kube-ca.crt"), "--cert", &file("admin.crt")];
        words.into_iter().map(str::to_owned).chain(["--key".to_owned(), file("admin.key")]).collect()
    }

    /// Returns the arguments of the load generator with the processes whose CPU time it measures.
    pub(super) fn pids(&self, server: u32) -> Vec<String> {
        [
            "--pid".to_owned(),
            format!("server={server}"),
            "--pid".to_owned(),
            format!("etcd={}", self.etcd.id()),
        ]
        .into()
    }

    /// Runs the load generator. Returns its results.
    pub(super) fn bench(&self, words: &[&str], more: &[String]) -> anyhow::Result<Value> {
        let mut command = Command::new(bench()?);
        let text = run::output(command.args(words).args(more))?;
        serde_json::from_str(&text).with_context(|| format!("bench {}: {text}", words.join(" ")))
    }

    /// Applies Cluster API's own CRD of the measured kind to the kube-apiserver.
    pub(super) fn define_machines(&self) -> anyhow::Result<()> {
        let mut download = Command::new("go");
        download.args(["mod", "download", "-json", "sigs.k8s.io/cluster-api"]);
        let module = run::output(download.current_dir(run::root()?.join("hack/tools/cluster-api")))?;
        let module: Value = serde_json::from_str(&module)?;
        let directory = module["Dir"]
            .as_str()
            .with_context(|| format!("`go mod download` reports no directory: {module}"))?;
        let bases = Path::new(directory).join("core/config/crd/bases");
        let definition = bases.join("cluster.x-k8s.io_machines.yaml").display().to_string();
        self.kubectl(&["apply", "--server-side", "-f", &definition])?;
        let name = "crd/machines.cluster.x-k8s.io";
        self.kubectl(&["wait", name, "--for=condition=Established", "--timeout=60s"])
    }

    fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<()> {
        let mut kubectl = Command::new(prerequisites::kubernetes("kubectl")?);
        kubectl.args(["--kubeconfig", &self.certificates.path("admin.kubeconfig"), "--cache-dir"]);
        run::output(kubectl.arg(self.home.join("cache")).args(arguments)).map(|_| ())
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        self.servers.iter_mut().rev().for_each(MeasuredServer::stop);
        if !self.keep {
            let _ = std::fs::remove_dir_all(&self.environment.home);
        }
    }
}

fn bench() -> anyhow::Result<PathBuf> {
    Ok(run::target()?.join("release/bench"))
}
