//! Where the servers run: one etcd, one directory, one set of certificates.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use serde_json::Value;

use super::servers::Contestant;
use crate::e2e::{Certificates, Process, ports, start_etcd};
use crate::{prerequisites, run};

/// What the servers stand on.
pub(super) struct Grounds {
    pub(super) home: PathBuf,
    pub(super) certificates: Certificates,
    pub(super) etcd_url: String,
    /// Of the kube-apiserver, the sample-apiserver, Capstan with etcd, Capstan without.
    pub(super) ports: [u16; 4],
    /// Of more Capstans on the same etcd.
    pub(super) replicas: [u16; 2],
    pub(super) floor: u16,
    etcd: Process,
}

/// What etcd's own documentation calls the most: a benchmark writes more than the 2 GiB that are usual.
const QUOTA: &str = "--quota-backend-bytes=8589934592";

/// The grounds, and the servers on them.
pub(super) struct House {
    pub(super) contestants: Vec<Contestant>,
    floor: Option<Process>,
    keep: bool,
    pub(super) grounds: Grounds,
}

impl House {
    /// Starts etcd; the servers are not started yet. `capstan` is the program to measure.
    pub(super) fn build(wanted: &[String], capstan: &Path) -> anyhow::Result<Self> {
        let home = std::env::temp_dir().join(format!("capstan-bench-{}", std::process::id()));
        std::fs::create_dir_all(home.join("log"))?;
        let certificates = Certificates::make(&home.join("pki"))?;
        let [client, peer, kube, sample, etcd, embedded, floor, second, third] = ports()?;
        let process = start_etcd(&prerequisites::current_etcd()?, &home, [client, peer], &[QUOTA])?;
        let grounds = Grounds {
            certificates,
            etcd_url: format!("http://127.0.0.1:{client}"),
            ports: [kube, sample, etcd, embedded],
            replicas: [second, third],
            floor,
            etcd: process,
            home,
        };
        grounds.certificates.kubeconfig("admin", &format!("https://127.0.0.1:{kube}"))?;
        let contestants = Contestant::all(&grounds, wanted, capstan)?;
        Ok(Self { contestants, floor: None, keep: false, grounds })
    }

    /// Leaves the logs behind for whoever looks into a failure; returns where.
    pub(super) fn keep_logs(&mut self) -> String {
        self.keep = true;
        self.grounds.home.join("log").display().to_string()
    }

    /// The server that does nothing: its process and how it is asked.
    pub(super) fn floor(&mut self) -> anyhow::Result<(u32, Vec<String>)> {
        let target = self.grounds.target(self.grounds.floor);
        let process = match &mut self.floor {
            Some(process) => process,
            floor => {
                let mut command = Command::new(bench()?);
                command.args(["floor", "--listen", &format!("127.0.0.1:{}", self.grounds.floor)]);
                command.args(["--cert", &self.grounds.certificates.path("apiserver.crt")]);
                command.args(["--key", &self.grounds.certificates.path("apiserver.key")]);
                floor.insert(Process::start("floor", &mut command, &self.grounds.log("floor"))?)
            }
        };
        self.grounds.bench(&["ready"], &target)?;
        Ok((process.id(), target))
    }
}

impl Grounds {
    pub(super) fn log(&self, name: &str) -> PathBuf {
        self.home.join("log").join(format!("{name}.log"))
    }

    /// Where, and as whom, a server on this port is asked.
    pub(super) fn target(&self, port: u16) -> Vec<String> {
        let file = |name: &str| self.certificates.path(name);
        let server = format!("127.0.0.1:{port}");
        let words = ["--server", &server, "--ca", &file("kube-ca.crt"), "--cert", &file("admin.crt")];
        words.into_iter().map(str::to_owned).chain(["--key".to_owned(), file("admin.key")]).collect()
    }

    /// How the load generator is told whose CPU time counts.
    pub(super) fn pids(&self, server: u32) -> Vec<String> {
        [
            "--pid".to_owned(),
            format!("server={server}"),
            "--pid".to_owned(),
            format!("etcd={}", self.etcd.id()),
        ]
        .into()
    }

    /// Runs the load generator; what it measured.
    pub(super) fn bench(&self, words: &[&str], more: &[String]) -> anyhow::Result<Value> {
        let mut command = Command::new(bench()?);
        let text = run::output(command.args(words).args(more))?;
        serde_json::from_str(&text).with_context(|| format!("bench {}: {text}", words.join(" ")))
    }

    /// Gives the kube-apiserver Cluster API's own definitions of the kinds that are measured.
    pub(super) fn define_machines(&self) -> anyhow::Result<()> {
        let mut download = Command::new("go");
        download.args(["mod", "download", "-json", "sigs.k8s.io/cluster-api"]);
        let module = run::output(download.current_dir(run::root()?.join("hack/tools/cluster-api")))?;
        let module: Value = serde_json::from_str(&module)?;
        let directory = module["Dir"].as_str().with_context(|| format!("where is the module? {module}"))?;
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

impl Drop for House {
    fn drop(&mut self) {
        self.contestants.iter_mut().rev().for_each(Contestant::stop);
        if !self.keep {
            let _ = std::fs::remove_dir_all(&self.grounds.home);
        }
    }
}

fn bench() -> anyhow::Result<PathBuf> {
    Ok(run::target()?.join("release/bench"))
}
