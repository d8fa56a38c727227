//! ClusterRole aggregation: joins the rules of labelled ClusterRoles into those that select them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use controllers_runtime::{ControllerSpec, PolicyRule as Permission};
use futures::StreamExt;
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube::api::{Patch, PatchParams};
use kube::runtime::{WatchStreamExt, reflector, watcher, watcher::Event};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// Field manager of the joined rules: upstream's name.
const MANAGER: &str = "clusterrole-aggregation-controller";

/// Pause before a retry of a failed write.
const RETRY: Duration = Duration::from_secs(1);

/// Specification of this controller. It writes rules that it does not have itself, which needs `escalate`.
pub(crate) const CONTROLLER: ControllerSpec = ControllerSpec {
    identity: MANAGER,
    rules: &[Permission {
        groups: &["rbac.authorization.k8s.io"],
        resources: &["clusterroles"],
        verbs: &["get", "list", "watch", "patch", "escalate"],
    }],
    run: |context, shutdown| Box::pin(run(context.client, shutdown)),
};

/// Joins the rules after each change of a ClusterRole, until `shutdown`.
async fn run(client: Client, shutdown: CancellationToken) {
    let api: Api<ClusterRole> = Api::all(client);
    let (store, writer) = reflector::store();
    let changes = watcher(api.clone(), watcher::Config::default()).default_backoff().reflect(writer);
    let mut changes = std::pin::pin!(changes);
    // Set while a write has failed.
    let mut retry: Option<tokio::time::Instant> = None;
    loop {
        let pause = async {
            match retry {
                Some(due) => tokio::time::sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = pause => {}
            change = changes.next() => match change {
                Some(Ok(Event::Apply(_) | Event::Delete(_) | Event::InitDone)) => {}
                Some(Ok(Event::Init | Event::InitApply(_))) => continue,
                Some(Err(error)) => {
                    tracing::debug!(%error, "cluster roles cannot be read; retrying");
                    continue;
                }
                None => return,
            },
        }
        retry = match aggregate(&api, &store.state()).await {
            Ok(()) => None,
            Err(error) => {
                tracing::warn!(%error, "rules of an aggregated cluster role cannot be written; retrying");
                Some(tokio::time::Instant::now() + RETRY)
            }
        };
    }
}

/// Writes the rules of each aggregated role whose rules are not the joined ones. A role that cannot be written does not
/// stop the others; the last error is returned.
async fn aggregate(api: &Api<ClusterRole>, roles: &[Arc<ClusterRole>]) -> Result<(), kube::Error> {
    let mut outcome = Ok(());
    for role in roles {
        let Some(rules) = joined(role, roles) else { continue };
        if role.rules.as_deref().unwrap_or_default() == rules {
            continue;
        }
        let name = role.name_any();
        // The uid prevents the creation of a role that was just deleted.
        let applied = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": name, "uid": role.uid()}, "rules": rules});
        match api.patch(&name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&applied)).await {
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Ok(_) => {}
            Err(error) => outcome = Err(error),
        }
    }
    outcome
}

/// Returns the rules of all roles that an aggregated role selects, each once: selector by selector, in order of the
/// names. `None` for a role without an aggregation rule.
fn joined(role: &ClusterRole, roles: &[Arc<ClusterRole>]) -> Option<Vec<PolicyRule>> {
    let rule = role.aggregation_rule.as_ref()?;
    let sorted: BTreeMap<String, &ClusterRole> =
        roles.iter().map(|other| (other.name_any(), other.as_ref())).collect();
    let mut joined: Vec<PolicyRule> = Vec::new();
    for selector in rule.cluster_role_selectors.iter().flatten() {
        let others = sorted.iter().filter(|(name, other)| {
            **name != role.name_any() && selects(selector, other.metadata.labels.as_ref())
        });
        for rule in others.flat_map(|(_, other)| other.rules.iter().flatten()) {
            if !joined.contains(rule) {
                joined.push(rule.clone());
            }
        }
    }
    Some(joined)
}

/// Returns true if labels fulfil all terms of a selector. One without terms selects all roles.
fn selects(selector: &LabelSelector, labels: Option<&BTreeMap<String, String>>) -> bool {
    let label = |key: &String| labels.and_then(|labels| labels.get(key));
    let is_met = |term: &LabelSelectorRequirement| {
        let found = label(&term.key);
        let is_among = || found.is_some_and(|found| term.values.iter().flatten().any(|it| it == found));
        match term.operator.as_str() {
            "In" => is_among(),
            "NotIn" => !is_among(),
            "Exists" => found.is_some(),
            "DoesNotExist" => found.is_none(),
            _ => false,
        }
    };
    selector.match_labels.iter().flatten().all(|(key, value)| label(key) == Some(value))
        && selector.match_expressions.iter().flatten().all(is_met)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(value: serde_json::Value) -> Arc<ClusterRole> {
        Arc::new(serde_json::from_value(value).unwrap())
    }

    fn rule(resource: &str) -> serde_json::Value {
        json!({"apiGroups": [""], "resources": [resource], "verbs": ["get"]})
    }

    #[test]
    fn an_aggregated_role_has_the_rules_of_the_selected_roles_once_and_sorted_by_name() {
        let plain = |name: &str, labels: serde_json::Value, rules: serde_json::Value| {
            role(json!({"metadata": {"name": name, "labels": labels}, "rules": rules}))
        };
        let own = role(json!({"metadata": {"name": "all", "labels": {"a": "1"}}, "rules": [rule("old")],
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "1"}},
                {"matchExpressions": [{"key": "b", "operator": "In", "values": ["2", "3"]}]}]}}));
        let roles = vec![
            plain("z", json!({"a": "1"}), json!([rule("pods"), rule("nodes")])),
            own.clone(),
            plain("y", json!({"a": "1"}), json!([rule("secrets"), rule("pods")])),
            plain("x", json!({"b": "3"}), json!([rule("pods"), rule("events")])),
            plain("w", json!({"a": "2"}), json!([rule("none")])),
        ];
        let found: Vec<String> = joined(&own, &roles)
            .unwrap()
            .into_iter()
            .flat_map(|rule| rule.resources.unwrap_or_default())
            .collect();
        assert_eq!(found, ["secrets", "pods", "nodes", "events"]);
        assert_eq!(joined(&roles[0], &roles), None);
        assert_eq!(joined(&own, &[]).unwrap(), []);
    }
}
