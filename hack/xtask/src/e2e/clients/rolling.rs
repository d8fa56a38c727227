//! Scenario of a rolling restart: two replicas are restarted one after the other, under load through the host.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::ensure;

use super::HOST;
use crate::e2e::balancer::Balancer;
use crate::e2e::lab::{self, Lab, until};
use crate::prerequisites;

/// Delay that is longer than the load balancer needs to notice that a replica is not ready.
const SHUTDOWN_DELAY: &str = "4s";

/// Pause before, between and after restarts.
const STEADY: Duration = Duration::from_secs(4);

/// Duration of the load. It covers both restarts: each takes the delay, up to 10 s for watches, and a start.
const LOAD: &str = "75s";

pub(in crate::e2e) fn restart(lab: &Lab) -> anyhow::Result<()> {
    HOST.namespace(lab, "rolling")?;
    lab.stop_capstan();
    let result = under_load(lab);
    lab.start_capstan()?;
    result
}

fn under_load(lab: &Lab) -> anyhow::Result<()> {
    let [one, other] = lab::ports()?;
    let mut replicas = [("replica-one", one), ("replica-two", other)]
        .into_iter()
        .map(|(name, port)| Ok((name, port, lab.replica(name, port, SHUTDOWN_DELAY)?)))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let at = |port| std::net::SocketAddr::from(([127, 0, 0, 1], port));
    let _balancer = Balancer::start(at(lab.capstan_port), &[at(one), at(other)])?;
    until("the host reaches Capstan again", || {
        Ok(lab.try_kubectl(HOST.user, &["get", "machines", "-n", "rolling"])?.0)
    })?;
    let mut load = Command::new(prerequisites::go_program("clients", "clients")?);
    load.args(["--namespace", "rolling", "--kubeconfig", &HOST.kubeconfig(lab), "--load", LOAD]);
    let mut load = load.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    std::thread::sleep(STEADY);
    for (name, port, replica) in &mut replicas {
        replica.stop();
        *replica = lab.replica(name, *port, SHUTDOWN_DELAY)?;
        std::thread::sleep(STEADY);
    }
    let ended_early = load.try_wait()?;
    let output = load.wait_with_output()?;
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    ensure!(output.status.success(), "the load generator failed: {text}");
    ensure!(ended_early.is_none(), "the load ended before the last restart: {text}");
    eprint!("        {text}");
    Ok(())
}
