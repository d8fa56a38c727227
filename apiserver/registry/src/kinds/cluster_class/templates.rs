//! The templates of a class: what they must be, and what may become of them.

use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::{Value, json};

use super::WORKERS;
use crate::rules::json_fields::{get, items};

/// Templates outside of worker classes.
const TEMPLATES: [&str; 3] = ["spec.infrastructure.templateRef", "spec.controlPlane.templateRef", MACHINES];

/// That of the control plane's machines: not every control plane has any.
const MACHINES: &str = "spec.controlPlane.machineInfrastructure.templateRef";

/// Every template must be there, and be called one. What the stored version's schema does not let through comes from
/// older versions. The paths are those of the version before, in upstream too.
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

/// Templates may be exchanged for others of the same kind: clusters of the class could not follow
/// any other change. The bootstrap of workers may, when they are replaced.
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
    // One that is new or gone is as one of no kind.
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
