//! One address for all nodes: HAProxy and keepalived, with the configurations that `capstan init` prints.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail, ensure};

use super::Lab;
use super::node::Node;
use crate::e2e::{Process, until};
use crate::run;

/// Number of the machine that has no node, where HAProxy runs.
const OUTSIDE: u8 = 4;

/// Last part of the virtual address.
const VIRTUAL: u8 = 100;

/// Reads after the death of a node, none of which may fail.
const READS: usize = 10;

/// Uses the nodes through HAProxy, and kills one of them.
pub(super) fn haproxy(lab: &Lab<'_>, nodes: &mut [Node<'_>]) -> anyhow::Result<()> {
    let [first, victim, ..] = nodes else { bail!("there are no nodes") };
    let config = print(lab, first, "haproxy", &[])?;
    // The documentation says to copy the CA there.
    let ca = first.file("var/lib/capstan/pki/ca.crt").display().to_string();
    let config = lab.file("haproxy.cfg", &config.replace("/etc/haproxy/capstan-ca.crt", &ca))?;
    let mut command = lab.network.command(OUTSIDE, "haproxy".as_ref());
    command.arg("-db").arg("-f").arg(&config);
    let mut process = Process::start("haproxy", &mut command, &lab.home.join("haproxy.log"))?;
    until("HAProxy finds a node", || {
        process.check()?;
        ready(lab, OUTSIDE)
    })?;
    victim.kill()?;
    // The check fails twice, with two seconds between.
    std::thread::sleep(std::time::Duration::from_secs(6));
    for read in 0..READS {
        ensure!(ready(lab, OUTSIDE)?, "read {read} fails");
    }
    restart(victim)
}

/// Uses the nodes through a virtual address, and kills the one that has it.
pub(super) fn keepalived(lab: &Lab<'_>, nodes: &mut [Node<'_>]) -> anyhow::Result<()> {
    let address = lab.network.address(VIRTUAL).to_string();
    let first = nodes.first().context("there are no nodes")?;
    let config = print(lab, first, "keepalived", &["--endpoint", &address])?;
    let mut processes = Vec::new();
    for node in nodes.iter() {
        // The same file on all machines, but each has a root folder of its own here.
        let (from, to) = (first.file("").display().to_string(), node.file("").display().to_string());
        let name = format!("keepalived-{}.conf", node.number);
        let config = lab.file(&name, &config.replace(&from, &to))?;
        let mut command = lab.network.command(node.number, "keepalived".as_ref());
        command
            .args(["--dont-fork", "--log-console", "--vrrp"])
            .arg(format!("--use-file={}", config.display()));
        for pid in ["pid", "vrrp_pid"] {
            let file = lab.home.join(format!("keepalived-{}.{pid}", node.number));
            command.arg(format!("--{pid}={}", file.display()));
        }
        let log = lab.home.join(format!("keepalived-{}.log", node.number));
        processes.push(Process::start("keepalived", &mut command, &log)?);
    }
    until("a node has the virtual address, and is ready", || {
        processes.iter_mut().try_for_each(Process::check)?;
        ready(lab, VIRTUAL)
    })?;
    let holder = holder(lab, nodes, &address)?;
    let victim = nodes.iter_mut().find(|node| node.number == holder).context("no node has the address")?;
    victim.kill()?;
    until("another node has the virtual address, and is ready", || {
        Ok(self::holder(lab, nodes, &address).is_ok_and(|now| now != holder) && ready(lab, VIRTUAL)?)
    })?;
    let victim = nodes.iter_mut().find(|node| node.number == holder).context("the node is gone")?;
    restart(victim)
}

fn restart(node: &mut Node<'_>) -> anyhow::Result<()> {
    node.start_etcd()?;
    node.start_capstan()?;
    node.ready()
}

/// Returns the configuration of a program for all nodes.
fn print(lab: &Lab<'_>, first: &Node<'_>, program: &str, more: &[&str]) -> anyhow::Result<String> {
    let others = [2, 3].map(|number| format!("--node=n{number}={}", lab.network.address(number)));
    let mut arguments = vec!["init", "--print", program];
    arguments.extend(others.iter().map(String::as_str));
    arguments.extend(more);
    first.capstan(&arguments)
}

/// Reports whether the address of a machine leads to a node that is ready. The certificate must be that of a node.
fn ready(lab: &Lab<'_>, number: u8) -> anyhow::Result<bool> {
    let ca: PathBuf = super::network::root(&lab.home, 1).join("var/lib/capstan/pki/ca.crt");
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--max-time", "2", "--resolve"]);
    curl.arg(format!("localhost:7443:{}", lab.network.address(number)));
    curl.arg("--cacert").arg(ca).arg("https://localhost:7443/readyz");
    Ok(curl.output().context("curl")?.stdout == b"ok")
}

/// Returns the number of the node that has an address.
fn holder(lab: &Lab<'_>, nodes: &[Node<'_>], address: &str) -> anyhow::Result<u8> {
    for node in nodes {
        let mut command = lab.network.command(node.number, "ip".as_ref());
        let listed = run::output(command.args(["-oneline", "address", "show", "dev", "eth0"]))?;
        if listed.contains(&format!(" {address}/")) {
            return Ok(node.number);
        }
    }
    bail!("no node has the address {address}")
}
