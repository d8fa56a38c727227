//! Validation of the patches of a class.

use apiserver_schema::field_errors::{FieldError, FieldPath};
use controllers_topology::go_template::Template;
use serde_json::{Value, json};

use super::selectors;
use crate::rules::json_fields::items;

/// Name of the class itself as the source of a variable.
const INLINE: &str = "inline";

/// Operations of patches.
const OPERATIONS: [&str; 3] = ["add", "remove", "replace"];

/// Built-in variables of every cluster, control plane and set of workers, below `builtin.`.
const CLUSTER: [&str; 15] = [
    "",
    ".name",
    ".namespace",
    ".uid",
    ".metadata.labels",
    ".metadata.annotations",
    ".topology",
    ".topology.classRef.name",
    ".topology.classRef.namespace",
    ".topology.class",
    ".topology.classNamespace",
    ".topology.version",
    ".network",
    ".network.serviceDomain",
    ".network.services",
];
const CONTROL_PLANE: [&str; 7] = [
    "",
    ".name",
    ".replicas",
    ".version",
    ".metadata.labels",
    ".metadata.annotations",
    ".machineTemplate.infrastructureRef.name",
];
const WORKERS: [&str; 10] = [
    "",
    ".class",
    ".name",
    ".replicas",
    ".topologyName",
    ".version",
    ".metadata.labels",
    ".metadata.annotations",
    ".bootstrap.configRef.name",
    ".infrastructureRef.name",
];

/// Adds every error of the patches.
pub(super) fn validate(new: &Value, errors: &mut Vec<FieldError>) {
    let mut seen = Vec::new();
    for (index, patch) in items(new, "spec.patches") {
        let path = FieldPath::new("spec.patches").index(index);
        if let Some(name) = patch.get("name").and_then(Value::as_str) {
            if name == INLINE {
                let detail = "\"inline\" can not be used as the name of a patch";
                errors.push(FieldError::required(path.child("name"), detail));
            }
            if seen.contains(&name) {
                let detail =
                    format!("patch names must be unique. Patch with name {name:?} is defined more than once");
                errors.push(FieldError::invalid(path.child("name"), &json!(name), &detail));
            }
            seen.push(name);
        }
        validate_patch(patch, new, &path, errors);
    }
}

fn validate_patch(patch: &Value, class: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    validate_template(patch.get("enabledIf"), &path.child("enabledIf"), "enabledIf", errors);
    let (definitions, external) = (patch.get("definitions"), patch.get("external"));
    let is_empty = definitions.is_none_or(|list| list.as_array().is_some_and(Vec::is_empty));
    if is_empty && external.is_none() {
        errors.push(FieldError::required(path.clone(), "one of definitions or external must be defined"));
    }
    if definitions.is_some() && external.is_some() {
        let detail = "only one of definitions or external can be defined";
        errors.push(FieldError::invalid(path.clone(), patch, detail));
    }
    for (index, definition) in items(patch, "definitions") {
        let path = path.child("definitions").index(index);
        for (index, operation) in items(definition, "jsonPatches") {
            validate_operation(operation, class, &path.child("jsonPatches").index(index), errors);
        }
        let selector = definition.get("selector").unwrap_or(&Value::Null);
        selectors::validate(selector, class, &path.child("selector"), errors);
    }
    let extensions = ["validateTopologyExtension", "generatePatchesExtension"];
    if let Some(external) = external.filter(|found| extensions.iter().all(|name| found.get(*name).is_none()))
    {
        let detail = "one of validateTopologyExtension and generatePatchesExtension must be defined";
        errors.push(FieldError::invalid(path.child("external"), external, detail));
    }
}

fn validate_operation(operation: &Value, class: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let op = operation.get("op").and_then(Value::as_str).unwrap_or_default();
    if !OPERATIONS.contains(&op) {
        errors.push(FieldError::not_supported(path.child("op"), &shown(operation), &OPERATIONS));
    }
    let pointer = operation.get("path").and_then(Value::as_str).unwrap_or_default();
    if !pointer.starts_with("/spec") {
        let detail = "jsonPatch path must start with \"/spec\"";
        errors.push(FieldError::invalid(path.child("path"), &shown(operation), detail));
    }
    for index in pointer.split('/').filter_map(|part| part.parse::<i64>().ok()) {
        let mut refuse =
            |detail: &str| errors.push(FieldError::invalid(path.child("path"), &json!(pointer), detail));
        match op {
            "add" if index != 0 => {
                refuse("arrays can only be accessed using \"0\" (prepend) or \"-\" (append)");
            }
            "replace" | "remove" => {
                refuse(&format!("elements in arrays can not be accessed in a {op} operation"));
            }
            _ => {}
        }
    }
    if matches!(op, "add" | "replace") {
        validate_value(operation, class, path, errors);
    }
}

/// Validates that a patch has one source of its value: a literal, a template or a variable.
fn validate_value(operation: &Value, class: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let mut refuse = |at: FieldPath, value: &Value, detail: &str| {
        errors.push(FieldError::invalid(at, value, detail));
    };
    match (operation.get("value"), operation.get("valueFrom")) {
        (None, None) => {
            refuse(path.clone(), &shown(operation), "jsonPatch must define one of value or valueFrom")
        }
        (Some(_), Some(_)) => {
            refuse(path.clone(), &shown(operation), "jsonPatch can not define both value and valueFrom");
        }
        _ => {}
    }
    let Some(from) = operation.get("valueFrom") else { return };
    let at = path.child("valueFrom");
    let word = |field: &str| from.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
    match (word("variable"), word("template")) {
        (None, None) => refuse(at.clone(), &shown(from), "valueFrom must set either template or variable"),
        (Some(variable), Some(template)) => {
            // Upstream's order.
            let [variable, template] = [json!(variable), json!(template)];
            let both = json!(format!("{{\n  \"variable\": {variable},\n  \"template\": {template}\n}}"));
            refuse(at.clone(), &both, "valueFrom can not set both template and variable");
        }
        _ => {}
    }
    validate_template(from.get("template"), &at.child("template"), "valueFrom.template", errors);
    let Some(variable) = word("variable") else { return };
    let mut refuse = |detail: &str| {
        errors.push(FieldError::invalid(at.child("variable"), &json!(variable), detail));
    };
    if let Some(builtin) = variable.strip_prefix("builtin.") {
        if !is_builtin(builtin) {
            refuse("not a defined builtin variable");
        }
        return;
    }
    let name = variable.split(['[', '.']).find(|part| !part.is_empty()).unwrap_or_default();
    let mut variables = items(class, "spec.variables");
    if !variables.any(|(_, defined)| defined.get("name").and_then(Value::as_str) == Some(name)) {
        refuse(&format!("variable with name {variable} cannot be found"));
    }
}

/// Reports whether a variable is built in.
fn is_builtin(name: &str) -> bool {
    let below =
        |prefix: &str, names: &[&str]| name.strip_prefix(prefix).is_some_and(|rest| names.contains(&rest));
    below("cluster", &CLUSTER)
        || name == "cluster.network.pods"
        || below("controlPlane", &CONTROL_PLANE)
        || below("machineDeployment", &WORKERS)
        || below("machinePool", &WORKERS)
}

/// Validates that a Go template parses. An error of its evaluation depends on the variables, and is found by the
/// topology controller only.
fn validate_template(template: Option<&Value>, path: &FieldPath, name: &str, errors: &mut Vec<FieldError>) {
    let Some(text) = template.and_then(Value::as_str) else { return };
    if let Err(error) = Template::parse(name, text) {
        let detail = format!("template can not be parsed: {error}");
        errors.push(FieldError::invalid(path.clone(), &json!(text), &detail));
    }
}

/// Returns a value as upstream shows it here: as indented text.
pub(super) fn shown(value: &Value) -> Value {
    json!(format!("{value:#}"))
}
