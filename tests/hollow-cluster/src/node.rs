//! Node objects: what a kubelet and the node controller write.

use serde_json::{Value, json};

use crate::api::failure::Failure;
use crate::api::kinds::named;
use crate::api::store::Store;
use crate::json::{list_mut, now, set, text};

/// Taint of a Node whose kubelet is not ready.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// Taint of a Node whose kubelet does not report.
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// Conditions besides Ready, with their reason while all is well.
const PRESSURES: [(&str, &str); 3] = [
    ("MemoryPressure", "KubeletHasSufficientMemory"),
    ("DiskPressure", "KubeletHasNoDiskPressure"),
    ("PIDPressure", "KubeletHasSufficientPID"),
];

/// State of a Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readiness {
    Ready,
    NotReady,
    Unknown,
}

impl Readiness {
    /// Returns status, reason and message of the condition Ready.
    fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Ready => ("True", "KubeletReady", "kubelet is posting ready status"),
            Self::NotReady => ("False", "KubeletNotReady", "container runtime network not ready"),
            Self::Unknown => ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status."),
        }
    }

    /// Returns the taints of the node controller.
    fn taints(self) -> Vec<Value> {
        let both = |key: &str| {
            vec![
                json!({"key": key, "effect": "NoSchedule", "timeAdded": now()}),
                json!({"key": key, "effect": "NoExecute", "timeAdded": now()}),
            ]
        };
        match self {
            Self::Ready => Vec::new(),
            Self::NotReady => both(NOT_READY),
            Self::Unknown => both(UNREACHABLE),
        }
    }
}

/// Sets a condition. The time of the transition changes only with the status.
fn set_condition(node: &mut Value, kind: &str, status: &str, reason: &str, message: &str) {
    let time = now();
    let conditions = list_mut(node, &["status", "conditions"]);
    let held = conditions.iter().position(|condition| text(condition, "/type") == kind);
    let same = held.and_then(|position| conditions.get(position));
    let same = same.filter(|condition| text(condition, "/status") == status);
    let transition = same.map_or_else(|| time.clone(), |held| text(held, "/lastTransitionTime").to_owned());
    let condition = json!({
        "type": kind, "status": status, "reason": reason, "message": message, "lastHeartbeatTime": time,
        "lastTransitionTime": transition,
    });
    match held.and_then(|position| conditions.get_mut(position)) {
        Some(held) => *held = condition,
        None => conditions.push(condition),
    }
}

/// Sets conditions and taints.
pub(crate) fn set_readiness(node: &mut Value, readiness: Readiness) {
    for (kind, reason) in PRESSURES {
        let (status, reason) = match readiness {
            Readiness::Ready | Readiness::NotReady => ("False", reason),
            Readiness::Unknown => ("Unknown", "NodeStatusUnknown"),
        };
        set_condition(node, kind, status, reason, "");
    }
    let (status, reason, message) = readiness.words();
    set_condition(node, "Ready", status, reason, message);
    let taints = list_mut(node, &["spec", "taints"]);
    taints.retain(|taint| ![NOT_READY, UNREACHABLE].contains(&text(taint, "/key")));
    taints.extend(readiness.taints());
    if taints.is_empty() {
        crate::json::remove(node, &["spec"], "taints");
    }
}

/// Writes conditions and taints of a Node that exists.
pub(crate) fn write_readiness(store: &Store, name: &str, readiness: Readiness) {
    let changed = store.update(named("nodes"), "", name, |node| {
        set_readiness(node, readiness);
        Ok(())
    });
    if let Err(failure) = changed {
        tracing::debug!(node = name, message = failure.message, "the Node is gone");
    }
}

/// Registers a Node that is not ready yet, with a new boot id. Spec and labels of a Node that exists stay.
pub(crate) fn register(store: &Store, template: &Value) -> Result<(), Failure> {
    let mut fresh = template.clone();
    set(&mut fresh, &["status", "nodeInfo", "bootID"], uuid::Uuid::new_v4().to_string());
    let name = text(template, "/metadata/name");
    if store.get("nodes", "", name).is_none() {
        set_readiness(&mut fresh, Readiness::NotReady);
        return store.create(named("nodes"), "", fresh).map(|_| ());
    }
    let changed = store.update(named("nodes"), "", name, |node| {
        for field in ["addresses", "nodeInfo", "capacity", "allocatable"] {
            set(
                node,
                &["status", field],
                fresh.pointer(&format!("/status/{field}")).cloned().unwrap_or_default(),
            );
        }
        // A kubelet corrects its own labels, but not those of others.
        for (key, value) in
            template.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten()
        {
            set(node, &["metadata", "labels", key], value.clone());
        }
        if let Some(provider) = template.pointer("/spec/providerID") {
            set(node, &["spec", "providerID"], provider.clone());
        }
        set_readiness(node, Readiness::NotReady);
        Ok(())
    });
    changed.map(|_| ())
}
