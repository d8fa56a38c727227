//! Three replicas of Capstan on an etcd of their own. Each has its own data directory, with the same keys.

use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use super::clock::Clock;
use super::members::Members;
use crate::e2e::lab::{Lab, until};
use crate::e2e::process::Process;
use crate::run;

/// Number of replicas.
pub(super) const COUNT: usize = 3;

/// Delay that is longer than the load balancer needs to notice that a replica is not ready.
const SHUTDOWN_DELAY: &str = "4s";

/// Beginning of the lines with the ages of the copies of the host's permissions and of the keys of its tokens.
const AGES: [&str; 2] = [
    "capstan_host_mirror_age_seconds{what=\"permissions\"} ",
    "capstan_host_mirror_age_seconds{what=\"keys\"} ",
];

/// Replicas. The store ends after them.
pub(super) struct Replicas {
    config: String,
    ports: [u16; COUNT],
    running: [Option<Process>; COUNT],
    clock: Clock,
    store: Members,
}

impl Replicas {
    /// Starts all replicas with the users of the cloud, of the issuer and of the host.
    pub(super) fn start(lab: &Lab, store: Members, cloud: u16, ports: [u16; COUNT]) -> anyhow::Result<Self> {
        lab.certificates.serving(&lab.data().join("pki"))?;
        let file = lab.directory("load").join("authentication.yaml");
        let config = lab.file(
            "replica.yaml",
            &format!(
                "apiVersion: capstan.dev/v1alpha1\nkind: ServerConfiguration\n\
                 keystone: {{authURL: 'http://127.0.0.1:{cloud}/v3', allowInsecureHTTP: true}}\n\
                 authenticationConfigFile: {}\n\
                 serviceAccounts: {{issuer: 'https://capstan.example.org'}}\n\
                 host: {{permissions: mirror, clientCertificates: true, kubeconfig: unused}}\n\
                 tls: {{certFile: {}, keyFile: {}}}\n",
                file.display(),
                lab.certificates.path("serving.crt"),
                lab.certificates.path("serving.key"),
            ),
        )?;
        let running = [const { None }; COUNT];
        let mut replicas = Self { config, ports, running, clock: Clock::new(lab)?, store };
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
            &self.store.endpoints,
            "--config",
            &self.config,
        ]);
        command.args(["--shutdown-delay", SHUTDOWN_DELAY]);
        command.args(["--host-kubeconfig", &lab.certificates.path("capstan.kubeconfig")]);
        command.arg("--data-dir").arg(directory(lab, index)).envs(self.clock.environment());
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

    /// Returns the metrics of a replica.
    fn metrics(lab: &Lab, port: u16) -> anyhow::Result<String> {
        let server = format!("--server=https://127.0.0.1:{port}");
        Ok(lab.try_kubectl("direct", &[&server, "get", "--raw", "/metrics"])?.1)
    }

    /// Waits until each replica has a copy of the host's permissions.
    pub(super) fn wait_for_the_mirror(&self, lab: &Lab) -> anyhow::Result<()> {
        for port in self.ports {
            until("a replica has a copy of the host's permissions", || {
                let metrics = Self::metrics(lab, port)?;
                let age = |name: &str| metrics.lines().find_map(|line| line.strip_prefix(name)?.parse().ok());
                Ok(AGES.iter().all(|name| age(name).is_some_and(|age: f64| age >= 0.0)))
            })?;
        }
        Ok(())
    }

    /// Waits until each replica serves with the present certificate. They read its file every 30 s.
    pub(super) fn wait_for_the_certificate(&self, lab: &Lab) -> anyhow::Result<()> {
        let path = lab.certificates.path("serving.crt");
        let certificate = std::fs::read_to_string(&path).with_context(|| path.clone())?;
        for port in self.ports {
            until("a replica serves with its new certificate", || {
                let mut client = Command::new("openssl");
                client.args(["s_client", "-connect", &format!("127.0.0.1:{port}")]);
                let output = client.args(["-servername", "localhost"]).stdin(Stdio::null()).output()?;
                Ok(String::from_utf8_lossy(&output.stdout).contains(certificate.trim()))
            })?;
        }
        Ok(())
    }

    /// Returns the clock of all replicas.
    pub(super) const fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Checks that all replicas run.
    pub(super) fn check(&mut self) -> anyhow::Result<()> {
        self.running.iter_mut().try_for_each(|it| it.as_mut().context("a replica does not run")?.check())
    }

    /// Returns the index of the replica that runs the controllers.
    pub(super) fn leader(&self, lab: &Lab) -> anyhow::Result<usize> {
        let mut leader = None;
        until("a replica runs the controllers", || {
            for (index, port) in self.ports.into_iter().enumerate() {
                let metrics = Self::metrics(lab, port)?;
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
