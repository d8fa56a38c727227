//! Disruption budgets that refuse evictions now, and why a drain that has not begun would not end.

use std::collections::{BTreeMap, BTreeSet};

use apiserver_types::MachineDrainRule;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::ListParams;
use kube::core::{Selector, SelectorExt};
use kube::{Api, Client, ResourceExt};

use super::budgets::{self, Key};
use super::evict::Evicted;
use super::progress::DrainWaiting;
use super::verdict::namespace;
use super::{node, preview};
use crate::{WorkloadError, found};

/// Disruption budgets of a workload cluster that refuse evictions now.
#[derive(Debug, Clone, Default)]
pub struct RefusingBudgets(BTreeMap<Key, Refusing>);

/// Budget that refuses evictions.
#[derive(Debug, Clone)]
struct Refusing {
    selector: Selector,
    /// The reason, and what to do. For people.
    sentence: String,
}

impl RefusingBudgets {
    /// Reads the budgets of all namespaces.
    ///
    /// # Errors
    /// They cannot be listed.
    pub async fn read(client: &Client) -> Result<Self, WorkloadError> {
        let all = node::all(&Api::all(client.clone()), ListParams::default()).await?;
        Ok(Self::among(all, Timestamp::now()))
    }

    /// Reports whether each budget allows an eviction.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn among(all: Vec<PodDisruptionBudget>, now: Timestamp) -> Self {
        let refusing = all.into_iter().filter_map(|budget| {
            let sentence = budgets::refusal(&budget, now)?;
            let key = (budget.namespace().unwrap_or_default(), budget.name_any());
            // A budget without a selector selects no Pod, one with an empty selector all.
            let selector = Selector::try_from(budget.spec?.selector?).ok()?;
            Some((key, Refusing { selector, sentence }))
        });
        Self(refusing.collect())
    }

    fn selects(&self, pod: &Pod) -> bool {
        let mut near = self.0.iter().filter(|((within, _), _)| within == namespace(pod));
        near.any(|(_, budget)| budget.selector.matches(pod.labels()))
    }

    /// Returns a sentence for each cause of refused evictions. Pure.
    fn causes(&self, checks: Vec<(String, Evicted)>) -> BTreeSet<String> {
        let mut sentences = BTreeSet::new();
        let mut failed: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (pod, result) in checks {
            let named = budgets::refusing(&pod, &result).unwrap_or_default();
            let known = named.iter().filter_map(|key| self.0.get(key));
            let known: Vec<String> = known.map(|budget| budget.sentence.clone()).collect();
            match result {
                Evicted::Failed(reason) if known.is_empty() => failed.entry(reason).or_default().push(pod),
                Evicted::Failed(_) | Evicted::Terminating | Evicted::Gone => sentences.extend(known),
            }
        }
        let others = DrainWaiting { failed, ..DrainWaiting::default() }.given_up();
        sentences.extend(Some(others).filter(|text| !text.is_empty()));
        sentences
    }
}

/// Returns why a drain of a Node could not evict its Pods now: a sentence for each budget, and one for all other reasons.
/// Only Pods that the budgets select are checked. Nothing is changed: the evictions are dry runs, for at most ten seconds.
/// A Node that does not exist has no Pods. `rules` are those that [`matching_rules`](super::matching_rules) returned for the
/// Machine.
///
/// # Errors
/// The Node or its Pods cannot be read, or a rule cannot be evaluated.
pub async fn refusals(
    client: &Client,
    budgets: &RefusingBudgets,
    node: &str,
    rules: &[MachineDrainRule],
) -> Result<BTreeSet<String>, WorkloadError> {
    let mut pods = node::pods(client, node).await?;
    pods.retain(|pod| budgets.selects(pod));
    if pods.is_empty() {
        return Ok(BTreeSet::new());
    }
    let Some(object) = found(Api::<Node>::all(client.clone()).get(node).await)? else {
        return Ok(BTreeSet::new());
    };
    let unreachable = node::is_unreachable(&object);
    let verdicts = node::verdicts(client, &pods, rules, unreachable).await?;
    Ok(budgets.causes(preview::checks(client, &verdicts, unreachable).await))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::progress::BUDGET;
    use super::*;

    fn budget(namespace: &str, name: &str, spec: &Value, allowed: i32) -> PodDisruptionBudget {
        let status = json!({
            "disruptionsAllowed": allowed, "desiredHealthy": 1, "currentHealthy": 1 + allowed, "expectedPods": 3,
        });
        let metadata = json!({"namespace": namespace, "name": name});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
    }

    fn pod(namespace: &str, app: &str) -> Pod {
        let metadata = json!({"namespace": namespace, "name": "p", "labels": {"app": app}});
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    fn of(app: &str) -> Value {
        json!({"selector": {"matchLabels": {"app": app}}})
    }

    #[test]
    fn only_pods_that_a_refusing_budget_of_their_namespace_selects_are_checked() {
        let all = vec![budget("web", "tight", &of("a"), 0), budget("web", "loose", &of("b"), 1)];
        let budgets = RefusingBudgets::among(all, Timestamp::now());
        assert!(budgets.selects(&pod("web", "a")));
        assert!(!budgets.selects(&pod("web", "b")), "its budget allows an eviction");
        assert!(!budgets.selects(&pod("other", "a")));
        let of = |spec: &Value| RefusingBudgets::among(vec![budget("web", "x", spec, 0)], Timestamp::now());
        assert!(of(&json!({"selector": {}})).selects(&pod("web", "c")), "an empty selector selects all");
        assert!(of(&json!({})).is_empty(), "without a selector, no Pod is selected");
        let among =
            json!({"selector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]}});
        assert!(!of(&among).selects(&pod("web", "a")) && of(&among).selects(&pod("web", "b")));
        assert!(RefusingBudgets::among(Vec::new(), Timestamp::now()).is_empty());
    }

    #[test]
    fn a_budget_has_one_sentence_for_all_its_pods_and_other_reasons_stay() {
        let budgets = RefusingBudgets::among(vec![budget("web", "all", &of("a"), 0)], Timestamp::now());
        let failed = |pod: &str, reason: &str| (pod.to_owned(), Evicted::Failed(reason.to_owned()));
        let refused = format!("{BUDGET} The disruption budget all needs 1 healthy pods and has 1 currently");
        let two = "failed to evict Pod, This pod has more than one PodDisruptionBudget";
        let checks = vec![
            failed("web/a", &refused),
            failed("web/b", &refused),
            failed("web/c", two),
            ("web/d".to_owned(), Evicted::Terminating),
            ("web/e".to_owned(), Evicted::Gone),
        ];
        let sentence = "PodDisruptionBudget web/all refuses evictions now: it needs 1 healthy Pods, and has 1. Wait until \
                        more of its Pods are healthy, or scale up its workload";
        let expected = BTreeSet::from([sentence.to_owned(), format!("Pod web/c: {two}")]);
        assert_eq!(budgets.causes(checks), expected);
        // A budget that did not refuse a moment ago is named in the words of the API server.
        let other = failed("web/a", &refused.replace("budget all", "budget new"));
        let found = budgets.causes(vec![other]);
        assert!(found.iter().any(|it| it.contains("The disruption budget new needs")), "{found:?}");
        assert_eq!(budgets.causes(Vec::new()), BTreeSet::new());
    }
}
