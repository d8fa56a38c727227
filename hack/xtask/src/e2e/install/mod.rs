//! An installation without a host, on three machines: `capstan init`, two times `capstan join`, and the death of each node.

mod addresses;
mod load;
mod network;
mod node;
mod units;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::balancer::Balancer;
use super::{Tools, log_secrets, until};
use crate::{prerequisites, run};
use load::Load;
use network::Network;
use node::Node;
use units::Units;

/// Number of checks.
pub(super) const COUNT: usize = 8;

/// Longest time of `init` and two joins.
const LONGEST: Duration = Duration::from_secs(300);

/// Writes before and after the death of each node.
const WRITES: usize = 5;

/// Name of all nodes.
const NAME: &str = "capstan.lab";

/// Reports whether this machine can run the part. As root, installs what it needs.
pub(super) fn is_possible() -> bool {
    prerequisites::network().is_ok() && network::is_possible()
}

/// Runs all checks. Returns the number of those that this machine cannot run.
pub(super) fn run(tools: &Tools) -> anyhow::Result<usize> {
    let home = std::env::temp_dir().join(format!("capstan-install-{}", std::process::id()));
    std::fs::create_dir_all(&home)?;
    let network = Network::create(4).context("the network namespaces cannot be created")?;
    let units = Units::new(&home).context("the units cannot be evaluated")?;
    let mut nodes: Vec<Node<'_>> =
        (1..=3).map(|number| Node::new(&network, tools, &units, home.clone(), number)).collect();
    let _balancer = Balancer::start(network.api(0), &[1, 2, 3].map(|number| network.api(number)))?;
    let lab = Lab { tools, units: &units, home: home.clone(), network: &network };
    lab.check("three machines are installed in less than five minutes", || lab.install(&mut nodes))?;
    if units.are_known() {
        let sentence = "the services of each machine have the restrictions of their units";
        lab.check(sentence, || units.verify(&nodes))?;
    }
    lab.check("an object of one node is on the others, and a second init changes nothing", || {
        lab.write_and_read(&nodes)
    })?;
    lab.check("a join token is for one node", || lab.used_token(&nodes))?;
    lab.check("no write is lost while each node dies in turn, and a name of all three works", || {
        lab.deaths(&mut nodes)
    })?;
    lab.check("HAProxy with the printed configuration uses the nodes that are ready", || {
        addresses::haproxy(&lab, &mut nodes)
    })?;
    lab.check("keepalived with the printed configuration moves the address to a node that is ready", || {
        addresses::keepalived(&lab, &mut nodes)
    })?;
    lab.check("a node leaves and joins again, and a lost one is replaced", || {
        lab.leave(&mut nodes)?;
        lab.lose(&mut nodes)
    })?;
    drop(nodes);
    std::fs::remove_dir_all(home)?;
    Ok(usize::from(!units.are_known()))
}

/// Parts that the checks share.
struct Lab<'a> {
    tools: &'a Tools,
    units: &'a Units,
    home: PathBuf,
    network: &'a Network,
}

impl Lab<'_> {
    fn check(&self, sentence: &str, run: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
        let started = Instant::now();
        let outcome = run().and_then(|()| log_secrets::absent(&self.home));
        outcome.with_context(|| format!("{sentence}; the logs are in {}", self.home.display()))?;
        eprintln!("ok      {sentence} ({:.1} s)", started.elapsed().as_secs_f64());
        Ok(())
    }

    /// Writes a file in the directory of the lab.
    fn file(&self, name: &str, content: &str) -> anyhow::Result<PathBuf> {
        let path = self.home.join(name);
        std::fs::write(&path, content).with_context(|| path.display().to_string())?;
        Ok(path)
    }

    fn install(&self, nodes: &mut [Node<'_>]) -> anyhow::Result<()> {
        let started = Instant::now();
        let [first, others @ ..] = nodes else { bail!("there are no nodes") };
        self.init(first)?;
        first.start_etcd()?;
        first.start_capstan()?;
        first.ready()?;
        for node in others.iter_mut() {
            let token = first.capstan(&["join-token", "create", "--node", &node.name()])?;
            self.join(node, token.trim())?;
        }
        let taken = started.elapsed();
        ensure!(taken < LONGEST, "the installation took {} s", taken.as_secs());
        for node in others.iter() {
            for path in ["pki/ca.key", "encryption.yaml", "etcd/pki/ca.key"] {
                node.shares(first, &format!("var/lib/capstan/{path}"), true)?;
            }
            node.shares(first, "var/lib/capstan/etcd/server/tls.key", false)?;
        }
        Ok(())
    }

    fn init(&self, first: &Node<'_>) -> anyhow::Result<String> {
        let (address, endpoint) =
            (self.network.address(first.number).to_string(), self.network.address(0).to_string());
        let (name, etcd) = (first.name(), self.tools.etcd.display().to_string());
        let settings = ["--name", "lab", "--node-name", &name, "--address", &address];
        let rest = ["--endpoint", &endpoint, "--etcd", &etcd, "--no-start", "--yes"];
        first.capstan(&[&["init"], &settings[..], &rest].concat())
    }

    /// Joins a node, starts its services when the command says so, and waits until it is ready.
    fn join(&self, node: &mut Node<'_>, token: &str) -> anyhow::Result<()> {
        let printed = node.join(Some(token))?;
        ensure!(printed.contains("run this command again"), "{printed}");
        node.start_etcd()?;
        until("the learner is promoted", || {
            let printed = node.join(None)?;
            Ok(printed.contains("from learner to voter") || printed.contains("has a vote"))
        })?;
        node.start_capstan()?;
        node.ready()
    }

    /// Reads through a name of all three nodes, from a machine that has no node.
    fn by_name(&self) -> anyhow::Result<()> {
        self.network.add_name(4, NAME, &[1, 2, 3])?;
        let mut command = self.network.command(4, &self.tools.kubectl);
        command.arg("--kubeconfig").arg(self.admin()).arg(format!("--server=https://{NAME}:7443"));
        // The certificates have this name beside those of the installation.
        command.args(["--tls-server-name=localhost", "get", "secret", "shared", "-o", "name"]);
        let found = run::output(&mut command).context("kubectl with a name of three addresses")?;
        ensure!(found.trim() == "secret/shared", "{found}");
        Ok(())
    }

    fn kubectl(&self, number: u8, arguments: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new(&self.tools.kubectl);
        command.arg("--kubeconfig").arg(self.admin());
        command.arg(format!("--server=https://{}", self.network.api(number))).args(arguments);
        run::output(&mut command)
    }

    /// Kubeconfig of the first administrator, whose server is the address of the load balancer.
    fn admin(&self) -> PathBuf {
        network::root(&self.home, 1).join("etc/capstan/admin.kubeconfig")
    }

    fn write_and_read(&self, nodes: &[Node<'_>]) -> anyhow::Result<()> {
        self.kubectl(1, &["create", "secret", "generic", "shared", "--from-literal=word=hello"])?;
        for node in nodes {
            let path = ["get", "secret", "shared", "-o", "jsonpath={.data.word}"];
            let found = self.kubectl(node.number, &path)?;
            ensure!(found == "aGVsbG8=", "node {} has {found:?}", node.number);
        }
        let first = nodes.first().context("there are no nodes")?;
        let before = contents(&first.file(""))?;
        let printed = self.init(first)?;
        ensure!(printed.contains("nothing had to be changed"), "{printed}");
        ensure!(before == contents(&first.file(""))?, "a second init changes files");
        Ok(())
    }

    /// A token that a node has used is refused to another one.
    fn used_token(&self, nodes: &[Node<'_>]) -> anyhow::Result<()> {
        let first = nodes.first().context("there are no nodes")?;
        let token = first.capstan(&["join-token", "create", "--node", "n9"])?;
        let stranger = Node::new(self.network, self.tools, self.units, self.home.clone(), 4);
        let Err(error) = stranger.join(Some(token.trim())) else { bail!("another node has joined") };
        let text = format!("{error:#}");
        ensure!(text.contains("403") && text.contains("for another node"), "{text}");
        let has_keys = stranger.file("var/lib/capstan/encryption.yaml").exists();
        ensure!(!has_keys, "a refused node has received keys");
        // A token that names another CA is sent to no server.
        let foreign = token.trim().replacen("cap1.", "", 1);
        let (_, rest) = foreign.split_once('.').context("the token has no parts")?;
        let foreign = format!("cap1.{}.{rest}", "00".repeat(32));
        let Err(error) = stranger.join(Some(&foreign)) else { bail!("a server of another CA is used") };
        ensure!(format!("{error:#}").contains("nothing was sent"), "{error:#}");
        Ok(())
    }

    fn deaths(&self, nodes: &mut [Node<'_>]) -> anyhow::Result<()> {
        let load = Load::start(&self.tools.kubectl, self.admin(), &self.home);
        load.await_writes(WRITES)?;
        for node in nodes.iter_mut() {
            node.kill()?;
            load.await_writes(WRITES)?;
            self.by_name()?;
            node.start_etcd()?;
            node.start_capstan()?;
            node.ready()?;
            load.await_writes(WRITES)?;
        }
        let written = load.end()?;
        for node in nodes.iter() {
            let found = self.kubectl(node.number, &["get", "configmaps", "-o", "name"])?;
            let missing = written.names.iter().find(|name| {
                let line = format!("configmap/{name}");
                !found.lines().any(|found| found == line)
            });
            ensure!(missing.is_none(), "node {} has lost {missing:?}", node.number);
        }
        eprintln!(
            "        {} writes, {} repeated, the slowest took {:.1} s",
            written.names.len(),
            written.repeated,
            written.slowest.as_secs_f64()
        );
        Ok(())
    }

    fn leave(&self, nodes: &mut [Node<'_>]) -> anyhow::Result<()> {
        let [first, .., last] = nodes else { bail!("there are no nodes") };
        last.capstan(&["leave", "--yes"])?;
        last.kill()?;
        ensure!(!last.file("var/lib/capstan").exists(), "the keys are still there");
        // The member that has left may have been the leader of etcd: a write during the election has an unknown outcome.
        until("the other nodes accept writes", || {
            Ok(self.kubectl(1, &["create", "configmap", "after-leave"]).is_ok()
                || self.kubectl(1, &["get", "configmap", "after-leave"]).is_ok())
        })?;
        let token = first.capstan(&["join-token", "create"])?;
        self.join(last, token.trim())?;
        self.kubectl(last.number, &["get", "configmap", "after-leave"]).map(drop)
    }

    /// A machine dies with its disk. Another one gets its name and its address.
    fn lose(&self, nodes: &mut [Node<'_>]) -> anyhow::Result<()> {
        let [first, .., last] = nodes else { bail!("there are no nodes") };
        // A mistyped name must not end a node that runs.
        let removed = first.capstan(&["leave", "--yes", "--lost", &last.name()]);
        ensure!(removed.is_err(), "a node that answers was removed: {removed:?}");
        last.kill()?;
        std::fs::remove_dir_all(last.file(""))?;
        first.capstan(&["leave", "--yes", "--lost", &last.name()])?;
        // A node joins during the rotation of the CA of servers, too.
        for step in ["start", "promote"] {
            first.capstan_with_configuration(&["ca", step, "--ca", "serving"])?;
        }
        let token = first.capstan(&["join-token", "create"])?;
        until("the server shows a certificate of the new CA", || match last.join(Some(token.trim())) {
            Err(error) if format!("{error:#}").contains("nothing was sent") => Ok(false),
            other => other.map(|_| true),
        })?;
        self.join(last, token.trim())?;
        let printed = first.capstan_with_configuration(&["doctor"])?;
        ensure!(printed.contains("members with a vote: 3"), "{printed}");
        Ok(())
    }
}

/// Returns every file below a folder that commands write, with its content.
fn contents(root: &Path) -> anyhow::Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut all = Vec::new();
    for part in ["etc", "var/lib/capstan/pki", "var/lib/capstan/etcd"] {
        let mut open = vec![root.join(part)];
        while let Some(directory) = open.pop() {
            for entry in std::fs::read_dir(&directory)? {
                let path = entry?.path();
                if path.is_dir() {
                    open.push(path);
                } else {
                    all.push((path.clone(), std::fs::read(&path)?));
                }
            }
        }
    }
    all.sort();
    Ok(all)
}
