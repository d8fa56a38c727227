//! Validation of the templates of a class, and of their changes.

use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::{Value, json};

use super::WORKERS;
use crate::rules::json_fields::{get, items};

/// Templates outside of worker classes.
const TEMPLATES: [&str; 3] = ["spec.infrastructure.templateRef", "spec.controlPlane.templateRef", MACHINES];

/// Template of the control plane's machines. Some control planes have no machines.
const MACHINES: &str = "spec.controlPlane.machineInfrastructure.templateRef";

/// Validates that every template exists and that its kind ends in `Template`. Older versions can contain what the
/// stored version's schema rejects. As in upstream, paths are those of the previous version.
pub(super) fn validate(new: &Value, errors: &mut Vec<FieldError>) {
    for path in TEMPLATES {
        let holder = path.trim_end_matches(".templateRef");
        if path != MACHINES || get(new, holder).is_some() {
            validate_template(get(new, path), &FieldPath::new(holder), errors);
        }
    }
    for (list, _, _) in WORKERS {
        for (index, worker) in items(new, &format!("spec.workers.{list}")) {
            for part in ["bootstrap", "infrastructure"] {
                let at =
                    FieldPath::new("spec.workers").child(list).index(index).child("template").child(part);
                validate_template(get(worker, &format!("{part}.templateRef")), &at, errors);
            }
        }
    }
}

fn validate_template(template: Option<&Value>, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let text = |field: &str| template.and_then(|template| template.get(field)?.as_str()).unwrap_or_default();
    for field in ["name", "apiVersion"] {
        if text(field).is_empty() {
            let detail = format!("template {field} must be defined");
            errors.push(FieldError::required(path.child(&format!("ref.{field}")), &detail));
        }
    }
    let kind = text("kind");
    if kind.strip_suffix("Template").is_none_or(str::is_empty) {
        let detail = "template kind must be of form \"<name>Template\"";
        errors.push(FieldError::invalid(path.child("ref.kind"), &json!(kind), detail));
    }
}

/// Validates that a template is replaced only by one of the same kind, because clusters of the class cannot follow
/// other changes. The bootstrap template of workers can change its kind, because workers are replaced.
pub(crate) fn validate_change(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    for path in TEMPLATES {
        validate_same_kind(get(new, path), get(old, path), &FieldPath::new(path), errors);
    }
    for (list, _, _) in WORKERS {
        let list_path = format!("spec.workers.{list}");
        for (index, worker) in items(new, &list_path) {
            let before = items(old, &list_path).find(|(_, other)| other.get("class") == worker.get("class"));
            let Some((_, before)) = before else { continue };
            let field = "infrastructure.templateRef";
            let at = FieldPath::new(list_path.clone()).index(index).child(field);
            validate_same_kind(get(worker, field), get(before, field), &at, errors);
        }
    }
}

fn validate_same_kind(
    new: Option<&Value>,
    old: Option<&Value>,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    // A template that was added or removed counts as one without a kind.
    let text = |template: Option<&Value>, field: &str| {
        template.and_then(|template| template.get(field)?.as_str()).unwrap_or_default().to_owned()
    };
    let group = |template: Option<&Value>| {
        text(template, "apiVersion").split_once('/').map(|(group, _)| group.to_owned()).unwrap_or_default()
    };
    let reason = "to prevent incompatible changes in the Clusters";
    for (field, subject, before, now) in [
        ("apiVersion", "group of apiVersion", group(old), group(new)),
        ("kind", "kind", text(old, "kind"), text(new, "kind")),
    ] {
        if before != now {
            let detail = format!("{subject} cannot be changed from {before:?} to {now:?} {reason}");
            errors.push(FieldError::forbidden(path.child(field), &detail));
        }
    }
}
