//! Measured servers. Each is a process that can be stopped and started again.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::Context;
use serde_json::Value;

use super::testbed::Environment;
use crate::e2e::{Process, kube_apiserver};
use crate::{prerequisites, run};

/// Name of Capstan on the embedded store.
const EMBEDDED: &str = "capstan-embedded";

/// Server that is measured.
pub(super) struct MeasuredServer {
    /// Name in the report.
    pub(super) name: &'static str,
    /// Kind of the objects: `machine` or `flunder`.
    pub(super) kind: &'static str,
    pub(super) program: PathBuf,
    pub(super) port: u16,
    /// True if it stores its objects in the shared etcd.
    pub(super) has_etcd: bool,
    /// Number of objects that it was filled with.
    pub(super) filled: usize,
    process: Option<Process>,
    start: fn(&Environment, &Self) -> anyhow::Result<Command>,
}

impl MeasuredServer {
    /// Returns the requested servers that can be built on this machine. `capstan` is the program to measure.
    pub(super) fn all(
        environment: &Environment,
        requested: &[String],
        capstan: &Path,
    ) -> anyhow::Result<Vec<Self>> {
        let is_requested = |name: &str| requested.is_empty() || requested.iter().any(|one| one == name);
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
        let [kube, sample, etcd, embedded] = environment.ports;
        let mut all = Vec::new();
        if is_requested("kube-apiserver") {
            let program = prerequisites::kubernetes("kube-apiserver")?;
            all.push(new("kube-apiserver", "machine", &program, kube, kube_apiserver_command));
        }
        if is_requested("sample-apiserver") {
            match prerequisites::sample_apiserver() {
                Ok(program) => all.push(new("sample-apiserver", "flunder", &program, sample, sample_command)),
                Err(error) => eprintln!("skipping sample-apiserver, which cannot be built: {error:#}"),
            }
        }
        all.push(new("capstan", "machine", capstan, etcd, capstan_command));
        all.push(new(EMBEDDED, "machine", capstan, embedded, embedded_command));
        all.retain(|one| is_requested(one.name));
        Ok(all)
    }

    /// Returns another replica of a server, on the same etcd.
    pub(super) fn replica(environment: &Environment, like: &Self, number: usize) -> anyhow::Result<Self> {
        let mut names = ["capstan-2", "capstan-3"].into_iter().zip(environment.replicas);
        let (name, port) = names.nth(number).context("no port is reserved for another replica")?;
        Ok(Self { name, port, program: like.program.clone(), process: None, ..*like })
    }

    /// Starts the server and waits until it responds at `path`. Returns the seconds until then.
    pub(super) fn start(&mut self, environment: &Environment, path: &str) -> anyhow::Result<Value> {
        let mut command = (self.start)(environment, self)?;
        let begun = Instant::now();
        let mut process = Process::start(self.name, &mut command, &environment.log(self.name))?;
        let id = process.id().to_string();
        let waited =
            environment.bench(&["ready", "--path", path, "--process", &id], &self.target(environment));
        process.check().with_context(|| format!("its log is {}", environment.log(self.name).display()))?;
        waited?;
        let seconds = begun.elapsed().as_secs_f64();
        self.process = Some(process);
        Ok(serde_json::json!({"seconds": seconds, "path": path}))
    }

    /// Stops the server gracefully.
    pub(super) fn stop(&mut self) {
        self.process = None;
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.as_ref().map_or(0, Process::id)
    }

    /// Returns the arguments of the load generator with the address and the client credentials.
    pub(super) fn target(&self, environment: &Environment) -> Vec<String> {
        environment.target(self.port)
    }
}

fn kube_apiserver_command(environment: &Environment, one: &MeasuredServer) -> anyhow::Result<Command> {
    Ok(kube_apiserver(&one.program, &environment.certificates, &environment.etcd_url, one.port))
}

/// Returns the command of the sample-apiserver. It delegates authentication and authorization to the kube-apiserver.
fn sample_command(environment: &Environment, one: &MeasuredServer) -> anyhow::Result<Command> {
    let host = environment.certificates.path("admin.kubeconfig");
    let file = |name: &str| environment.certificates.path(name);
    let mut command = Command::new(&one.program);
    command
        .arg(format!("--etcd-servers={}", environment.etcd_url))
        .arg(format!("--secure-port={}", one.port));
    command.arg("--bind-address=127.0.0.1");
    for flag in ["kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"] {
        command.arg(format!("--{flag}={host}"));
    }
    command.arg(format!("--tls-cert-file={}", file("apiserver.crt")));
    command.arg(format!("--tls-private-key-file={}", file("apiserver.key")));
    command.arg(format!("--client-ca-file={}", file("kube-ca.crt")));
    Ok(command)
}

fn capstan_command(environment: &Environment, one: &MeasuredServer) -> anyhow::Result<Command> {
    let etcd = format!("storage: {{etcd: {{endpoints: ['{}']}}}}\n", environment.etcd_url);
    capstan(environment, one, &etcd)
}

fn embedded_command(environment: &Environment, one: &MeasuredServer) -> anyhow::Result<Command> {
    capstan(environment, one, "")
}

/// Returns the command of Capstan. The audit log is disabled, because a kube-apiserver writes none by default. The
/// controllers are disabled, because their writes would add to the load.
fn capstan(environment: &Environment, one: &MeasuredServer, storage: &str) -> anyhow::Result<Command> {
    let file = |name: &str| environment.certificates.path(name);
    let backup_key = environment.home.join("backup.key");
    if !backup_key.exists() {
        run::output(Command::new(&one.program).args(["backup", "key"]).arg(&backup_key))?;
    }
    let configuration = format!(
        "apiVersion: capstan.dev/v1alpha1\nkind: ServerConfiguration\ndataDirectory: {data}\n\
         listen: 127.0.0.1:{port}\n{storage}tls: {{certFile: {certificate}, keyFile: {key}}}\n\
         clientCaFile: {ca}\ncontrollers: {{enabled: false}}\naudit: {{enabled: false}}\n\
         shutdown: {{delay: 0s, watchGrace: 0s}}\nbackup: {{keyFile: {backup_key}}}\n",
        data = environment.home.join(one.name).display(),
        port = one.port,
        certificate = file("apiserver.crt"),
        key = file("apiserver.key"),
        ca = file("kube-ca.crt"),
        backup_key = backup_key.display(),
    );
    let path = environment.home.join(format!("{}.yaml", one.name));
    std::fs::write(&path, configuration)?;
    let mut command = Command::new(&one.program);
    command.arg("serve").arg("--config").arg(path);
    Ok(command)
}
