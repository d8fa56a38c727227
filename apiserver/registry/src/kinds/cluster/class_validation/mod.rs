//! Validation of a Cluster's topology against other objects: its class, control plane and workers.

use apiserver_machinery::object;
use apiserver_machinery::related::{ObjectReader, Verdict};
use apiserver_machinery::status::ApiResult;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use controllers_topology::variables::{Definitions, POOLS};
use serde_json::Value;

use super::class::ClassKey;
use super::topology::{ALLOW_CLASS, validate_autoscaled};
use super::{health, upgrade};
use crate::kinds::cluster_class::validate_change;
use crate::rules::json_fields::{annotation, get, items};

/// Validates a topology against its class, and against the control plane and the workers that exist.
///
/// Upstream waits two seconds for a class that is missing or not reconciled, because its reader lags. Ours does not
/// lag, so a missing class is reported at once.
pub(super) async fn validate(
    new: &Value,
    old: Option<&Value>,
    others: &dyn ObjectReader,
) -> ApiResult<Verdict> {
    let mut verdict = Verdict::default();
    let topology = |cluster| get(cluster, "spec.topology");
    let is_unchanged = old.is_some_and(|old| topology(old) == topology(new));
    // A Cluster does not need to be valid for the removal of its last finalizer.
    if topology(new).is_none() || is_unchanged && object::is_deleting(new) {
        return Ok(verdict);
    }
    let Some(key) = ClassKey::of(new) else { return Ok(verdict) };
    let class = key.find(others).await?;
    verdict.warnings.extend(warn(&key, class.as_ref()));
    if let Some(class) = &class {
        validate_against_class(new, class, &mut verdict.errors);
        health::validate(new, class, &mut verdict.errors);
    }
    validate_autoscaled(new, class.as_ref(), &mut verdict.errors);
    let Some(old) = old else { return Ok(verdict) };
    let path = FieldPath::new("spec.topology.class");
    let Some(class) = class else {
        // Upstream rejects every update then. Here an update that does not change the topology is accepted. A Cluster
        // whose class was restored later can thus be paused, labelled, or adopted by a controller.
        if !is_unchanged {
            verdict.errors.push(FieldError::internal(path, &format!("ClusterClass {key} not found")));
        }
        return Ok(verdict);
    };
    let Some(former) = ClassKey::of(old) else {
        if annotation(new, ALLOW_CLASS).is_none() {
            let detail = "classRef cannot be set on an existing Cluster";
            verdict.errors.push(FieldError::forbidden(path, detail));
        }
        return Ok(verdict);
    };
    upgrade::validate(new, old, &class, others, &mut verdict).await?;
    if former != key {
        validate_class_change((&key, &class), &former, others, &mut verdict.errors).await?;
    }
    Ok(verdict)
}

/// Returns the warning about a class, if there is one.
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

/// Validates that the topology uses only what the class offers.
fn validate_against_class(new: &Value, class: &Value, errors: &mut Vec<FieldError>) {
    let path = FieldPath::new("spec.topology");
    let requested = get(new, "spec.topology.version").unwrap_or(&Value::Null);
    let mut versions = items(class, "spec.kubernetesVersions").peekable();
    if versions.peek().is_some() && !versions.any(|(_, version)| version == requested) {
        let detail = "version must match one of the versions defined in the ClusterClass";
        errors.push(FieldError::invalid(path.child("version"), requested, detail));
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

/// Validates a change to another class. The templates of both must have the same kinds.
async fn validate_class_change(
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
