//! Clusters that use a class, and the changes and deletions that they prevent.

use apiserver_machinery::object;
use apiserver_machinery::related::ObjectReader;
use apiserver_machinery::status::ApiResult;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use controllers_topology::variables::{Definitions, default_and_validate};
use serde_json::Value;

use crate::kinds::cluster::{ClassKey, GROUP, is_check_defined, validate_autoscaled};
use crate::rules::json_fields::{get, items, text};

/// Number of Clusters that the error of a deletion names. It counts the others.
const MOST_NAMED: usize = 3;

/// Lists of classes of workers, and the name of one.
const KINDS: [(&str, &str); 2] =
    [("machineDeployments", "MachineDeploymentClass"), ("machinePools", "MachinePoolClass")];

/// Returns the key of a class.
pub(super) fn key(class: &Value) -> ClassKey {
    ClassKey { namespace: object::namespace(class).to_owned(), name: object::name(class).to_owned() }
}

/// Returns every Cluster of a class.
pub(super) async fn clusters(class: &Value, others: &dyn ObjectReader) -> ApiResult<Vec<Value>> {
    let own = key(class);
    // Clusters in other namespaces can use a class.
    let mut found = others.all(GROUP, "clusters", "").await?;
    found.retain(|cluster| ClassKey::of(cluster).as_ref() == Some(&own));
    Ok(found)
}

/// Returns the error of a deletion, if Clusters use the class.
pub(super) async fn refuse_deletion(class: &Value, others: &dyn ObjectReader) -> ApiResult<Option<String>> {
    let users = clusters(class, others).await?;
    let mut named: Vec<String> = users
        .iter()
        .take(MOST_NAMED)
        .map(|cluster| format!("{}/{}", object::namespace(cluster), object::name(cluster)))
        .collect();
    if users.len() > MOST_NAMED {
        named.push(format!("... ({} more)", users.len() - MOST_NAMED));
    }
    let list = named.join(", ");
    Ok((!users.is_empty())
        .then(|| format!("ClusterClass cannot be deleted because it is used by Cluster(s): {list}")))
}

/// Validates that a change does not remove or require anything that a Cluster of the class uses or lacks.
///
/// Upstream does this at every update, but not for variables. An update that does not change the spec cannot affect the
/// Clusters.
pub(super) async fn validate(
    new: &Value,
    old: &Value,
    others: &dyn ObjectReader,
) -> ApiResult<Vec<FieldError>> {
    let mut errors = Vec::new();
    if new.get("spec") == old.get("spec") {
        return Ok(errors);
    }
    let users = clusters(new, others).await?;
    validate_versions(new, &users, &mut errors);
    for (list, kind) in KINDS {
        validate_workers((new, old), &users, list, kind, &mut errors);
    }
    validate_checks(new, old, &users, &mut errors);
    validate_variables(new, old, &users, &mut errors);
    for user in &users {
        validate_autoscaled(user, Some(new), &mut errors);
    }
    Ok(errors)
}

/// Validates that the versions of Clusters remain in the list of versions.
fn validate_versions(new: &Value, users: &[Value], errors: &mut Vec<FieldError>) {
    let versions = || items(new, "spec.kubernetesVersions").map(|(_, version)| version.as_str());
    if versions().next().is_none() {
        return;
    }
    for user in users {
        let version = text(user, "spec.topology.version");
        if !versions().any(|listed| listed == version) {
            let (version, name) = (version.unwrap_or_default(), object::name(user));
            let detail = format!(
                "Kubernetes Version {version} is used by Cluster {name:?} but not set in ClusterClass"
            );
            errors.push(FieldError::forbidden(FieldPath::new("spec.kubernetesVersions"), &detail));
        }
    }
}

/// Validates that classes of workers in use remain.
fn validate_workers(
    (new, old): (&Value, &Value),
    users: &[Value],
    list: &str,
    kind: &str,
    errors: &mut Vec<FieldError>,
) {
    let path = format!("spec.workers.{list}");
    let has =
        |class: &Value, of: Option<&Value>| items(class, &path).any(|(_, worker)| worker.get("class") == of);
    for user in users {
        for pool in pools(user, list) {
            let of = pool.get("class");
            if has(old, of) && !has(new, of) {
                let (class, name) = (of.and_then(Value::as_str).unwrap_or_default(), object::name(user));
                let detail =
                    format!("{kind} {class:?} cannot be deleted because it is used by Cluster {name:?}");
                errors.push(FieldError::forbidden(FieldPath::new(path.clone()), &detail));
            }
        }
    }
}

/// Validates that health checks in use remain.
fn validate_checks(new: &Value, old: &Value, users: &[Value], errors: &mut Vec<FieldError>) {
    let is_gone = |new: Option<&Value>, old: Option<&Value>| {
        old.is_some_and(is_check_defined) && !new.is_some_and(is_check_defined)
    };
    let check = "spec.controlPlane.healthCheck";
    if is_gone(get(new, check), get(old, check)) {
        let relying =
            users.iter().filter(|user| relies_on_class(get(user, "spec.topology.controlPlane.healthCheck")));
        refuse_check(FieldPath::new(check), relying, errors);
    }
    for (_, worker) in items(new, "spec.workers.machineDeployments") {
        let mut before = items(old, "spec.workers.machineDeployments").map(|(_, before)| before);
        let Some(before) = before.find(|before| before.get("class") == worker.get("class")) else { continue };
        if is_gone(worker.get("healthCheck"), before.get("healthCheck")) {
            let relying = users.iter().filter(|user| {
                pools(user, "machineDeployments").any(|pool| {
                    pool.get("class") == worker.get("class") && relies_on_class(pool.get("healthCheck"))
                })
            });
            let class = worker.get("class").and_then(Value::as_str).unwrap_or_default();
            let path = FieldPath::new("spec.workers.machineDeployments").key(class).child("healthCheck");
            refuse_check(path, relying, errors);
        }
    }
}

/// Validates that the variables of Clusters remain valid. Values that the old class does not allow either are skipped.
fn validate_variables(new: &Value, old: &Value, users: &[Value], errors: &mut Vec<FieldError>) {
    let (before, after) = (Definitions::of_spec(old), Definitions::of_spec(new));
    if before == after {
        return;
    }
    // A Cluster that is being deleted is not validated against its class.
    for user in users.iter().filter(|user| !object::is_deleting(user)) {
        let found = variable_errors(user, &after);
        if found.is_empty() {
            continue;
        }
        let known = variable_errors(user, &before);
        for error in found.iter().filter(|error| !is_known(error, &known)) {
            let (namespace, name) = (object::namespace(user), object::name(user));
            let detail = format!("Cluster {namespace}/{name} would no longer be valid: {error}");
            errors.push(FieldError::forbidden(FieldPath::new("spec.variables"), &detail));
        }
    }
}

/// Returns each error of a Cluster's variables once. Rules that compare with an old value are not evaluated, because the
/// value does not change.
fn variable_errors(cluster: &Value, definitions: &Definitions<'_>) -> Vec<FieldError> {
    let mut found = Vec::new();
    // Variables of an extension are not validated.
    if *definitions != Definitions::Unknown {
        for error in default_and_validate(&mut cluster.clone(), None, definitions) {
            // Defaulting and validation report the same error.
            if !found.contains(&error) {
                found.push(error);
            }
        }
    }
    found
}

/// Reports whether one of the `known` errors is about the same value. Its text can differ, for instance in a limit.
fn is_known(error: &FieldError, known: &[FieldError]) -> bool {
    // Only a path with a key names a variable. Other errors are the same if their texts are.
    let names_variable = error.field.as_str().contains('[');
    known.iter().any(|other| other == error || names_variable && other.field == error.field)
}

fn pools<'a>(cluster: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    items(cluster, &format!("spec.topology.workers.{list}")).map(|(_, pool)| pool)
}

/// Reports whether a Cluster uses the health check of its class.
fn relies_on_class(check: Option<&Value>) -> bool {
    check.is_some_and(|check| check.get("enabled") == Some(&Value::Bool(true)) && !is_check_defined(check))
}

fn refuse_check<'a>(path: FieldPath, users: impl Iterator<Item = &'a Value>, errors: &mut Vec<FieldError>) {
    let names: Vec<&str> = users.map(object::name).collect();
    if !names.is_empty() {
        let names = names.join(",");
        let detail = format!("healthCheck cannot be deleted because it is used by Cluster(s) {names:?}");
        errors.push(FieldError::forbidden(path, &detail));
    }
}
