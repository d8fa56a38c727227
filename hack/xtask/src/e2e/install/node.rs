//! A machine of the installation: its commands, and its two services.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use super::network::{Network, root};
use super::units::Units;
use crate::e2e::{Process, Tools, until};
use crate::sandbox::Sandbox;

/// Machine, with the services that run on it.
pub(super) struct Node<'a> {
    network: &'a Network,
    tools: &'a Tools,
    units: &'a Units,
    home: PathBuf,
    pub(super) number: u8,
    etcd: Option<Process>,
    capstan: Option<Process>,
}

impl<'a> Node<'a> {
    pub(super) fn new(
        network: &'a Network,
        tools: &'a Tools,
        units: &'a Units,
        home: PathBuf,
        number: u8,
    ) -> Self {
        Self { network, tools, units, home, number, etcd: None, capstan: None }
    }

    pub(super) fn name(&self) -> String {
        format!("n{}", self.number)
    }

    /// Returns a file of the machine.
    pub(super) fn file(&self, path: &str) -> PathBuf {
        root(&self.home, self.number).join(path)
    }

    /// Runs `capstan` on the machine, with its root folder. Returns its output.
    pub(super) fn capstan(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.command(arguments).arg("--root").arg(root(&self.home, self.number)).output()?;
        // The command line may have a token, and is not repeated.
        let error = String::from_utf8_lossy(&output.stderr);
        let name = arguments.first().copied().unwrap_or_default();
        ensure!(output.status.success(), "{name} on node {}: {error}", self.number);
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs `capstan` on the machine, with the configuration of the server. Returns its output.
    pub(super) fn capstan_with_configuration(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let mut command = self.command(arguments);
        crate::run::output(command.arg("--config").arg(self.file("etc/capstan/config.yaml")))
    }

    /// Returns the command `capstan` on the machine.
    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.network.command(self.number, &self.tools.capstan);
        command.args(arguments).stdin(std::process::Stdio::null());
        command
    }

    /// Runs `capstan join` on the machine.
    pub(super) fn join(&self, token: Option<&str>) -> anyhow::Result<String> {
        let first = self.network.api(1);
        let (name, etcd) = (self.name(), self.tools.etcd.display().to_string());
        let server = format!("https://{first}");
        let mut arguments = vec!["join", &server, "--no-start", "--node-name", &name];
        arguments.extend(["--etcd", &etcd]);
        arguments.extend(token.into_iter().flat_map(|token| ["--token", token]));
        self.capstan(&arguments)
    }

    /// Returns the command of a service on the machine, in the sandbox of its unit.
    fn service(&self, sandbox: Option<&Sandbox>, program: &Path) -> Command {
        let Some(sandbox) = sandbox else { return self.network.command(self.number, program) };
        let mut command = self.network.command(self.number, Path::new("env"));
        command.args(sandbox.words()).arg(program);
        command
    }

    /// Returns the numbers of the processes of the services.
    pub(super) fn processes(&self) -> Vec<u32> {
        [&self.etcd, &self.capstan].into_iter().flatten().map(Process::id).collect()
    }

    pub(super) fn start_etcd(&mut self) -> anyhow::Result<()> {
        let mut command = self.service(self.units.etcd.as_ref(), &self.tools.etcd);
        command.arg("--config-file").arg(self.file("etc/capstan/etcd.yaml"));
        let log = self.home.join(format!("etcd-{}.log", self.number));
        self.etcd = Some(Process::start("etcd", &mut command, &log)?);
        Ok(())
    }

    pub(super) fn start_capstan(&mut self) -> anyhow::Result<()> {
        let mut command = self.service(self.units.capstan.as_ref(), &self.tools.capstan);
        command.args(["serve", "--config"]).arg(self.file("etc/capstan/config.yaml"));
        let log = self.home.join(format!("capstan-{}.log", self.number));
        self.capstan = Some(Process::start("capstan", &mut command, &log)?);
        Ok(())
    }

    /// Kills both services, as a crash of the machine does.
    pub(super) fn kill(&mut self) -> anyhow::Result<()> {
        for process in [self.etcd.take(), self.capstan.take()].into_iter().flatten() {
            process.kill()?;
        }
        Ok(())
    }

    /// Waits until the machine is ready, as a load balancer sees it.
    pub(super) fn ready(&mut self) -> anyhow::Result<()> {
        let url = format!("https://{}/readyz", self.network.api(self.number));
        let ca = self.file("var/lib/capstan/pki/ca.crt");
        until("the node is ready", || {
            for process in [&mut self.etcd, &mut self.capstan].into_iter().flatten() {
                process.check()?;
            }
            let mut curl = Command::new("curl");
            curl.args(["--silent", "--max-time", "2", "--cacert"]).arg(&ca).arg(&url);
            Ok(curl.output().context("curl")?.stdout == b"ok")
        })
        .with_context(|| format!("node {}; the logs are in {}", self.number, self.home.display()))
    }

    /// Checks that a file of this machine has the same content as on another one, or not.
    pub(super) fn shares(&self, other: &Self, path: &str, expected: bool) -> anyhow::Result<()> {
        let read = |node: &Self| {
            let file = node.file(path);
            std::fs::read(&file).with_context(|| file.display().to_string())
        };
        let is_same = read(self)? == read(other)?;
        ensure!(is_same == expected, "{path} is the same on two nodes: {is_same}");
        Ok(())
    }
}

impl Drop for Node<'_> {
    fn drop(&mut self) {
        // A replica on etcd serves for 30 s after SIGTERM.
        let _ = self.kill();
    }
}
