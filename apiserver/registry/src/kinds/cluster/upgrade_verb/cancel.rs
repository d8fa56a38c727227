//! Cancellation of an upgrade: its end at the next safe point.
//!
//! A safe point is a version that all parts of the cluster can have: the one that the control plane has taken last, or takes
//! now. The control plane completes that version, the workers follow to it, and no further version is taken. A hold would
//! stop the upgrade, too, but the Cluster would go on to demand a version that it never reaches. Objects that wait for their
//! upgrade are not written, so that even their numbers of replicas would stay. Annotations of hooks hold an upgrade for a
//! while.
//!
//! The controller writes the version of a step into an annotation of the Cluster before the control plane gets it, and both
//! writes of the Cluster name the revision that they are based on. So either this change sees the step, or the step is not
//! taken.

use std::collections::BTreeSet;

use apiserver_machinery::action::ActionCall;
use apiserver_machinery::object;
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_schema::field_errors::{FieldError, FieldPath};
use apiserver_types::{Described, Descriptor, KubeadmControlPlane, UPGRADE, UPGRADE_STEP, UPGRADE_STOP};
use serde_json::{Value, json};

use super::{Change, invalid};
use crate::kinds::cluster::upgrade::{AFTER_UPGRADE, PENDING_HOOKS};
use crate::rules::json_fields::{annotation, text};
use crate::rules::rollout_verb::RolloutVerb;

/// Hook before the workers follow to a step.
const BEFORE_WORKERS: &str = "BeforeWorkersUpgrade";

/// Hook after the workers have followed. It is pending until then.
const AFTER_WORKERS: &str = "AfterWorkersUpgrade";

/// Returns the change of a Cluster that ends its upgrade at the next safe point.
///
/// # Errors
/// 422 with the field of the request; 409 if no upgrade is in progress, or if no version is left to leave out.
pub(super) async fn change(verb: &RolloutVerb, call: &ActionCall<'_>, cluster: &Value) -> ApiResult<Change> {
    for field in ["version", "through"] {
        if object::at(&call.body, field).is_some() {
            let detail = "must be unset with cancel: the upgrade ends at the version of the control plane";
            return Err(invalid(verb, call, &FieldError::forbidden(FieldPath::new(field), detail)));
        }
    }
    let begun = annotation(cluster, UPGRADE_STEP);
    let step = match begun {
        Some(step) => Some(step.to_owned()),
        // No pass has seen the request yet, or only Machines are still replaced.
        None => control_plane_version(call, cluster).await?,
    };
    match text(cluster, "spec.topology.version") {
        Some(target) if begun == Some(target) => Err(last(verb, call, target)),
        Some(target) => match step.filter(|step| step != target) {
            Some(step) => Ok(of_topology(cluster, &step)),
            None => Err(none(verb, call)),
        },
        None => of_request(verb, call, cluster, step.as_deref()),
    }
}

/// Lets the topology demand the version that the control plane takes.
fn of_topology(cluster: &Value, step: &str) -> Change {
    let mut wanted = cluster.clone();
    wanted["spec"]["topology"]["version"] = json!(step);
    wanted["metadata"]["annotations"][UPGRADE_STOP] = json!(step);
    mark_hooks(&mut wanted);
    Change { wanted, reason: format!("cancel the upgrade at {step}"), always: true }
}

/// Lets the request end with the version that the control plane takes. An upgrade that has not begun is removed.
fn of_request(
    verb: &RolloutVerb,
    call: &ActionCall<'_>,
    cluster: &Value,
    step: Option<&str>,
) -> ApiResult<Change> {
    let Some(versions) = annotation(cluster, UPGRADE) else { return Err(none(verb, call)) };
    let versions: Vec<&str> = versions.split(',').collect();
    let begun = step.and_then(|step| versions.iter().position(|it| *it == step));
    let mut wanted = cluster.clone();
    let annotations = &mut wanted["metadata"]["annotations"];
    let reason = match begun {
        Some(at) if at.saturating_add(1) == versions.len() => {
            return Err(last(verb, call, versions.last().copied().unwrap_or_default()));
        }
        Some(at) => {
            let kept: Vec<&str> = versions.iter().take(at.saturating_add(1)).copied().collect();
            annotations[UPGRADE] = json!(kept.join(","));
            mark_hooks(&mut wanted);
            format!("cancel the upgrade at {}", kept.last().copied().unwrap_or_default())
        }
        None => {
            if let Some(annotations) = annotations.as_object_mut() {
                annotations.remove(UPGRADE);
            }
            "cancel the upgrade before its first step".to_owned()
        }
    };
    Ok(Change { wanted, reason, always: true })
}

/// Marks the hooks of the workers as pending. They follow to a step now that began without them. If it began with them, their
/// hooks are pending or over.
fn mark_hooks(cluster: &mut Value) {
    let mut names: BTreeSet<String> = annotation(cluster, PENDING_HOOKS)
        .into_iter()
        .flat_map(|text| text.split(',').map(str::to_owned))
        .collect();
    // It is pending from the first step on, or once a server has agreed to the upgrade. Marks without workers that follow are
    // removed by the controller.
    if names.contains(AFTER_UPGRADE) && !names.contains(AFTER_WORKERS) {
        names.extend([AFTER_WORKERS, BEFORE_WORKERS].map(str::to_owned));
        let names: Vec<String> = names.into_iter().collect();
        cluster["metadata"]["annotations"][PENDING_HOOKS] = json!(names.join(","));
    }
}

/// Returns the version that the control plane object demands. `None` for one of a kind that is not stored here.
async fn control_plane_version(call: &ActionCall<'_>, cluster: &Value) -> ApiResult<Option<String>> {
    let Descriptor { group, plural, kind, .. } = KubeadmControlPlane::DESCRIPTOR;
    let Some(reference) = object::at(cluster, "spec.controlPlaneRef") else { return Ok(None) };
    let Some(name) = text(reference, "name").filter(|_| text(reference, "kind") == Some(kind)) else {
        return Ok(None);
    };
    let found = call.objects.get(group, plural, call.namespace, name).await?;
    Ok(found.as_ref().and_then(|plane| text(plane, "spec.version")).map(str::to_owned))
}

fn none(verb: &RolloutVerb, call: &ActionCall<'_>) -> ApiError {
    verb.conflict(call, "no upgrade is in progress")
}

/// Returns the error of an upgrade whose control plane has begun with the target.
fn last(verb: &RolloutVerb, call: &ActionCall<'_>, target: &str) -> ApiError {
    let why = format!(
        "the control plane takes {target}, which is the target, so the workers follow to it. To hold them, set \
         an annotation before-workers.hook.cluster.cluster.x-k8s.io/<name> on the Cluster"
    );
    verb.conflict(call, &why)
}
