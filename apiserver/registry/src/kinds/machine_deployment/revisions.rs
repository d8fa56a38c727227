//! Revisions of a MachineDeployment, as its verbs read them.

use std::cmp::Reverse;

use apiserver_machinery::action::ActionCall;
use apiserver_machinery::object;
use apiserver_machinery::status::ApiResult;
use apiserver_types::{Described, Descriptor, MachineDeploymentRevision};
use serde_json::Value;

use super::DEPLOYMENT_LABEL;

/// Returns the revisions of a MachineDeployment, newest first.
pub(super) async fn list(call: &ActionCall<'_>, owner: &Value) -> ApiResult<Vec<Value>> {
    let Descriptor { group, plural, .. } = MachineDeploymentRevision::DESCRIPTOR;
    let selector = format!("{DEPLOYMENT_LABEL}={}", object::name(owner));
    let mut all = call.objects.list(group, plural, call.namespace, &selector).await?;
    let uid = object::meta(owner, "uid");
    // A MachineDeployment of the same name may have existed before.
    all.retain(|it| {
        let owners = object::metadata_field(it, "ownerReferences").and_then(Value::as_array);
        owners.into_iter().flatten().any(|known| known.get("uid").and_then(Value::as_str) == Some(uid))
    });
    all.sort_by_key(|it| Reverse(number_of(it)));
    Ok(all)
}

/// Returns the number of a revision.
pub(super) fn number_of(revision: &Value) -> i64 {
    object::at(revision, "spec.revision").and_then(Value::as_i64).unwrap_or_default()
}
