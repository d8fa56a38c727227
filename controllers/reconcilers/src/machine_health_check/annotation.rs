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
use super::judge::{self, NodeSeen, Verdict};
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
    let machines: Vec<Value> = others.iter().take(MOST).map(|target| verdict(target, observed.now)).collect();
    let omitted = others.len().saturating_sub(MOST);
    let before = known.and_then(|known| known.get("startup")).cloned();
    let startup = startup_warning(check, observed).map(Value::from).or(before);
    json!({
        "healthy": plan.counts.healthy, "unhealthy": plan.counts.unhealthy,
        "others": plan.counts.expected.saturating_sub(plan.counts.healthy).saturating_sub(plan.counts.unhealthy),
        "machines": machines, "omitted": omitted, "startup": startup,
    })
}

fn verdict(target: &Target, now: Timestamp) -> Value {
    let name = target.machine.name_any();
    match &target.verdict {
        Verdict::Healthy => json!({"name": name, "verdict": "Healthy"}),
        Verdict::NotJudged(reason) => json!({"name": name, "verdict": "NotJudged", "reason": reason}),
        Verdict::Unhealthy { cause, messages } => {
            json!({"name": name, "verdict": "Unhealthy", "reason": cause.reason(), "messages": messages})
        }
        Verdict::Later(rest) => {
            let at = now.checked_add(*rest).unwrap_or(now).strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            json!({"name": name, "verdict": "Pending", "unhealthyAt": at})
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
