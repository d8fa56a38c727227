//! Annotation of a health check with the verdict about each Machine that is not healthy.
//!
//! Upstream's status has only the names of the Machines.

use apiserver_types::MachineHealthCheck;
use controllers_runtime::{ControllerContext, ReconcileError, Severity};
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::decide::Plan;
use super::judge::{self, Cause, NodeSeen, Scene, Verdict};
use super::observe::{Observed, Target};

/// Annotation with the verdicts, in JSON.
const VERDICTS: &str = "capstan.dev/health-check-verdicts";

/// Most Machines in the annotation, so that it stays far below the limit of all annotations of an object.
const MOST: usize = 100;

/// Share of the time-out of a start-up from which a start-up counts as nearly too slow. Unit: percent.
const NEARLY: i64 = 80;

/// Writes the annotation if it differs, and an Event if the slowest start-up became nearly too slow.
///
/// # Errors
/// A conflict if another client has written since, or the API's own failure.
pub(super) async fn write(
    context: &ControllerContext,
    api: &Api<MachineHealthCheck>,
    check: &mut MachineHealthCheck,
    observed: &Observed,
    plan: &Plan,
) -> Result<(), ReconcileError> {
    let before = check.annotations().get(VERDICTS).cloned();
    let known: Option<Value> = before.as_deref().and_then(|text| serde_json::from_str(text).ok());
    let verdicts = verdicts(known.as_ref(), check, observed, plan);
    if known.as_ref() == Some(&verdicts) {
        return Ok(());
    }
    let change = json!({"metadata": {
        "resourceVersion": check.resource_version(), "uid": check.uid(),
        "annotations": {VERDICTS: verdicts.to_string()},
    }});
    *check = api.patch(&check.name_any(), &PatchParams::default(), &Patch::Merge(&change)).await?;
    if let Some(warning) =
        verdicts["startup"].as_str().filter(|_| known.is_none_or(|it| it["startup"].is_null()))
    {
        context.events.record(check, Severity::Warning, "NodeStartupTimeoutShort", warning).await;
    }
    Ok(())
}

/// Returns the contents of the annotation.
fn verdicts(known: Option<&Value>, check: &MachineHealthCheck, observed: &Observed, plan: &Plan) -> Value {
    let others: Vec<&Target> =
        observed.targets.iter().filter(|target| target.verdict != Verdict::Healthy).collect();
    let checks = check.spec.checks.clone().unwrap_or_default();
    let scene = Scene { cluster: &observed.cluster, checks: &checks, now: observed.now };
    let machines: Vec<Value> = others.iter().take(MOST).map(|target| verdict(&scene, target)).collect();
    let omitted = others.len().saturating_sub(MOST);
    let before = known.and_then(|known| known.get("startup")).cloned();
    let startup = startup_warning(check, observed).map(Value::from).or(before);
    json!({
        "healthy": plan.counts.healthy, "unhealthy": plan.counts.unhealthy,
        "others": plan.counts.expected.saturating_sub(plan.counts.healthy).saturating_sub(plan.counts.unhealthy),
        "machines": machines, "omitted": omitted, "startup": startup,
    })
}

/// Returns the entry of a Machine. It is the same in each pass until something changes: the time is absolute.
fn verdict(scene: &Scene<'_>, target: &Target) -> Value {
    let name = target.machine.name_any();
    match &target.verdict {
        Verdict::Healthy => json!({"name": name, "verdict": "Healthy"}),
        Verdict::NotJudged(reason) => json!({"name": name, "verdict": "NotJudged", "reason": reason}),
        Verdict::Unhealthy { cause, messages } => {
            json!({"name": name, "verdict": "Unhealthy", "reason": cause.reason(), "messages": messages})
        }
        Verdict::Later(rest) => {
            let at = scene.now.checked_add(*rest).unwrap_or(scene.now);
            let at = at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            let (cause, message) = judge::pending(scene, &target.machine, &target.node).unzip();
            json!({
                "name": name, "verdict": "Pending", "reason": cause.map(Cause::reason),
                "messages": message.as_slice(), "unhealthyAt": at,
            })
        }
    }
}

/// Describes the Node that took so long to start that the next one may be replaced before it has started. Machines
/// without an operating system that is installed quickly need longer than the default.
fn startup_warning(check: &MachineHealthCheck, observed: &Observed) -> Option<String> {
    let limit = i64::from(check.spec.checks.as_ref()?.node_startup_timeout_seconds?);
    let slowest = observed.targets.iter().filter_map(|target| {
        let NodeSeen::Found { node, .. } = &target.node else { return None };
        let appeared = node.metadata.creation_timestamp.as_ref()?.0;
        let server = target.machine.condition("InfrastructureReady").filter(|it| it.holds())?;
        let begun = judge::startup(&observed.cluster, &target.machine)?;
        // The Cluster's own milestones are later than this start-up if the Machine came first.
        let begun: Timestamp =
            server.last_transition_time.0.parse().ok().filter(|it| *it <= appeared).or(Some(begun))?;
        Some((appeared.duration_since(begun).as_secs(), target.machine.name_any()))
    });
    let (seconds, name) = slowest.max()?;
    let is_slow = limit > 0 && seconds.saturating_mul(100) >= limit.saturating_mul(NEARLY);
    is_slow.then(|| {
        format!(
            "The Node of Machine {name} needed {seconds} s to start, and spec.checks.nodeStartupTimeoutSeconds is \
             {limit}. Raise it, so that no Machine is replaced while it starts"
        )
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use apiserver_types::{Cluster, HealthChecks, Machine, MachineSpec};
    use jiff::SignedDuration;

    use super::*;

    /// Time at which the cluster is complete.
    const COMPLETE: &str = "2026-01-01T00:00:00Z";

    /// Time at which the Node becomes unready.
    const UNREADY: &str = "2026-01-02T00:00:00Z";

    fn condition(kind: &str, status: &str, time: &str) -> Value {
        json!({"type": kind, "status": status, "reason": "Why", "message": "", "lastTransitionTime": time})
    }

    #[test]
    fn a_pending_verdict_has_its_reason_and_an_absolute_time_and_stays_the_same() {
        let conditions = ["InfrastructureReady", "ControlPlaneInitialized"];
        let conditions = conditions.map(|kind| condition(kind, "True", COMPLETE));
        let status = serde_json::from_value(json!({ "conditions": conditions })).unwrap();
        let cluster = Cluster { status, ..Cluster::default() };
        let checks: HealthChecks = serde_json::from_value(json!({
            "unhealthyNodeConditions": [{"type": "Ready", "status": "False", "timeoutSeconds": 300}],
        }))
        .unwrap();
        let status = json!({"conditions": [condition("Ready", "False", UNREADY)]});
        let node = serde_json::from_value(json!({"metadata": {"name": "n"}, "status": status})).unwrap();
        let node = NodeSeen::Found { node: Arc::new(node), sighted: BTreeMap::new() };
        let begin: Timestamp = UNREADY.parse().unwrap();
        let at = |milliseconds: i64| {
            let now = begin.checked_add(SignedDuration::from_millis(milliseconds)).unwrap();
            let scene = Scene { cluster: &cluster, checks: &checks, now };
            let machine = Machine::new("m", MachineSpec::default());
            let judged = judge::judge(&scene, &machine, &node);
            verdict(&scene, &Target { machine, node: node.clone(), verdict: judged })
        };
        let message = "Condition Ready on Node is reporting status False with reason Why for more than 5m0s";
        let expected = json!({
            "name": "m", "verdict": "Pending", "reason": "UnhealthyNode", "messages": [message],
            "unhealthyAt": "2026-01-02T00:05:01Z",
        });
        for milliseconds in [0, 1, 999, 15_500, 299_999] {
            assert_eq!(at(milliseconds), expected, "{milliseconds} ms");
        }
        assert_eq!(at(300_001)["verdict"], "Unhealthy");
    }
}
