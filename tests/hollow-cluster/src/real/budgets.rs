//! Status of PodDisruptionBudgets, as the disruption controller of Kubernetes writes it.

use serde_json::{Value, json};

use crate::api::eviction::state;
use crate::api::kinds::named;
use crate::api::selector::Selector;
use crate::api::store::Store;
use crate::json::{list, now, set, text};

/// Writes how many pods each budget allows to be evicted. The API server reads nothing else.
pub(crate) fn tend(store: &Store) {
    let kind = named("poddisruptionbudgets");
    let (budgets, _) = store.list(kind.plural, None);
    for budget in budgets {
        let (namespace, name) = (text(&budget, "/metadata/namespace"), text(&budget, "/metadata/name"));
        let selector = Selector::of_label_selector(budget.pointer("/spec/selector").unwrap_or(&Value::Null));
        let (pods, _) = store.list("pods", Some(namespace));
        let covered: Vec<&Value> =
            pods.iter().map(AsRef::as_ref).filter(|pod| selector.accepts(pod)).collect();
        let (desired, healthy) = state(&budget, &covered);
        let allowed = healthy.saturating_sub(desired);
        let status = json!({
            "observedGeneration": budget.pointer("/metadata/generation"), "expectedPods": covered.len(),
            "desiredHealthy": desired, "currentHealthy": healthy, "disruptionsAllowed": allowed,
            "conditions": [condition(&budget, allowed)],
        });
        if budget.get("status") == Some(&status) {
            continue;
        }
        let written = store.update(kind, namespace, name, |budget| {
            set(budget, &["status"], status);
            Ok(())
        });
        if let Err(failure) = written {
            tracing::debug!(budget = name, message = failure.message, "the status was not written");
        }
    }
}

/// Returns the condition of a budget that allows so many evictions. Its time stays until its status changes.
fn condition(budget: &Value, allowed: usize) -> Value {
    let (status, reason) =
        if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    let known = list(budget, "/status/conditions").iter().find(|it| text(it, "/status") == status);
    let since = known.map_or_else(now, |it| text(it, "/lastTransitionTime").to_owned());
    json!({
        "type": "DisruptionAllowed", "status": status, "reason": reason, "message": "", "lastTransitionTime": since,
    })
}
