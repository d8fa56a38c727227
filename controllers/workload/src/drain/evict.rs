//! Evictions.

use std::time::Duration;

use http::Request;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::core::Status;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::progress::BUDGET;
use super::verdict::{full_name, namespace};
use crate::describe;
use crate::error::{looks_like_html, says_not_found};

/// Longest duration of all evictions of a pass, as upstream has it.
const EVICTIONS: Duration = Duration::from_secs(10);

/// First words of the other reasons of a failed eviction.
const FAILED: &str = "failed to evict Pod, ";

/// Result of an eviction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Evicted {
    /// It is being deleted.
    Terminating,
    /// It did not exist any more.
    Gone,
    /// It stays, for a reason.
    Failed(String),
}

/// Evicts Pods one after another.
pub(super) async fn evict_all(client: &Client, pods: &[&Pod], unreachable: bool) -> Vec<(String, Evicted)> {
    let end = Instant::now() + EVICTIONS;
    let mut results = Vec::new();
    for pod in pods {
        let result = timeout_at(end, evict(client, pod, unreachable, false)).await;
        let late =
            format!("{FAILED}eviction timeout of {}s reached, eviction will be retried", EVICTIONS.as_secs());
        results.push((full_name(pod), result.unwrap_or(Evicted::Failed(late))));
    }
    results
}

/// Checks by dry runs which Pods an eviction would remove. Pods that are not checked in time have no result.
pub(super) async fn check_all(client: &Client, pods: &[&Pod], unreachable: bool) -> Vec<(String, Evicted)> {
    let end = Instant::now() + EVICTIONS;
    let mut results = Vec::new();
    for pod in pods {
        let Ok(result) = timeout_at(end, evict(client, pod, unreachable, true)).await else { break };
        results.push((full_name(pod), result));
    }
    results
}

async fn evict(client: &Client, pod: &Pod, unreachable: bool, dry_run: bool) -> Evicted {
    let (namespace, name) = (namespace(pod), pod.metadata.name.as_deref().unwrap_or_default());
    // Admission reads the query, and the eviction its body.
    let query = if dry_run { "?dryRun=All" } else { "" };
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/eviction{query}");
    let body = eviction(pod, unreachable, dry_run).to_string().into_bytes();
    let request = Request::post(path).header(http::header::CONTENT_TYPE, "application/json").body(body);
    let request = match request {
        Ok(request) => request,
        Err(error) => return Evicted::Failed(format!("{FAILED}{error}")),
    };
    match client.request_text(request).await {
        Ok(_) => Evicted::Terminating,
        Err(kube::Error::Api(status)) if !looks_like_html(&status.message) => refused(&status),
        Err(error) => Evicted::Failed(format!("{FAILED}{}", describe(&error))),
    }
}

/// Returns the object that requests an eviction. The uid protects a new Pod of the same name.
fn eviction(pod: &Pod, unreachable: bool, dry_run: bool) -> Value {
    // A kubelet that does not report will not stop the containers: only the object matters then.
    let own = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    let grace = if unreachable { Some(1) } else { own };
    let mut options = json!({});
    if let Some(seconds) = grace {
        options["gracePeriodSeconds"] = json!(seconds);
    }
    if let Some(uid) = &pod.metadata.uid {
        options["preconditions"] = json!({ "uid": uid });
    }
    if dry_run {
        options["dryRun"] = json!(["All"]);
    }
    json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": { "name": pod.metadata.name, "namespace": pod.metadata.namespace },
        "deleteOptions": options,
    })
}

/// Reads the answer of an API server that does not evict.
fn refused(status: &Status) -> Evicted {
    let causes = status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
    let terminating = causes.iter().any(|cause| cause.reason == "NamespaceTerminating");
    let message = status.message.as_str();
    match status.code {
        // Without the reason it is the answer of something else on the way.
        404 if says_not_found(status) => Evicted::Gone,
        // The uid is another one: the Pod that was to leave is gone.
        409 if message.contains("UID in precondition") => Evicted::Gone,
        403 if terminating => {
            Evicted::Failed(format!("{FAILED}Cannot evict pod from terminating namespace: {message}"))
        }
        429 if message.contains("disruption budget") => {
            let details: Vec<&str> = causes.iter().map(|cause| cause.message.as_str()).collect();
            Evicted::Failed(format!("{BUDGET} {}", details.join(", ")).trim_end().to_owned())
        }
        _ => Evicted::Failed(format!("{FAILED}{message}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16, message: &str, causes: &Value) -> Status {
        let details = json!({ "causes": causes });
        let reason = if message.contains("not found") { "NotFound" } else { "" };
        serde_json::from_value(
            json!({ "code": code, "message": message, "reason": reason, "details": details }),
        )
        .unwrap()
    }

    #[test]
    fn an_answer_says_whether_the_pod_leaves() {
        let failed = |text: &str| Evicted::Failed(text.to_owned());
        let budget = json!([
            { "reason": "DisruptionBudget", "message": "The disruption budget a needs 2 healthy pods and has 2 currently" },
            { "reason": "DisruptionBudget", "message": "b too" },
        ]);
        let cases = [
            (status(404, "pods \"a\" not found", &json!([])), Evicted::Gone),
            (status(404, "no such page", &json!([])), failed("failed to evict Pod, no such page")),
            (
                status(409, "Precondition failed: UID in precondition: 1, UID in object meta: 2", &json!([])),
                Evicted::Gone,
            ),
            (status(409, "try again", &json!([])), failed("failed to evict Pod, try again")),
            (
                status(429, "Cannot evict pod as it would violate the pod's disruption budget.", &budget),
                failed(
                    "cannot evict pod as it would violate the pod's disruption budget. The disruption budget a needs \
                     2 healthy pods and has 2 currently, b too",
                ),
            ),
            (
                status(429, "too many requests, please try again later", &json!([])),
                failed("failed to evict Pod, too many requests, please try again later"),
            ),
            (
                status(403, "it is being deleted", &json!([{ "reason": "NamespaceTerminating" }])),
                failed(
                    "failed to evict Pod, Cannot evict pod from terminating namespace: it is being deleted",
                ),
            ),
            (status(403, "forbidden", &json!([])), failed("failed to evict Pod, forbidden")),
            (
                status(500, "This pod has more than one PodDisruptionBudget", &json!([])),
                failed("failed to evict Pod, This pod has more than one PodDisruptionBudget"),
            ),
        ];
        for (status, expected) in cases {
            assert_eq!(refused(&status), expected);
        }
    }

    #[test]
    fn the_grace_period_is_that_of_the_pod_unless_the_node_is_unreachable() {
        let pod = |spec: Value| -> Pod {
            serde_json::from_value(json!({ "metadata": { "name": "a", "uid": "1" }, "spec": spec })).unwrap()
        };
        let (own, none) =
            (json!({ "containers": [], "terminationGracePeriodSeconds": 30 }), json!({ "containers": [] }));
        let cases = [
            (&own, false, json!(30)),
            (&own, true, json!(1)),
            (&none, false, Value::Null),
            (&none, true, json!(1)),
        ];
        for (spec, unreachable, expected) in cases {
            let options = eviction(&pod(spec.clone()), unreachable, false)["deleteOptions"].clone();
            assert!(options["dryRun"].is_null());
            assert_eq!(
                (&options["gracePeriodSeconds"], &options["preconditions"]["uid"]),
                (&expected, &json!("1"))
            );
        }
    }
}
