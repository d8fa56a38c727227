//! Request for an upgrade: the change of the Cluster that keeps it. Pure.

use apiserver_machinery::action::ActionCall;
use apiserver_machinery::object;
use apiserver_machinery::status::ApiResult;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use apiserver_types::{UPGRADE, UPGRADE_STOP, upgrade_versions};
use serde_json::{Value, json};

use super::{Change, invalid};
use crate::rules::json_fields::{annotation, items, text};
use crate::rules::rollout_verb::RolloutVerb;

/// Returns the change of a Cluster to the requested version.
///
/// # Errors
/// 422 with the field of the request; 409 while another upgrade is in progress.
pub(super) fn change(verb: &RolloutVerb, call: &ActionCall<'_>, cluster: &Value) -> ApiResult<Change> {
    let has_topology = object::at(cluster, "spec.topology").is_some_and(Value::is_object);
    let versions = versions(&call.body, has_topology).map_err(|error| invalid(verb, call, &error))?;
    let target = versions.last().cloned().unwrap_or_default();
    let mut wanted = cluster.clone();
    if has_topology {
        wanted["spec"]["topology"]["version"] = json!(target);
        if let Some(annotations) = wanted["metadata"].get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(UPGRADE_STOP);
        }
    } else {
        let versions = versions.join(",");
        if let Some(known) = annotation(cluster, UPGRADE).filter(|known| *known != versions) {
            let target = known.rsplit(',').next().unwrap_or_default();
            let why = format!(
                "an upgrade to {target} is in progress; wait for its end, or cancel it with the field cancel"
            );
            return Err(verb.conflict(call, &why));
        }
        wanted["metadata"]["annotations"][UPGRADE] = json!(versions);
    }
    // Without another version, a Cluster stays as it is, also if the annotation of an earlier cancellation is left.
    let is_same = has_topology && text(cluster, "spec.topology.version") == Some(target.as_str());
    let wanted = if is_same { cluster.clone() } else { wanted };
    // The topology demands the version, also while a missing template leaves no plan.
    Ok(Change { wanted, reason: format!("upgrade to {target}"), always: has_topology })
}

/// Returns the versions of a request; the last one is the target.
fn versions(body: &Value, has_topology: bool) -> Result<Vec<String>, FieldError> {
    let (version, through) = (FieldPath::new("version"), FieldPath::new("through"));
    let target = text(body, "version").unwrap_or_default();
    if target.is_empty() {
        return Err(FieldError::required(version, "the version of Kubernetes to go to, such as v1.35.2"));
    }
    if target.contains(',') || upgrade_versions(target).is_err() {
        let detail = "must be a semantic version with a leading v, such as v1.35.2";
        return Err(FieldError::invalid(version, &json!(target), detail));
    }
    let mut all: Vec<String> = Vec::new();
    for (index, item) in items(body, "through") {
        let item = item.as_str().unwrap_or_default();
        if item.contains(',') || upgrade_versions(item).is_err() {
            let detail = "must be a semantic version with a leading v, such as v1.34.4";
            return Err(FieldError::invalid(through.index(index), &json!(item), detail));
        }
        all.push(item.to_owned());
    }
    if has_topology && !all.is_empty() {
        let detail = "spec.kubernetesVersions of the ClusterClass has the versions on the way";
        return Err(FieldError::forbidden(through, detail));
    }
    all.push(target.to_owned());
    match upgrade_versions(&all.join(",")) {
        Ok(versions) => Ok(versions),
        Err(problem) => Err(FieldError::invalid(through, &json!(all), &problem)),
    }
}
