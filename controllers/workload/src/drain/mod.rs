//! Drain of a Node, the wait for its volumes, and its deletion.

mod budgets;
mod evict;
mod node;
mod out_of_service;
mod pod_deletion;
mod preview;
mod progress;
mod refusals;
mod rules;
mod selectors;
mod verdict;
mod volumes;

use std::collections::BTreeMap;

use apiserver_types::MachineDrainRule;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use crate::{WorkloadError, found};
use evict::{Evicted, evict_all};
use verdict::{Plan, full_name, plan};

pub use budgets::NEVER;
pub use node::is_unreachable;
pub use out_of_service::{
    ServiceChange, is_out_of_service, is_own_taint, is_taken_out_of_service, return_to_service,
    take_out_of_service,
};
pub use pod_deletion::delete_pods;
pub use preview::preview;
pub use progress::{BUDGET, DrainProgress, DrainWaiting};
pub use refusals::{RefusingBudgets, refusals};
pub use rules::{Labels, matching_rules};
pub use selectors::matches;
pub use verdict::Verdict;
pub use volumes::{VolumeProgress, VolumesWaiting, wait_for_volumes};

/// Annotation of a Node that a MachineOperation has cordoned: the uid of the operation, `/`, and the boot id at that time.
/// A Node that another client has cordoned does not get it.
pub const CORDONED_BY: &str = "capstan.dev/cordoned-by";

/// Makes one pass of a drain: cordons the Node, and evicts the Pods whose turn it is, for at most ten seconds. `rules`
/// are those that [`matching_rules`] returned for the Machine. Pods that cannot be evicted fail no pass.
///
/// Idempotent: each pass decides anew. Cancel safety: may be dropped at any moment.
///
/// # Errors
/// The Node or its Pods cannot be read, the Node cannot be cordoned, or a rule cannot be evaluated.
pub async fn drain(
    client: &Client,
    node: &str,
    rules: &[MachineDrainRule],
) -> Result<DrainProgress, WorkloadError> {
    let nodes: Api<Node> = Api::all(client.clone());
    let Some(object) = found(nodes.get(node).await)? else {
        return Ok(DrainProgress::Done);
    };
    // In each pass, so that an uncordon in between is undone.
    if !is_cordoned(&object) {
        cordon(&nodes, node).await?;
    }
    let unreachable = is_unreachable(&object);
    let pods = node::pods(client, node).await?;
    let verdicts = node::verdicts(client, &pods, rules, unreachable).await?;
    let plan = plan(&verdicts);
    let mut evicted = evict_all(client, &plan.evict_now, unreachable).await;
    budgets::explain(client, &mut evicted, Timestamp::now()).await;
    let waiting = waiting(&plan, evicted);
    Ok(if waiting.is_empty() { DrainProgress::Done } else { DrainProgress::Waiting(waiting) })
}

/// Says whether a Node is unschedulable.
pub fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true)
}

async fn cordon(nodes: &Api<Node>, name: &str) -> Result<(), WorkloadError> {
    let patch = Patch::Merge(json!({ "spec": { "unschedulable": true } }));
    nodes.patch(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Combines the plan and the results of the evictions into the Pods that the drain still waits for.
fn waiting(plan: &Plan<'_>, evicted: Vec<(String, Evicted)>) -> DrainWaiting {
    let mut terminating = names(&plan.terminating);
    let mut failed: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (pod, result) in evicted {
        match result {
            Evicted::Terminating => terminating.push(pod),
            Evicted::Gone => {}
            Evicted::Failed(reason) => failed.entry(reason).or_default().push(pod),
        }
    }
    DrainWaiting {
        terminating,
        failed,
        evicted_later: names(&plan.evict_later),
        completing: names(&plan.wait_now),
        completed_later: names(&plan.wait_later),
    }
}

fn names(pods: &[&Pod]) -> Vec<String> {
    pods.iter().map(|pod| full_name(pod)).collect()
}

/// Deletes a Node. Succeeds if it does not exist.
///
/// # Errors
/// The API server refuses, or does not answer.
pub async fn delete_node(client: &Client, name: &str) -> Result<(), WorkloadError> {
    let nodes: Api<Node> = Api::all(client.clone());
    found(nodes.delete(name, &DeleteParams::default()).await).map(|_| ())
}
