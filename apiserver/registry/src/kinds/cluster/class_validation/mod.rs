//! Rules of a Cluster's topology that need other objects: its class, and what it is made of already.

use apiserver_machinery::object;
use apiserver_machinery::related::{Judgement, ObjectReader};
use apiserver_machinery::status::ApiResult;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::Value;

use super::class::{ClassKey, Definitions};
use super::topology::{ALLOW_CLASS, POOLS, validate_autoscaled};
use super::{health, upgrade};
use crate::kinds::cluster_class::validate_change;
use crate::rules::json_fields::{annotation, get, items};

/// What the class, the control plane and the workers say about a topology.
///
/// Upstream waits two seconds for a class that is not there or not reconciled. Its reader lags; ours
/// does not, so that what is not there now is told at once.
pub(super) async fn judge(
    new: &Value,
    old: Option<&Value>,
    others: &dyn ObjectReader,
) -> ApiResult<Judgement> {
    let mut judgement = Judgement::default();
    let topology = |cluster| get(cluster, "spec.topology");
    let is_unchanged = old.is_some_and(|old| topology(old) == topology(new));
    // Who takes the last finalizer off a Cluster need not mend it first.
    if topology(new).is_none() || is_unchanged && object::is_deleting(new) {
        return Ok(judgement);
    }
    let Some(key) = ClassKey::of(new) else { return Ok(judgement) };
    let class = key.find(others).await?;
    judgement.warnings.extend(warn(&key, class.as_ref()));
    if let Some(class) = &class {
        judge_by_class(new, class, &mut judgement.errors);
        health::validate(new, class, &mut judgement.errors);
    }
    validate_autoscaled(new, class.as_ref(), &mut judgement.errors);
    let Some(old) = old else { return Ok(judgement) };
    let path = FieldPath::new("spec.topology.class");
    let Some(class) = class else {
        // Upstream refuses any update then. Here one that leaves the topology alone is let through: a
        // Cluster whose class was restored after it can be paused, labelled, and given to a controller.
        if !is_unchanged {
            judgement.errors.push(FieldError::internal(path, &format!("ClusterClass {key} not found")));
        }
        return Ok(judgement);
    };
    let Some(former) = ClassKey::of(old) else {
        if annotation(new, ALLOW_CLASS).is_none() {
            let detail = "classRef cannot be set on an existing Cluster";
            judgement.errors.push(FieldError::forbidden(path, detail));
        }
        return Ok(judgement);
    };
    upgrade::judge(new, old, &class, others, &mut judgement).await?;
    if former != key {
        judge_class_change((&key, &class), &former, others, &mut judgement.errors).await?;
    }
    Ok(judgement)
}

/// What the writer should know of the class.
fn warn(key: &ClassKey, class: Option<&Value>) -> Option<String> {
    let what = match class.map(Definitions::of) {
        None => {
            "does not exist. Cluster topology has not been fully validated. \
             The ClusterClass must be created to reconcile the Cluster"
        }
        Some(Definitions::Unknown) => {
            "hasn't been successfully reconciled. Cluster topology has not been fully validated. \
             Please take a look at the ClusterClass status"
        }
        Some(Definitions::Own(_) | Definitions::Collected(_)) => return None,
    };
    Some(format!("Cluster refers to ClusterClass {key}, but this ClusterClass {what}"))
}

/// What a class has must be chosen from.
fn judge_by_class(new: &Value, class: &Value, errors: &mut Vec<FieldError>) {
    let path = FieldPath::new("spec.topology");
    let wanted = get(new, "spec.topology.version").unwrap_or(&Value::Null);
    let mut versions = items(class, "spec.kubernetesVersions").peekable();
    if versions.peek().is_some() && !versions.any(|(_, version)| version == wanted) {
        let detail = "version must match one of the versions defined in the ClusterClass";
        errors.push(FieldError::invalid(path.child("version"), wanted, detail));
    }
    for (list, kind) in POOLS.into_iter().zip(["MachineDeploymentClass", "MachinePoolClass"]) {
        for (index, pool) in items(new, &format!("spec.topology.workers.{list}")) {
            let of = pool.get("class").and_then(Value::as_str).unwrap_or_default();
            let mut classes = items(class, &format!("spec.workers.{list}")).map(|(_, class)| class);
            if !classes.any(|class| class.get("class").and_then(Value::as_str) == Some(of)) {
                let at = path.child("workers").child(list).index(index).child("class");
                let detail = format!(
                    "{kind} with name {of:?} does not exist in ClusterClass {:?}",
                    object::name(class)
                );
                errors.push(FieldError::invalid(at, &Value::from(of), &detail));
            }
        }
    }
}

/// A class may be exchanged for another with templates of the same kinds.
async fn judge_class_change(
    (key, class): (&ClassKey, &Value),
    former: &ClassKey,
    others: &dyn ObjectReader,
    errors: &mut Vec<FieldError>,
) -> ApiResult<()> {
    if let Some(former) = former.find(others).await? {
        validate_change(class, &former, errors);
        return Ok(());
    }
    let (from, to, error) = (former.to_string(), key.to_string(), former.not_found());
    let detail = format!(
        "valid ClusterClass with name {from:?} could not be retrieved, change from class {from:?} to class {to:?} cannot be validated. Error: {error}"
    );
    errors.push(FieldError::forbidden(FieldPath::new("spec.topology.class"), &detail));
    Ok(())
}

#[cfg(test)]
mod tests;
