//! Disruption budgets that allow no eviction now, or will never allow one as their spec and their workload are.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{Api, Client, ResourceExt};
use tokio::time::{Instant, timeout_at};

use super::evict::Evicted;
use super::progress::BUDGET;
use crate::found;

/// Words about a budget that will never allow an eviction, in the reason of a failed eviction. A sentence with them
/// begins with `PodDisruptionBudget`, the namespace, `/` and the name.
pub const NEVER: &str = "will never allow an eviction";

/// Words of the API server before the name of the budget that refuses an eviction.
const SUBJECT: &str = "The disruption budget ";

/// Time without an allowed disruption after which a budget counts: a workload that is being scaled needs less.
const LASTING: SignedDuration = SignedDuration::from_mins(5);

/// Most budgets that a pass reads: the text of a drain has no more reasons.
const MOST: usize = 5;

/// Longest duration of all reads of a pass. They explain, and decide nothing.
const READS: Duration = Duration::from_secs(5);

/// Namespace and name of a budget.
pub(super) type Key = (String, String);

/// Adds to refused evictions the sentences about the budgets that will never allow them. Reads only the budgets that the
/// API server has named. One that cannot be read adds nothing.
pub(super) async fn explain(client: &Client, evicted: &mut [(String, Evicted)], now: Timestamp) {
    let named: BTreeSet<Key> =
        evicted.iter().filter_map(|(pod, result)| refusing(pod, result)).flatten().collect();
    let end = Instant::now() + READS;
    let mut sentences: BTreeMap<Key, String> = BTreeMap::new();
    for key in named.into_iter().take(MOST) {
        let api: Api<PodDisruptionBudget> = Api::namespaced(client.clone(), &key.0);
        let read = timeout_at(end, api.get(&key.1)).await;
        match read.map(found) {
            Ok(Ok(budget)) => sentences.extend(budget.and_then(|it| sentence(&it, now)).map(|it| (key, it))),
            Ok(Err(error)) => tracing::debug!(%error, budget = key.1, "a disruption budget was not read"),
            Err(_) => tracing::debug!(budget = key.1, "a disruption budget was not read in time"),
        }
    }
    for (pod, result) in evicted {
        let known: Vec<&String> =
            refusing(pod, result).into_iter().flatten().filter_map(|key| sentences.get(&key)).collect();
        let Evicted::Failed(reason) = result else { continue };
        for sentence in known {
            let end = if reason.ends_with('.') { "" } else { "." };
            *reason = format!("{reason}{end} {sentence}");
        }
    }
}

/// Returns the budgets that refused an eviction, in the order of the refusal.
pub(super) fn refusing(pod: &str, result: &Evicted) -> Option<Vec<Key>> {
    let Evicted::Failed(reason) = result else { return None };
    let (namespace, _) = pod.split_once('/')?;
    let causes = reason.strip_prefix(BUDGET)?.split(SUBJECT).skip(1);
    let names = causes.filter_map(|cause| cause.split_whitespace().next()).filter(|name| is_name(name));
    Some(names.map(|name| (namespace.to_owned(), name.to_owned())).collect())
}

/// Returns true for a name that a budget can have. It becomes a part of a path.
fn is_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.bytes().next().is_some_and(is_letter)
        && name.bytes().all(|byte| is_letter(byte) || matches!(byte, b'-' | b'.'))
}

/// Returns why a budget allows no eviction now, and what to do; `None` if it allows one. Pure.
pub(super) fn refusal(budget: &PodDisruptionBudget, now: Timestamp) -> Option<String> {
    let never = sentence(budget, now);
    if never.is_some() {
        return never;
    }
    let name = full_name(budget);
    // The API server refuses until the numbers are those of the present spec.
    let Some(status) = budget.status.as_ref().filter(|it| is_current(budget, it)) else {
        return Some(format!(
            "PodDisruptionBudget {name} refuses evictions now, because its status is not that of its spec yet. Repeat the \
             request, and look whether the kube-controller-manager runs if that does not help"
        ));
    };
    if status.disruptions_allowed > 0 {
        return None;
    }
    let remedy = match budget.spec.as_ref().filter(|_| needs_all(status)) {
        Some(spec) => format!("{}, or delete the budget", remedy(spec)),
        None => "Wait until more of its Pods are healthy, or scale up its workload".to_owned(),
    };
    let (needed, healthy) = (status.desired_healthy, status.current_healthy);
    Some(format!(
        "PodDisruptionBudget {name} refuses evictions now: it needs {needed} healthy Pods, and has {healthy}. {remedy}"
    ))
}

/// Returns the sentence about a budget that needs all its Pods, and has allowed no disruption for some time. Pure.
fn sentence(budget: &PodDisruptionBudget, now: Timestamp) -> Option<String> {
    let (spec, status) = (budget.spec.as_ref()?, budget.status.as_ref()?);
    let refuses = |it: &&Condition| it.type_ == "DisruptionAllowed" && it.status == "False";
    let since = status.conditions.as_ref()?.iter().find(refuses)?.last_transition_time.0;
    let lasts = now.duration_since(since) >= LASTING;
    (is_current(budget, status) && needs_all(status) && lasts).then(|| {
        let (name, remedy) = (full_name(budget), remedy(spec));
        let (needed, expected) = (status.desired_healthy, status.expected_pods);
        format!(
            "PodDisruptionBudget {name} {NEVER}: it needs {needed} healthy Pods, and its workload has {expected}. \
             {remedy}, or delete the budget"
        )
    })
}

/// Reports whether a status is that of the present spec. The numbers of an earlier one say nothing.
fn is_current(budget: &PodDisruptionBudget, status: &PodDisruptionBudgetStatus) -> bool {
    status.observed_generation == budget.metadata.generation
}

/// Reports whether a budget allows no disruption even if all its Pods are healthy.
fn needs_all(status: &PodDisruptionBudgetStatus) -> bool {
    let (needed, expected) = (status.desired_healthy, status.expected_pods);
    status.disruptions_allowed == 0 && expected > 0 && needed >= expected
}

fn full_name(budget: &PodDisruptionBudget) -> String {
    format!("{}/{}", budget.namespace().unwrap_or_default(), budget.name_any())
}

/// Returns the change after which a budget allows an eviction.
fn remedy(spec: &PodDisruptionBudgetSpec) -> &'static str {
    match &spec.min_available {
        None => "Raise spec.maxUnavailable of the budget",
        Some(IntOrString::String(share)) if share == "100%" => "Lower spec.minAvailable of the budget",
        Some(_) => "Scale up its workload, lower spec.minAvailable of the budget",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Time of the passes. Unit: seconds since the epoch.
    const NOW: i64 = 100_000;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Returns a budget of two Pods that it needs, without an allowed disruption since a time.
    fn budget(spec: &Value, since: i64) -> PodDisruptionBudget {
        let condition = json!({
            "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "",
            "lastTransitionTime": at(since).to_string(),
        });
        serde_json::from_value(json!({
            "metadata": {"namespace": "web", "name": "all", "generation": 2},
            "spec": spec,
            "status": {
                "observedGeneration": 2, "disruptionsAllowed": 0, "desiredHealthy": 2, "expectedPods": 2,
                "currentHealthy": 2, "conditions": [condition],
            },
        }))
        .unwrap()
    }

    #[test]
    fn a_budget_that_needs_all_its_pods_for_five_minutes_never_allows_an_eviction() {
        let begin = "PodDisruptionBudget web/all will never allow an eviction: it needs 2 healthy Pods, and its workload has 2. ";
        let table = [
            (
                json!({"minAvailable": 2}),
                "Scale up its workload, lower spec.minAvailable of the budget, or delete the budget",
            ),
            (json!({"minAvailable": "100%"}), "Lower spec.minAvailable of the budget, or delete the budget"),
            (json!({"maxUnavailable": 0}), "Raise spec.maxUnavailable of the budget, or delete the budget"),
        ];
        for (spec, remedy) in table {
            let found = sentence(&budget(&spec, NOW - 300), at(NOW));
            assert_eq!(found, Some(format!("{begin}{remedy}")));
            assert_eq!(sentence(&budget(&spec, NOW - 299), at(NOW)), None, "{spec}: for 299 s only");
        }
    }

    #[test]
    fn a_budget_that_may_allow_an_eviction_later_is_not_named() {
        let table = [
            ("one Pod is down", "desiredHealthy", json!(1)),
            ("it allows one", "disruptionsAllowed", json!(1)),
            ("its spec was changed", "observedGeneration", json!(1)),
            ("it was computed for no Pod", "expectedPods", json!(0)),
            ("nothing says since when", "conditions", json!([])),
        ];
        for (case, field, value) in table {
            let mut changed = json!(budget(&json!({"minAvailable": 2}), 0));
            changed["status"][field] = value;
            assert_eq!(sentence(&serde_json::from_value(changed).unwrap(), at(NOW)), None, "{case}");
        }
    }

    #[test]
    fn a_budget_that_allows_nothing_now_has_its_reason_and_a_remedy() {
        let never = budget(&json!({"minAvailable": 2}), NOW - 300);
        assert_eq!(refusal(&never, at(NOW)), sentence(&never, at(NOW)));
        let now = "PodDisruptionBudget web/all refuses evictions now: it needs 2 healthy Pods, and has 2. ";
        let remedy = "Scale up its workload, lower spec.minAvailable of the budget, or delete the budget";
        let recent = budget(&json!({"minAvailable": 2}), NOW - 299);
        assert_eq!(refusal(&recent, at(NOW)), Some(format!("{now}{remedy}")));
        let changed = |field: &str, value: Value| {
            let mut changed = json!(budget(&json!({"minAvailable": 2}), 0));
            changed["status"][field] = value;
            refusal(&serde_json::from_value(changed).unwrap(), at(NOW))
        };
        let waits = format!("{now}Wait until more of its Pods are healthy, or scale up its workload");
        assert_eq!(changed("expectedPods", json!(3)), Some(waits));
        assert_eq!(changed("disruptionsAllowed", json!(1)), None);
        let stale = changed("observedGeneration", json!(1)).unwrap();
        assert!(stale.contains("its status is not that of its spec yet"), "{stale}");
    }

    #[test]
    fn only_the_budgets_of_a_refusal_are_read() {
        let of = |reason: &str| refusing("web/a", &Evicted::Failed(reason.to_owned()));
        let key = |name: &str| ("web".to_owned(), name.to_owned());
        let two = format!(
            "{BUDGET} The disruption budget a needs 2 healthy pods and has 2 currently, The disruption budget b.c is still \
             being processed by the server."
        );
        assert_eq!(of(&two), Some(vec![key("a"), key("b.c")]));
        assert_eq!(of(BUDGET), Some(Vec::new()));
        assert_eq!(of(&format!("{BUDGET} The disruption budget ../../secrets needs 2")), Some(Vec::new()));
        assert_eq!(of("failed to evict Pod, The disruption budget a"), None);
        assert_eq!(refusing("web/a", &Evicted::Terminating), None);
    }
}
