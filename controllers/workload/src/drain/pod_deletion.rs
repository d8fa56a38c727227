//! Deletion of the Pods that a drain could not evict. Disruption budgets do not count for a deletion.

use std::time::Duration;

use apiserver_types::MachineDrainRule;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, Preconditions};
use kube::{Api, Client};
use tokio::time::{Instant, timeout_at};

use super::evict::Evicted;
use super::progress::{DrainProgress, DrainWaiting};
use super::verdict::{Verdict, full_name, namespace};
use super::{cordon, is_cordoned, node};
use crate::error::says_not_found;
use crate::{WorkloadError, describe, found};

/// Longest duration of all deletions of a pass: that of the evictions of a pass.
const DELETIONS: Duration = Duration::from_secs(10);

/// Makes one pass of a drain by force: cordons the Node, and deletes all Pods that a drain would evict or wait for, in any
/// order. Each Pod gets its own grace period, so that its containers can end. Pods that cannot be deleted fail no pass.
///
/// Idempotent: each pass decides anew. Cancel safety: may be dropped at any moment.
///
/// # Errors
/// The Node or its Pods cannot be read, the Node cannot be cordoned, or a rule cannot be evaluated.
pub async fn delete_pods(
    client: &Client,
    node: &str,
    rules: &[MachineDrainRule],
) -> Result<DrainProgress, WorkloadError> {
    let nodes: Api<Node> = Api::all(client.clone());
    let Some(object) = found(nodes.get(node).await)? else {
        return Ok(DrainProgress::Done);
    };
    if !is_cordoned(&object) {
        cordon(&nodes, node).await?;
    }
    let unreachable = node::is_unreachable(&object);
    let pods = node::pods(client, node).await?;
    let verdicts = node::verdicts(client, &pods, rules, unreachable).await?;
    let mut waiting = DrainWaiting::default();
    let end = Instant::now() + DELETIONS;
    for (pod, _) in verdicts.into_iter().filter(|(_, verdict)| *verdict != Verdict::Skip) {
        let result = match pod.metadata.deletion_timestamp {
            Some(_) => Evicted::Terminating,
            None => timeout_at(end, delete(client, pod, unreachable)).await.unwrap_or_else(|_| late()),
        };
        match result {
            Evicted::Terminating => waiting.terminating.push(full_name(pod)),
            Evicted::Gone => {}
            Evicted::Failed(reason) => waiting.failed.entry(reason).or_default().push(full_name(pod)),
        }
    }
    Ok(if waiting.is_empty() { DrainProgress::Done } else { DrainProgress::Waiting(waiting) })
}

/// Deletes a Pod, and no other of its name.
async fn delete(client: &Client, pod: &Pod, unreachable: bool) -> Evicted {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace(pod));
    let only_this = Preconditions { uid: pod.metadata.uid.clone(), resource_version: None };
    // As for an eviction: a kubelet that does not report will not stop the containers.
    let grace_period_seconds = unreachable.then_some(1);
    let params = DeleteParams { grace_period_seconds, ..DeleteParams::default() }.preconditions(only_this);
    match pods.delete(pod.metadata.name.as_deref().unwrap_or_default(), &params).await {
        Ok(_) => Evicted::Terminating,
        Err(kube::Error::Api(status)) if says_not_found(&status) => Evicted::Gone,
        // The uid is another one: the Pod that was to leave is gone.
        Err(kube::Error::Api(status))
            if status.code == 409 && status.message.contains("UID in precondition") =>
        {
            Evicted::Gone
        }
        Err(error) => Evicted::Failed(format!("failed to delete Pod, {}", describe(&error))),
    }
}

fn late() -> Evicted {
    let seconds = DELETIONS.as_secs();
    Evicted::Failed(format!(
        "failed to delete Pod, the deletions took longer than {seconds}s; they are repeated"
    ))
}
