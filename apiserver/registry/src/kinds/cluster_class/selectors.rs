//! Selectors of the templates that a patch changes.

use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::{Value, json};

use super::WORKERS;
use super::patches::shown;
use crate::rules::json_fields::{get, items};
use crate::rules::names;

/// Validates that a selector selects something, and that the class contains it.
pub(super) fn validate(selector: &Value, class: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let resources = selector.get("matchResources").unwrap_or(&Value::Null);
    let is_on = |field: &str| resources.get(field) == Some(&json!(true));
    let names = |field: &str| -> Vec<&str> {
        items(resources, &format!("{field}.names")).filter_map(|(_, name)| name.as_str()).collect()
    };
    let kinds = ["machineDeploymentClass", "machinePoolClass"];
    let at = path.child("matchResources");
    let [plane, infrastructure] = ["controlPlane", "infrastructureCluster"];
    if !is_on(plane) && !is_on(infrastructure) && kinds.iter().all(|kind| names(kind).is_empty()) {
        errors.push(FieldError::invalid(path.clone(), &shown(selector), "no selector enabled"));
        return;
    }
    let is_for = |holder: &Value, part: &str| {
        let template = get(holder, &format!("{part}.templateRef"));
        template.is_some_and(|template| {
            ["kind", "apiVersion"].iter().all(|field| template.get(*field) == selector.get(*field))
        })
    };
    let mut refuse = |part: FieldPath, value: Value, detail: &str| {
        errors.push(FieldError::invalid(part, &value, detail));
    };
    if is_on(infrastructure) && !is_for(class, "spec.infrastructure") {
        let detail = "selector is enabled but does not match the infrastructure ref";
        refuse(at.child(infrastructure), json!(true), detail);
    }
    let of_plane = ["spec.controlPlane", "spec.controlPlane.machineInfrastructure"];
    if is_on(plane) && !of_plane.iter().any(|part| is_for(class, part)) {
        let detail = "selector is enabled but matches neither the controlPlane ref nor the controlPlane machineInfrastructure ref";
        refuse(at.child(plane), json!(true), detail);
    }
    for (field, (list, kind, _)) in kinds.into_iter().zip(WORKERS) {
        for (index, name) in names(field).into_iter().enumerate() {
            let at = at.child(field).child("names").index(index);
            if let Some(detail) = misuse(name) {
                refuse(at, json!(name), detail);
                // The remaining names are not checked.
                break;
            }
            let mut chosen = items(class, &format!("spec.workers.{list}")).map(|(_, worker)| worker);
            let is_chosen = |worker: &Value| {
                let class = worker.get("class").and_then(Value::as_str).unwrap_or_default();
                matches(name, class) && (is_for(worker, "infrastructure") || is_for(worker, "bootstrap"))
            };
            if !chosen.any(is_chosen) {
                let detail = format!(
                    "selector is enabled but matches neither the bootstrap ref nor the infrastructure ref of a {kind} class"
                );
                refuse(at, json!(name), &detail);
            }
        }
    }
}

/// Reports whether a name with a `*` at one end matches a class.
fn matches(name: &str, class: &str) -> bool {
    name == class
        || name.strip_prefix('*').is_some_and(|end| class.ends_with(end))
        || name.strip_suffix('*').is_some_and(|beginning| class.starts_with(beginning))
}

/// Returns the error of a name with a `*`.
fn misuse(name: &str) -> Option<&'static str> {
    if !name.contains('*') {
        None
    } else if name.matches('*').count() > 1 {
        Some("selector can at most contain a single \"*\" rune")
    } else if !name.starts_with('*') && !name.ends_with('*') {
        Some("\"*\" rune can only appear at the beginning, or ending of the selector")
    } else if !names::label_key(&name.replace('*', "a")).is_empty() {
        Some("selector does not comply with the Kubernetes naming standards")
    } else {
        None
    }
}
