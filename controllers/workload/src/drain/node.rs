//! Reads for a drain. All ask the API server, because a drain must not decide on old Pods.

use std::collections::{BTreeMap, BTreeSet};

use apiserver_types::MachineDrainRule;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::ListParams;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use super::rules::{Labels, need_namespaces};
use super::verdict::{Observed, Verdict, daemon_set, is_finished, namespace, verdict};
use crate::{WorkloadError, found};

/// Objects per page: a page of Pods is read within the limit of a request even over a slow line.
const PAGE: u32 = 100;

/// Objects of a kind that are read, so that no server can fill the memory: Kubernetes supports a few more Pods in all.
const MOST: usize = 100_000;

/// Says whether the kubelet of a Node does not report any more.
pub fn is_unreachable(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "Unknown")
}

/// Returns the Pods of a Node.
pub(super) async fn pods(client: &Client, node: &str) -> Result<Vec<Pod>, WorkloadError> {
    let selector = format!("spec.nodeName={node}");
    all(&Api::all(client.clone()), ListParams::default().fields(&selector)).await
}

/// Returns all objects, page by page.
pub(super) async fn all<K>(api: &Api<K>, list: ListParams) -> Result<Vec<K>, WorkloadError>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    let mut list = list.limit(PAGE);
    let mut objects = Vec::new();
    loop {
        let page = api.list(&list).await?;
        objects.extend(page.items);
        if objects.len() > MOST {
            return Err(WorkloadError::Request(format!("a list has more than {MOST} objects")));
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => list.continue_token = Some(token),
            None => return Ok(objects),
        }
    }
}

/// Decides on each Pod of a Node.
pub(super) async fn verdicts<'a>(
    client: &Client,
    pods: &'a [Pod],
    rules: &[MachineDrainRule],
    unreachable: bool,
) -> Result<Vec<(&'a Pod, Verdict)>, WorkloadError> {
    let namespaces = if need_namespaces(rules) { Some(namespaces(client).await?) } else { None };
    let daemon_sets = daemon_sets(client, pods).await?;
    let observed = Observed { now: Timestamp::now(), unreachable, rules, namespaces, daemon_sets };
    pods.iter().map(|pod| Ok((pod, verdict(pod, &observed)?))).collect()
}

async fn namespaces(client: &Client) -> Result<BTreeMap<String, Labels>, WorkloadError> {
    let all: Vec<Namespace> = all(&Api::all(client.clone()), ListParams::default()).await?;
    let named = all.into_iter().filter_map(|namespace| {
        Some((namespace.metadata.name?, namespace.metadata.labels.unwrap_or_default()))
    });
    Ok(named.collect())
}

/// Returns those of the DaemonSets that control a Pod that still exist.
async fn daemon_sets(client: &Client, pods: &[Pod]) -> Result<BTreeSet<(String, String)>, WorkloadError> {
    let running = pods.iter().filter(|pod| !is_finished(pod));
    let named: BTreeSet<(String, String)> =
        running.filter_map(|pod| Some((namespace(pod).to_owned(), daemon_set(pod)?.to_owned()))).collect();
    let mut existing = BTreeSet::new();
    for (namespace, name) in named {
        let api: Api<DaemonSet> = Api::namespaced(client.clone(), &namespace);
        if found(api.get_metadata(&name).await)?.is_some() {
            existing.insert((namespace, name));
        } else {
            tracing::warn!(namespace, name, "a Pod's DaemonSet does not exist; the Pod is evicted");
        }
    }
    Ok(existing)
}
