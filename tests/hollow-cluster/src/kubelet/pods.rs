//! Pods: static ones, those of DaemonSets, and those that users create.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::is_owned_by;
use crate::api::kinds::named;
use crate::api::store::Store;
use crate::cluster::Cluster;
use crate::json::{flag, list, now, set, text};
use crate::lab::Lab;
use crate::lock;

/// Namespace of the pods of a control plane.
const SYSTEM: &str = "kube-system";

/// Returns the status of a pod whose containers run.
fn running(containers: &[Value], node: &str) -> Value {
    let time = now();
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": time});
    let container = |container: &Value| {
        json!({
            "name": text(container, "/name"), "image": text(container, "/image"), "imageID": "", "ready": true,
            "started": true, "restartCount": 0, "state": {"running": {"startedAt": time}},
        })
    };
    let conditions: Vec<Value> =
        ["PodScheduled", "Initialized", "ContainersReady", "Ready"].map(condition).to_vec();
    json!({
        "phase": "Running", "conditions": conditions, "hostIP": node, "startTime": time,
        "containerStatuses": containers.iter().map(container).collect::<Vec<_>>(),
    })
}

/// Creates the mirror pods of a control plane node.
pub(super) fn create_static(store: &Store, node: &str, version: &str, etcd: bool) {
    let owner = store.get("nodes", "", node);
    let uid = owner.as_ref().map(|node| text(node, "/metadata/uid")).unwrap_or_default();
    let components = ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"];
    for component in components.into_iter().filter(|component| etcd || *component != "etcd") {
        let tag = if component == "etcd" { "3.6.6-0" } else { version };
        let containers = [json!({"name": component, "image": format!("registry.k8s.io/{component}:{tag}")})];
        let name = format!("{component}-{node}");
        let hash = uuid::Uuid::new_v4().simple().to_string();
        let pod = json!({
            "metadata": {
                "name": name, "labels": {"component": component, "tier": "control-plane"},
                "annotations": {
                    "kubernetes.io/config.hash": hash, "kubernetes.io/config.mirror": hash,
                    "kubernetes.io/config.source": "file",
                },
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid, "controller": true},
                ],
            },
            "spec": {
                "nodeName": node, "containers": containers, "hostNetwork": true,
                "priorityClassName": "system-node-critical", "tolerations": [{"operator": "Exists"}],
            },
            "status": running(&containers, node),
        });
        store.remove("pods", SYSTEM, &name);
        store.seed("pods", SYSTEM, pod);
    }
}

/// Lets time pass for all pods. `alive` are the nodes whose kubelet reports.
pub(super) fn tend(lab: &Lab, cluster: &Cluster, alive: &[String]) {
    let store = &cluster.store;
    let (pods, _) = store.list("pods", None);
    let mut terminating = lock(&cluster.terminating);
    if !terminating.is_empty() {
        let present: BTreeSet<&str> = pods.iter().map(|pod| text(pod, "/metadata/uid")).collect();
        terminating.retain(|uid, _| present.contains(uid.as_str()));
    }
    let alive_nodes: BTreeSet<&str> = alive.iter().map(String::as_str).collect();
    for pod in &pods {
        let (namespace, name) = (text(pod, "/metadata/namespace"), text(pod, "/metadata/name"));
        let node = text(pod, "/spec/nodeName");
        if node.is_empty() {
            schedule(store, pod, alive);
            continue;
        }
        if store.get("nodes", "", node).is_none() {
            // The pod collector removes pods of Nodes that no longer exist.
            store.remove("pods", namespace, name);
            continue;
        }
        if !alive_nodes.contains(node) {
            continue;
        }
        if pod.pointer("/metadata/deletionTimestamp").is_some() {
            let seconds = pod.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_u64);
            let grace = Duration::from_secs(seconds.unwrap_or_default()).min(lab.options.pod_grace);
            let since = terminating.entry(text(pod, "/metadata/uid").to_owned()).or_insert_with(Instant::now);
            if since.elapsed() >= grace && list(pod, "/metadata/finalizers").is_empty() {
                store.remove("pods", namespace, name);
            }
        } else if text(pod, "/status/phase") == "Pending" {
            let status = running(list(pod, "/spec/containers"), node);
            let _gone = store.update(named("pods"), namespace, name, |pod| {
                set(pod, &["status"], status);
                Ok(())
            });
        }
    }
    drop(terminating);
    run_daemons(store, alive);
}

/// Places a pod on a node that accepts pods.
fn schedule(store: &Store, pod: &Value, alive: &[String]) {
    let tolerates_all = list(pod, "/spec/tolerations")
        .iter()
        .any(|held| held.get("key").is_none() && text(held, "/operator") == "Exists");
    let accepts = |name: &&String| {
        store.get("nodes", "", name).is_some_and(|node| {
            let repels = list(&node, "/spec/taints").iter().any(|taint| {
                let tolerated = list(pod, "/spec/tolerations")
                    .iter()
                    .any(|held| text(held, "/key") == text(taint, "/key"));
                text(taint, "/effect") != "PreferNoSchedule" && !tolerated
            });
            !flag(&node, "/spec/unschedulable") && (tolerates_all || !repels)
        })
    };
    let accepting: Vec<&String> = alive.iter().filter(accepts).collect();
    // The uid is random, and so spreads pods over the nodes.
    let number: usize = text(pod, "/metadata/uid").bytes().map(usize::from).sum();
    let chosen = number.checked_rem(accepting.len()).and_then(|position| accepting.get(position));
    if let Some(chosen) = chosen {
        let (namespace, name) = (text(pod, "/metadata/namespace"), text(pod, "/metadata/name"));
        let _gone = store.bind(namespace, name, chosen);
    }
}

/// Creates the missing pods of DaemonSets. Selectors of nodes are not evaluated.
fn run_daemons(store: &Store, alive: &[String]) {
    let (daemons, _) = store.list("daemonsets", None);
    for daemon in daemons {
        let (namespace, name) = (text(&daemon, "/metadata/namespace"), text(&daemon, "/metadata/name"));
        let uid = text(&daemon, "/metadata/uid");
        let (pods, _) = store.list("pods", Some(namespace));
        let owned = |pod: &&Arc<Value>| {
            is_owned_by(pod, "DaemonSet")
                && list(pod, "/metadata/ownerReferences").iter().any(|owner| text(owner, "/uid") == uid)
        };
        let served: BTreeSet<&str> =
            pods.iter().filter(owned).map(|pod| text(pod, "/spec/nodeName")).collect();
        let missing = alive.iter().filter(|node| !served.contains(node.as_str()));
        for node in missing.filter(|node| store.get("nodes", "", node).is_some()) {
            let mut pod = daemon.pointer("/spec/template").cloned().unwrap_or_else(|| json!({}));
            let owner = json!({
                "apiVersion": "apps/v1", "kind": "DaemonSet", "name": name, "uid": uid, "controller": true,
                "blockOwnerDeletion": true,
            });
            set(&mut pod, &["metadata", "generateName"], format!("{name}-"));
            set(&mut pod, &["metadata", "ownerReferences"], json!([owner]));
            set(&mut pod, &["spec", "nodeName"], node.as_str());
            set(&mut pod, &["status"], json!({"phase": "Pending"}));
            store.seed("pods", namespace, pod);
        }
    }
}
