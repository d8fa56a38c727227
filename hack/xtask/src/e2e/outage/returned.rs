//! Copies of the outage in a host that is back: Secrets of clusters, and an Event.

use std::time::Duration;

use anyhow::ensure;
use serde_json::{Value, json};

use super::load::Load;
use crate::e2e::lab::{Lab, until};

/// Reason of the Event.
const REASON: &str = "Outage";

/// Event that happens twice while the host is down.
pub(super) struct OutageEvent {
    first: String,
    last: String,
}

impl OutageEvent {
    /// Creates the Event, and then says that it has happened again.
    pub(super) fn happen(lab: &Lab) -> anyhow::Result<Self> {
        let now = || jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let first = now();
        let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "outage", "namespace": "team"},
            "involvedObject": {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDrainRule",
                "name": "carol-0", "namespace": "team"},
            "reason": REASON, "message": "written while the host was down", "type": "Normal", "count": 1,
            "firstTimestamp": first, "lastTimestamp": first});
        let file = lab.file("outage.json", &event.to_string())?;
        lab.kubectl("direct", &["create", "-f", &file])?;
        std::thread::sleep(Duration::from_secs(1));
        let last = now();
        let again = json!({"count": 2, "lastTimestamp": last}).to_string();
        let patch = ["patch", "event", "outage", "-n", "team", "--type=merge", "--patch", &again];
        lab.kubectl("direct", &patch)?;
        Ok(Self { first, last })
    }

    /// Waits until the host has the Event, once and with all its times.
    fn wait(&self, lab: &Lab) -> anyhow::Result<()> {
        let mut found = Value::Null;
        until("the Event of the outage is in the host", || {
            let get = ["get", "event", "outage", "-n", "team", "-o", "json"];
            let (is_there, text, _) = lab.try_kubectl("admin", &get)?;
            found = serde_json::from_str(&text).unwrap_or_default();
            Ok(is_there && found["count"] == 2)
        })?;
        let times = (found["firstTimestamp"].as_str(), found["lastTimestamp"].as_str());
        let expected = (Some(self.first.as_str()), Some(self.last.as_str()));
        ensure!(times == expected, "the Event of the outage has the times {times:?} instead of {expected:?}");
        let selector = format!("reason={REASON}");
        let list = ["get", "events", "-n", "team", "--field-selector", &selector, "-o", "name"];
        let names = lab.kubectl("admin", &list)?;
        ensure!(names.lines().count() == 1, "the host has several Events of the outage: {names}");
        Ok(())
    }
}

/// Waits until the host has all copies: the Event, and the Secrets of clusters.
pub(super) fn wait(lab: &Lab, load: &mut Load, event: &OutageEvent) -> anyhow::Result<()> {
    event.wait(lab)?;
    load.mark("the Event of the outage is in the host")?;
    for (namespace, secret) in [("team", "late-kubeconfig"), ("quickstart", "quickstart-kubeconfig")] {
        until("the Secrets of clusters are in the host", || {
            Ok(lab.try_kubectl("admin", &["get", "secret", secret, "-n", namespace])?.0)
        })?;
    }
    load.mark("the Secrets of clusters are in the host")?;
    until("the Secret of the deleted Cluster is gone from the host", || {
        let get = ["get", "secret", "gone-kubeconfig", "-n", "team", "--ignore-not-found", "-o", "name"];
        let (found, name, _) = lab.try_kubectl("admin", &get)?;
        Ok(found && name.is_empty())
    })?;
    load.mark("the Secret of the deleted Cluster is gone from the host")
}
