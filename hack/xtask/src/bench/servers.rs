//! The servers that are measured, each a process that can be ended and started again.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::Context;
use serde_json::Value;

use super::testbed::Grounds;
use crate::e2e::{Process, kube_apiserver};
use crate::prerequisites;

/// Capstan on its own store.
const EMBEDDED: &str = "capstan-embedded";

/// A server that is measured.
pub(super) struct Contestant {
    /// As the report calls it.
    pub(super) name: &'static str,
    /// What it is asked for: `machine` or `flunder`.
    pub(super) kind: &'static str,
    pub(super) program: PathBuf,
    pub(super) port: u16,
    /// Whether it stores its objects in the common etcd.
    pub(super) has_etcd: bool,
    /// How many objects it was filled with.
    pub(super) filled: usize,
    process: Option<Process>,
    start: fn(&Grounds, &Self) -> anyhow::Result<Command>,
}

impl Contestant {
    /// All those that are asked for, and can be built here. `capstan` is the program to measure.
    pub(super) fn all(grounds: &Grounds, wanted: &[String], capstan: &Path) -> anyhow::Result<Vec<Self>> {
        let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|one| one == name);
        let new = |name, kind, program: &Path, port, start| Self {
            name,
            kind,
            program: program.to_owned(),
            port,
            has_etcd: name != EMBEDDED,
            filled: 0,
            process: None,
            start,
        };
        let [kube, sample, etcd, embedded] = grounds.ports;
        let mut all = Vec::new();
        if is_wanted("kube-apiserver") {
            let program = prerequisites::kubernetes("kube-apiserver")?;
            all.push(new("kube-apiserver", "machine", &program, kube, kube_apiserver_command));
        }
        if is_wanted("sample-apiserver") {
            match prerequisites::sample_apiserver() {
                Ok(program) => all.push(new("sample-apiserver", "flunder", &program, sample, sample_command)),
                Err(error) => eprintln!("without the Go server of the aggregated kind: {error:#}"),
            }
        }
        all.push(new("capstan", "machine", capstan, etcd, capstan_command));
        all.push(new(EMBEDDED, "machine", capstan, embedded, embedded_command));
        all.retain(|one| is_wanted(one.name));
        Ok(all)
    }

    /// Another server like this one, on the same etcd.
    pub(super) fn replica(grounds: &Grounds, like: &Self, number: usize) -> anyhow::Result<Self> {
        let mut names = ["capstan-2", "capstan-3"].into_iter().zip(grounds.replicas);
        let (name, port) = names.nth(number).context("there are no more ports")?;
        Ok(Self { name, port, program: like.program.clone(), process: None, ..*like })
    }

    /// Starts it, and waits until it answers; the seconds that took.
    pub(super) fn start(&mut self, grounds: &Grounds, path: &str) -> anyhow::Result<Value> {
        let mut command = (self.start)(grounds, self)?;
        let begun = Instant::now();
        let mut process = Process::start(self.name, &mut command, &grounds.log(self.name))?;
        let id = process.id().to_string();
        let waited = grounds.bench(&["ready", "--path", path, "--process", &id], &self.target(grounds));
        process.check().with_context(|| format!("its log is {}", grounds.log(self.name).display()))?;
        waited?;
        let seconds = begun.elapsed().as_secs_f64();
        self.process = Some(process);
        Ok(serde_json::json!({"seconds": seconds, "path": path}))
    }

    /// Ends it in an orderly way.
    pub(super) fn stop(&mut self) {
        self.process = None;
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.as_ref().map_or(0, Process::id)
    }

    /// Where, and as whom, it is asked.
    pub(super) fn target(&self, grounds: &Grounds) -> Vec<String> {
        grounds.target(self.port)
    }
}

fn kube_apiserver_command(grounds: &Grounds, one: &Contestant) -> anyhow::Result<Command> {
    Ok(kube_apiserver(&one.program, &grounds.certificates, &grounds.etcd_url, one.port))
}

/// It asks the kube-apiserver who its users are and what they may.
fn sample_command(grounds: &Grounds, one: &Contestant) -> anyhow::Result<Command> {
    let host = grounds.certificates.path("admin.kubeconfig");
    let file = |name: &str| grounds.certificates.path(name);
    let mut command = Command::new(&one.program);
    command.arg(format!("--etcd-servers={}", grounds.etcd_url)).arg(format!("--secure-port={}", one.port));
    command.arg("--bind-address=127.0.0.1");
    for flag in ["kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"] {
        command.arg(format!("--{flag}={host}"));
    }
    command.arg(format!("--tls-cert-file={}", file("apiserver.crt")));
    command.arg(format!("--tls-private-key-file={}", file("apiserver.key")));
    command.arg(format!("--client-ca-file={}", file("kube-ca.crt")));
    Ok(command)
}

fn capstan_command(grounds: &Grounds, one: &Contestant) -> anyhow::Result<Command> {
    let etcd = format!("storage: {{etcd: {{endpoints: ['{}']}}}}\n", grounds.etcd_url);
    capstan(grounds, one, &etcd)
}

fn embedded_command(grounds: &Grounds, one: &Contestant) -> anyhow::Result<Command> {
    capstan(grounds, one, "")
}

/// Without an audit log, since a kube-apiserver writes none unless told to, and without controllers, which
/// would write beside the load.
fn capstan(grounds: &Grounds, one: &Contestant, storage: &str) -> anyhow::Result<Command> {
    let file = |name: &str| grounds.certificates.path(name);
    let configuration = format!(
        "apiVersion: capstan.dev/v1alpha1\nkind: ServerConfiguration\ndataDirectory: {data}\n\
         listen: 127.0.0.1:{port}\n{storage}tls: {{certFile: {certificate}, keyFile: {key}}}\n\
         clientCaFile: {ca}\ncontrollers: {{enabled: false}}\naudit: {{enabled: false}}\n\
         shutdown: {{delay: 0s, watchGrace: 0s}}\n",
        data = grounds.home.join(one.name).display(),
        port = one.port,
        certificate = file("apiserver.crt"),
        key = file("apiserver.key"),
        ca = file("kube-ca.crt"),
    );
    let path = grounds.home.join(format!("{}.yaml", one.name));
    std::fs::write(&path, configuration)?;
    let mut command = Command::new(&one.program);
    command.arg("serve").arg("--config").arg(path);
    Ok(command)
}
