//! Three replicas of Capstan on an etcd of their own. Each has its own data directory, with the same keys.

use std::process::Command;

use anyhow::{Context, ensure};

use crate::e2e::lab::{Lab, start_etcd, until};
use crate::e2e::process::Process;
use crate::run;

/// Number of replicas.
pub(super) const COUNT: usize = 3;

/// Delay that is longer than the load balancer needs to notice that a replica is not ready.
const SHUTDOWN_DELAY: &str = "4s";

pub(super) struct Replicas {
    _etcd: Process,
    etcd: String,
    config: String,
    ports: [u16; COUNT],
    running: [Option<Process>; COUNT],
}

impl Replicas {
    /// Starts etcd, and all replicas with the users of the cloud and of the issuer.
    pub(super) fn start(lab: &Lab, etcd: [u16; 2], cloud: u16, ports: [u16; COUNT]) -> anyhow::Result<Self> {
        let home = lab.directory("store");
        std::fs::create_dir_all(home.join("log"))?;
        let process = start_etcd(&lab.tools.etcd, &home, etcd, &[])?;
        let file = lab.directory("load").join("authentication.yaml");
        let config = lab.file(
            "replica.yaml",
            &format!(
                "apiVersion: capstan.dev/v1alpha1\nkind: ServerConfiguration\n\
                 keystone: {{authURL: 'http://127.0.0.1:{cloud}/v3', allowInsecureHTTP: true}}\n\
                 authenticationConfigFile: {}\n\
                 serviceAccounts: {{issuer: 'https://capstan.example.org'}}\n",
                file.display()
            ),
        )?;
        let etcd = format!("http://127.0.0.1:{}", etcd[0]);
        let mut replicas = Self { _etcd: process, etcd, config, ports, running: [None, None, None] };
        for index in 0..COUNT {
            run::shown(Command::new("cp").arg("-a").arg(lab.data()).arg(directory(lab, index)))?;
            replicas.begin(lab, index)?;
        }
        Ok(replicas)
    }

    /// Starts one replica, and waits until it is ready.
    pub(super) fn begin(&mut self, lab: &Lab, index: usize) -> anyhow::Result<()> {
        let port = self.ports.get(index).context("no such replica")?;
        let (name, listen) = (format!("replica-{index}"), format!("127.0.0.1:{port}"));
        let mut command = Command::new(&lab.tools.capstan);
        command.args([
            "serve",
            "--listen",
            &listen,
            "--etcd-endpoints",
            &self.etcd,
            "--config",
            &self.config,
        ]);
        command.args(["--shutdown-delay", SHUTDOWN_DELAY]);
        command.args(["--host-kubeconfig", &lab.certificates.path("capstan.kubeconfig")]);
        command.arg("--data-dir").arg(directory(lab, index));
        let log = lab.directory("log").join(format!("{name}.log"));
        let mut process = Process::start(&name, &mut command, &log)?;
        let url = format!("https://{listen}/readyz");
        until("a replica is ready", || {
            process.check().with_context(|| format!("its log is in {}", lab.keep_logs()))?;
            let mut curl = Command::new("curl");
            curl.args(["--silent", "--insecure", "--fail", "--max-time", "2", "--output", "/dev/null", &url]);
            Ok(curl.status()?.success())
        })?;
        if let Some(slot) = self.running.get_mut(index) {
            *slot = Some(process);
        }
        Ok(())
    }

    /// Returns the index of the replica that runs the controllers.
    pub(super) fn leader(&self, lab: &Lab) -> anyhow::Result<usize> {
        let mut leader = None;
        until("a replica runs the controllers", || {
            for (index, port) in self.ports.iter().enumerate() {
                let server = format!("--server=https://127.0.0.1:{port}");
                let (_, metrics, _) = lab.try_kubectl("direct", &[&server, "get", "--raw", "/metrics"])?;
                if metrics.lines().any(|line| line == "capstan_leader 1") {
                    leader = Some(index);
                }
            }
            Ok(leader.is_some())
        })?;
        leader.context("no replica runs the controllers")
    }

    fn running(&mut self, index: usize) -> anyhow::Result<&mut Option<Process>> {
        self.running.get_mut(index).context("no such replica")
    }

    /// Kills a replica, as a crash of its machine does.
    pub(super) fn kill(&mut self, index: usize) -> anyhow::Result<()> {
        self.running(index)?.take().context("the replica does not run")?.kill()
    }

    /// Stops a replica in order.
    pub(super) fn stop(&mut self, index: usize) {
        if let Ok(slot) = self.running(index) {
            slot.take();
        }
    }

    /// Returns the process id of each replica that runs, and its anonymous memory in bytes. Pages of files do not count: the
    /// kernel takes them back when it needs them.
    pub(super) fn memory(&self) -> anyhow::Result<Vec<(u32, u64)>> {
        let running = self.running.iter().flatten().map(Process::id);
        running.map(|id| anyhow::Ok((id, anonymous_memory(id)?))).collect()
    }

    /// Sends a signal to a replica.
    pub(super) fn signal(&mut self, index: usize, signal: &str) -> anyhow::Result<()> {
        let id = self.running(index)?.as_ref().context("the replica does not run")?.id();
        let status = Command::new("kill").args(["-s", signal, &id.to_string()]).status()?;
        ensure!(status.success(), "kill -s {signal} {id} failed");
        Ok(())
    }
}

/// Returns the anonymous memory of a process in bytes.
fn anonymous_memory(id: u32) -> anyhow::Result<u64> {
    let path = format!("/proc/{id}/status");
    let status = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    let kibibytes = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let number = kibibytes.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    number.map(|number| number << 10).with_context(|| format!("{path} has no RssAnon"))
}

fn directory(lab: &Lab, index: usize) -> std::path::PathBuf {
    lab.directory(&format!("replica-{index}"))
}
