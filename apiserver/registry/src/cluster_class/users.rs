//! The Clusters of a class, which keep it from being changed or deleted under them.

use apiserver_machinery::field_errors::{FieldError, FieldPath};
use apiserver_machinery::object;
use apiserver_machinery::others::Others;
use apiserver_machinery::status::ApiResult;
use serde_json::Value;

use super::WORKERS;
use crate::cluster::class_of;
use crate::shape::{get, items};

/// Clusters that are named where a deletion is refused; of more it is said how many.
const MOST_NAMED: usize = 3;

/// Lists of classes of workers, and how one is called.
const KINDS: [(&str, &str); 2] =
    [("machineDeployments", "MachineDeploymentClass"), ("machinePools", "MachinePoolClass")];

/// Every Cluster of a class.
async fn clusters(class: &Value, others: &dyn Others) -> ApiResult<Vec<Value>> {
    let own = (object::namespace(class).to_owned(), object::name(class).to_owned());
    let mut found = others.all("cluster.x-k8s.io", "clusters").await?;
    found.retain(|cluster| class_of(cluster).as_ref() == Some(&own));
    Ok(found)
}

/// Why a class cannot be deleted.
pub(super) async fn refuse_deletion(class: &Value, others: &dyn Others) -> ApiResult<Option<String>> {
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

/// Everything that a change takes away from the Clusters of the class.
pub(super) async fn validate(new: &Value, old: &Value, others: &dyn Others) -> ApiResult<Vec<FieldError>> {
    let mut faults = Vec::new();
    if new.get("spec") == old.get("spec") {
        return Ok(faults);
    }
    let users = clusters(new, others).await?;
    for (list, kind) in KINDS {
        validate_workers((new, old), &users, list, kind, &mut faults);
    }
    let check = "spec.controlPlane.healthCheck";
    if get(old, check).is_some() && get(new, check).is_none() {
        let relying =
            users.iter().filter(|user| relies_on_class(get(user, "spec.topology.controlPlane.healthCheck")));
        refuse_check(FieldPath::new(check), relying, &mut faults);
    }
    validate_variables(new, old, &users, &mut faults);
    Ok(faults)
}

/// Classes of workers that are in use stay, with their health checks.
fn validate_workers(
    (new, old): (&Value, &Value),
    users: &[Value],
    list: &str,
    kind: &str,
    faults: &mut Vec<FieldError>,
) {
    let path = FieldPath::new("spec.workers").child(list);
    let word = |value: &Value, field: &str| value.get(field).and_then(Value::as_str).map(str::to_owned);
    for (_, before) in items(old, &format!("spec.workers.{list}")) {
        let Some(class) = word(before, "class") else { continue };
        let mut now = items(new, &format!("spec.workers.{list}")).map(|(_, worker)| worker);
        let now = now.find(|worker| word(worker, "class").as_ref() == Some(&class));
        let using =
            |user: &&Value| pools(user, list).any(|pool| word(pool, "class").as_ref() == Some(&class));
        let Some(now) = now else {
            faults.extend(users.iter().filter(using).map(|user| {
                let name = object::name(user);
                let detail =
                    format!("{kind} {class:?} cannot be deleted because it is used by Cluster {name:?}");
                FieldError::forbidden(path.clone(), &detail)
            }));
            continue;
        };
        if before.get("healthCheck").is_some() && now.get("healthCheck").is_none() {
            let relying = users.iter().filter(|user| {
                pools(user, list).any(|pool| {
                    word(pool, "class").as_ref() == Some(&class) && relies_on_class(pool.get("healthCheck"))
                })
            });
            refuse_check(path.key(&class).child("healthCheck"), relying, faults);
        }
    }
}

fn pools<'a>(cluster: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    items(cluster, &format!("spec.topology.workers.{list}")).map(|(_, pool)| pool)
}

/// Whether a Cluster wants the health check that its class describes.
fn relies_on_class(check: Option<&Value>) -> bool {
    let has = |field: &str| check.is_some_and(|check| check.get(field).is_some());
    check.and_then(|check| check.get("enabled")) == Some(&Value::Bool(true))
        && !has("checks")
        && !has("remediation")
}

fn refuse_check<'a>(path: FieldPath, users: impl Iterator<Item = &'a Value>, faults: &mut Vec<FieldError>) {
    let names: Vec<&str> = users.map(object::name).collect();
    if !names.is_empty() {
        let names = names.join(",");
        let detail =
            format!("MachineHealthCheck cannot be deleted because it is used by Cluster(s) {names:?}");
        faults.push(FieldError::forbidden(path, &detail));
    }
}

/// Variables to which Clusters give values stay.
fn validate_variables(new: &Value, old: &Value, users: &[Value], faults: &mut Vec<FieldError>) {
    let names = |object: &Value, path: &str| -> Vec<String> {
        let named = items(object, path).filter_map(|(_, one)| one.get("name")?.as_str().map(str::to_owned));
        named.collect()
    };
    let now = names(new, "spec.variables");
    for gone in names(old, "spec.variables").into_iter().filter(|name| !now.contains(name)) {
        let uses = |user: &Value| {
            let mut places = vec![
                "spec.topology.variables".to_owned(),
                "spec.topology.controlPlane.variables.overrides".to_owned(),
            ];
            for (list, _) in WORKERS {
                let pools = items(user, &format!("spec.topology.workers.{list}")).count();
                places.extend(
                    (0..pools)
                        .map(|index| format!("spec.topology.workers.{list}.{index}.variables.overrides")),
                );
            }
            places.iter().any(|place| names(user, place).contains(&gone))
        };
        faults.extend(users.iter().filter(|user| uses(user)).map(|user| {
            let name = object::name(user);
            let detail =
                format!("variable {gone:?} cannot be removed because it is used by Cluster {name:?}");
            FieldError::forbidden(FieldPath::new("spec.variables").key(&gone), &detail)
        }));
    }
}
