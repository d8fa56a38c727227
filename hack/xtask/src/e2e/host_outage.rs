//! Outages of the host: its kube-apiserver is killed and started again, while Capstan serves the direct endpoint.

use std::time::{Duration, Instant};

use anyhow::ensure;
use serde_json::json;

use super::lab::{Lab, until};

/// Time for which the direct endpoint must work without the host.
const OUTAGE: Duration = Duration::from_secs(20);

/// Longest duration of one kubectl command on the direct endpoint. No request may wait for the host, whose reviews take
/// up to 5 s.
const COMMAND: Duration = Duration::from_secs(4);

/// Longest time until Capstan notices the outage.
const NOTICED: Duration = Duration::from_secs(10);

pub(super) fn at_start(lab: &Lab) -> anyhow::Result<()> {
    until("Capstan has kept a copy of the host's data", || is_in_state(lab, "up"))?;
    // The leader writes the copies within a second after it is elected.
    std::thread::sleep(Duration::from_secs(5));
    lab.stop_capstan();
    lab.kill_host()?;
    lab.start_capstan()?;
    until("Capstan is ready", || Ok(lab.try_kubectl("direct", &["get", "--raw", "/readyz"])?.0))?;
    until("the host is down", || is_in_state(lab, "down"))?;
    lab.kubectl("direct", &["create", "-f", &drain_rule(lab, "offline", "team")?])?;
    let (created, _, error) =
        lab.try_kubectl("direct", &["create", "-f", &drain_rule(lab, "offline", "nowhere")?])?;
    ensure!(!created && error.contains("the host cluster does not answer"), "{error}");
    lab.start_host()?;
    until("the host is up", || is_in_state(lab, "up"))?;
    lab.host_wait("admin")?;
    lab.kubectl("admin", &["get", "machinedrainrule", "offline", "-n", "team"]).map(|_| ())
}

pub(super) fn under_load(lab: &Lab) -> anyhow::Result<()> {
    let killed = Instant::now();
    lab.kill_host()?;
    let mut noticed = None;
    for count in 0.. {
        if killed.elapsed() >= OUTAGE {
            break;
        }
        let started = Instant::now();
        let annotation = format!("count={count}");
        lab.kubectl(
            "direct",
            &["annotate", "--overwrite", "machinedrainrule", "offline", "-n", "team", &annotation],
        )?;
        ensure!(started.elapsed() < COMMAND, "a write took {:?} without the host", started.elapsed());
        if noticed.is_none() && is_in_state(lab, "down")? {
            noticed = Some(killed.elapsed());
        }
    }
    ensure!(noticed.is_some_and(|after| after < NOTICED), "the outage was noticed after {noticed:?}");
    lab.kubectl("direct", &["create", "-f", &event(lab)?])?;
    lab.start_host()?;
    until("the host is up", || is_in_state(lab, "up"))?;
    until("the Event of the outage is in the host", || {
        Ok(lab.try_kubectl("admin", &["get", "event", "outage", "-n", "team"])?.0)
    })?;
    lab.host_wait("admin")?;
    lab.kubectl("admin", &["delete", "machinedrainrule", "offline", "-n", "team"]).map(|_| ())
}

/// Returns true if the metrics of Capstan say that the host is in this state.
fn is_in_state(lab: &Lab, state: &str) -> anyhow::Result<bool> {
    let (_, metrics, _) = lab.try_kubectl("direct", &["get", "--raw", "/metrics"])?;
    Ok(metrics.lines().any(|line| line == format!("capstan_host_state{{state=\"{state}\"}} 1")))
}

fn drain_rule(lab: &Lab, name: &str, namespace: &str) -> anyhow::Result<String> {
    let rule = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDrainRule",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"drain": {"behavior": "Skip"}, "pods": [{"selector": {"matchLabels": {"app": "skipped"}}}]}});
    lab.file(&format!("{name}-{namespace}.json"), &rule.to_string())
}

fn event(lab: &Lab) -> anyhow::Result<String> {
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "outage", "namespace": "team"},
        "involvedObject": {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDrainRule",
            "name": "offline", "namespace": "team"},
        "reason": "Outage", "message": "written while the host was down", "type": "Normal", "count": 1});
    lab.file("outage.json", &event.to_string())
}
