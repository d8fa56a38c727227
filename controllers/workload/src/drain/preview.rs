//! Preview of a drain: the treatment of each Pod, and the disruption budgets that would refuse evictions.

use std::collections::BTreeMap;

use apiserver_types::{MachineDrainRule, PodTreatment, PodVerdict};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, Client};

use super::evict::{Evicted, check_all};
use super::verdict::{Verdict, full_name, namespace, why_skipped};
use super::{budgets, node};
use crate::{WorkloadError, found};

/// Message about a Pod whose eviction was not checked in time.
const UNCHECKED: &str =
    "it was not checked whether a disruption budget refuses the eviction: there are too many Pods";

/// Returns the treatment of each Pod of a Node by a drain, by namespace and name. Nothing is changed: the evictions are
/// dry runs, for at most ten seconds. Each is checked alone, so a budget may admit fewer than the result says. A Node that
/// does not exist has no Pods. `rules` are those that [`matching_rules`](super::matching_rules) returned for the Machine.
///
/// # Errors
/// The Node or its Pods cannot be read, or a rule cannot be evaluated.
pub async fn preview(
    client: &Client,
    node: &str,
    rules: &[MachineDrainRule],
) -> Result<Vec<PodVerdict>, WorkloadError> {
    let Some(object) = found(Api::<Node>::all(client.clone()).get(node).await)? else {
        return Ok(Vec::new());
    };
    let unreachable = node::is_unreachable(&object);
    let pods = node::pods(client, node).await?;
    let mut verdicts = node::verdicts(client, &pods, rules, unreachable).await?;
    verdicts.sort_by_key(|(pod, _)| full_name(pod));
    let mut checks = checks(client, &verdicts, unreachable).await;
    budgets::explain(client, &mut checks, Timestamp::now()).await;
    let checks: BTreeMap<String, Evicted> = checks.into_iter().collect();
    let of = |(pod, verdict): (&Pod, Verdict)| treatment(pod, verdict, checks.get(&full_name(pod)));
    Ok(verdicts.into_iter().filter_map(of).collect())
}

/// Checks by dry runs the evictions that a drain would request. Pods that are not checked in time have no result.
pub(super) async fn checks(
    client: &Client,
    verdicts: &[(&Pod, Verdict)],
    unreachable: bool,
) -> Vec<(String, Evicted)> {
    let evictable = verdicts.iter().filter(|(pod, verdict)| is_evicted(pod, *verdict));
    let evictable: Vec<&Pod> = evictable.map(|(pod, _)| *pod).collect();
    check_all(client, &evictable, unreachable).await
}

fn is_evicted(pod: &Pod, verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Drain { .. }) && pod.metadata.deletion_timestamp.is_none()
}

/// Returns the treatment of a Pod; `None` if it is gone. `check`: the result of the dry run, if there was one. Pure.
fn treatment(pod: &Pod, verdict: Verdict, check: Option<&Evicted>) -> Option<PodVerdict> {
    let (verdict, message) = match (verdict, check) {
        (Verdict::Skip, _) => (PodTreatment::Skip, Some(why_skipped(pod).to_owned())),
        (Verdict::WaitCompleted, _) => (PodTreatment::WaitCompleted, None),
        (Verdict::Drain { .. }, _) if !is_evicted(pod, verdict) => (PodTreatment::Terminating, None),
        (Verdict::Drain { .. }, Some(Evicted::Gone)) => return None,
        (Verdict::Drain { .. }, Some(Evicted::Terminating)) => (PodTreatment::Evict, None),
        (Verdict::Drain { .. }, Some(Evicted::Failed(reason))) => {
            (PodTreatment::Refused, Some(reason.clone()))
        }
        (Verdict::Drain { .. }, None) => (PodTreatment::Evict, Some(UNCHECKED.to_owned())),
    };
    let leaves = verdict != PodTreatment::Skip;
    Some(PodVerdict {
        name: pod.metadata.name.clone().unwrap_or_default(),
        namespace: namespace(pod).to_owned(),
        verdict,
        loses_empty_dir: (leaves && has_empty_dir(pod)).then_some(true),
        message,
        unmanaged: (leaves && !is_managed(pod)).then_some(true),
    })
}

fn has_empty_dir(pod: &Pod) -> bool {
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    volumes.iter().any(|volume| volume.empty_dir.is_some())
}

/// Reports whether a controller creates a Pod again.
fn is_managed(pod: &Pod) -> bool {
    let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
    owners.iter().any(|owner| owner.controller == Some(true))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(metadata: &Value, spec: &Value) -> Pod {
        let mut pod = json!({ "metadata": metadata, "spec": spec });
        pod["metadata"]["name"] = json!("a");
        pod["metadata"]["namespace"] = json!("web");
        pod["spec"]["containers"] = json!([]);
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn the_dry_run_of_an_eviction_decides_about_a_pod_that_the_drain_evicts() {
        let managed = json!({ "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "1", "controller": true }] });
        let plain = || pod(&managed, &json!({}));
        let ending = || {
            let mut ending = plain();
            ending.metadata.deletion_timestamp =
                serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
            ending
        };
        let drain = Verdict::Drain { order: 3 };
        let (admitted, gone, refused) =
            (Evicted::Terminating, Evicted::Gone, Evicted::Failed("no".to_owned()));
        let table = [
            (plain(), drain, Some(&admitted), Some((PodTreatment::Evict, None))),
            (plain(), drain, Some(&refused), Some((PodTreatment::Refused, Some("no")))),
            (plain(), drain, Some(&gone), None),
            (plain(), drain, None, Some((PodTreatment::Evict, Some(UNCHECKED)))),
            (ending(), drain, None, Some((PodTreatment::Terminating, None))),
            (plain(), Verdict::WaitCompleted, None, Some((PodTreatment::WaitCompleted, None))),
            (
                plain(),
                Verdict::Skip,
                None,
                Some((
                    PodTreatment::Skip,
                    Some("by its label, by a MachineDrainRule, or because it has ended"),
                )),
            ),
        ];
        for (pod, verdict, check, expected) in table {
            let found = treatment(&pod, verdict, check);
            let found = found.as_ref().map(|it| (it.verdict, it.message.as_deref()));
            assert_eq!(found, expected, "{verdict:?} {check:?}");
        }
    }

    #[test]
    fn the_losses_of_a_pod_that_leaves_are_named() {
        let alone = pod(&json!({}), &json!({ "volumes": [{ "name": "v", "emptyDir": {} }] }));
        let losses = |verdict| {
            let found = treatment(&alone, verdict, Some(&Evicted::Terminating)).unwrap();
            (found.loses_empty_dir, found.unmanaged)
        };
        assert_eq!(losses(Verdict::Drain { order: 0 }), (Some(true), Some(true)));
        assert_eq!(losses(Verdict::Skip), (None, None));
    }
}
