//! Evictions, which honour budgets.

use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::failure::Failure;
use super::kinds::named;
use super::request::{Request, Target};
use super::selector::Selector;
use super::serve::{Body, json_response};
use super::write::{body, delete};
use crate::cluster::Cluster;
use crate::json::{list, text};

/// Returns true if a pod counts as available.
fn is_healthy(pod: &Value) -> bool {
    let conditions = list(pod, "/status/conditions");
    pod.pointer("/metadata/deletionTimestamp").is_none()
        && conditions
            .iter()
            .any(|condition| text(condition, "/type") == "Ready" && text(condition, "/status") == "True")
}

/// Returns a number or a percentage of `total`, rounded up.
fn scaled(value: &Value, total: usize) -> usize {
    if let Some(text) = value.as_str() {
        let percent: usize = text.trim_end_matches('%').parse().unwrap_or_default();
        return (total * percent).div_ceil(100);
    }
    value.as_u64().and_then(|number| usize::try_from(number).ok()).unwrap_or_default()
}

/// Number of pods that must remain healthy, and of those that are.
pub(crate) fn state(budget: &Value, pods: &[&Value]) -> (usize, usize) {
    let spec = budget.get("spec").unwrap_or(&Value::Null);
    let desired = match (spec.get("minAvailable"), spec.get("maxUnavailable")) {
        (Some(minimum), _) => scaled(minimum, pods.len()),
        (None, Some(maximum)) => pods.len().saturating_sub(scaled(maximum, pods.len())),
        (None, None) => pods.len().saturating_sub(1),
    };
    (desired, pods.iter().filter(|pod| is_healthy(pod)).count())
}

/// Returns an error if a budget forbids the eviction of the pod.
fn check_budgets(cluster: &Cluster, namespace: &str, pod: &Value) -> Result<(), Failure> {
    if ["Pending", "Succeeded", "Failed"].contains(&text(pod, "/status/phase")) {
        return Ok(());
    }
    let (budgets, _) = cluster.store.list("poddisruptionbudgets", Some(namespace));
    let (pods, _) = cluster.store.list("pods", Some(namespace));
    let covers = |budget: &Value| {
        Selector::of_label_selector(budget.pointer("/spec/selector").unwrap_or(&Value::Null))
    };
    for budget in budgets.iter().filter(|budget| covers(budget).accepts(pod)) {
        let selector = covers(budget);
        let covered: Vec<&Value> =
            pods.iter().map(AsRef::as_ref).filter(|pod| selector.accepts(pod)).collect();
        let (desired, healthy) = state(budget, &covered);
        if healthy <= desired {
            return Err(refusal(text(budget, "/metadata/name"), desired, healthy));
        }
    }
    Ok(())
}

fn refusal(budget: &str, desired: usize, healthy: usize) -> Failure {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    let mut failure = Failure::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message);
    let cause =
        format!("The disruption budget {budget} needs {desired} healthy pods and has {healthy} currently");
    failure.details = json!({"causes": [{"reason": "DisruptionBudget", "message": cause}]});
    failure
}

/// `POST pods/<name>/eviction`.
pub(crate) fn handle(
    cluster: &Cluster,
    request: &Request,
    target: &Target,
) -> Result<Response<Body>, Failure> {
    let (namespace, name) = match (&target.namespace, &target.name) {
        (Some(namespace), Some(name)) => (namespace.as_str(), name.as_str()),
        _ => return Err(Failure::no_such_path()),
    };
    let pod = cluster.store.get("pods", namespace, name);
    let pod = pod.ok_or_else(|| Failure::not_found(named("pods"), name))?;
    // A pod that is being deleted already is not disturbed again.
    if pod.pointer("/metadata/deletionTimestamp").is_none() {
        let options = body(request)?;
        let _one_at_a_time = crate::lock(&cluster.evictions);
        check_budgets(cluster, namespace, &pod)?;
        let options = options.get("deleteOptions").cloned().unwrap_or(Value::Null);
        let is_dry_run = !request.parameter("dryRun").is_empty() || !list(&options, "/dryRun").is_empty();
        if !is_dry_run {
            delete(cluster, target, namespace, name, &options)?;
        }
    }
    let body =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(json_response(StatusCode::CREATED, &body))
}
