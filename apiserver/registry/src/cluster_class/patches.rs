//! The patches of a class.

use apiserver_machinery::field_errors::{FieldError, FieldPath};
use serde_json::{Value, json};

use crate::shape::items;

/// The name that says a variable is defined in the class itself.
const INLINE: &str = "inline";

/// Adds every fault of the patches.
pub(super) fn validate(new: &Value, faults: &mut Vec<FieldError>) {
    let mut seen = Vec::new();
    for (index, patch) in items(new, "spec.patches") {
        let path = FieldPath::new("spec.patches").index(index);
        if let Some(name) = patch.get("name").and_then(Value::as_str) {
            if name == INLINE {
                let detail = "\"inline\" can not be used as the name of a patch";
                faults.push(FieldError::invalid(path.child("name"), &json!(name), detail));
            }
            if seen.contains(&name) {
                let detail =
                    format!("patch names must be unique. Patch with name {name:?} is defined more than once");
                faults.push(FieldError::invalid(path.child("name"), &json!(name), &detail));
            }
            seen.push(name);
        }
        validate_patch(patch, &path, faults);
    }
}

fn validate_patch(patch: &Value, path: &FieldPath, faults: &mut Vec<FieldError>) {
    let has_definitions = items(patch, "definitions").next().is_some();
    match (has_definitions, patch.get("external")) {
        (false, None) => {
            faults.push(FieldError::required(path.clone(), "one of definitions or external must be defined"));
        }
        (true, Some(_)) => {
            let detail = "only one of definitions or external can be defined";
            faults.push(FieldError::invalid(path.clone(), &patch["name"], detail));
        }
        (false, Some(external)) => {
            let extensions = ["validateTopologyExtension", "generatePatchesExtension"];
            if extensions.iter().all(|extension| external.get(extension).is_none()) {
                let detail = "one of validateTopologyExtension and generatePatchesExtension must be defined";
                faults.push(FieldError::invalid(path.child("external"), external, detail));
            }
        }
        (true, None) => {}
    }
    for (index, definition) in items(patch, "definitions") {
        let path = path.child("definitions").index(index);
        validate_selector(&definition["selector"], &path.child("selector"), faults);
        for (index, operation) in items(definition, "jsonPatches") {
            validate_operation(operation, &path.child("jsonPatches").index(index), faults);
        }
    }
}

fn validate_selector(selector: &Value, path: &FieldPath, faults: &mut Vec<FieldError>) {
    let resources = &selector["matchResources"];
    let is_on = |field: &str| resources.get(field) == Some(&json!(true));
    let classes = ["machineDeploymentClass", "machinePoolClass"];
    let any = is_on("controlPlane")
        || is_on("infrastructureCluster")
        || classes.iter().any(|class| resources.get(class).is_some());
    if !any {
        faults.push(FieldError::invalid(path.clone(), selector, "no selector enabled"));
    }
    for class in classes {
        for (index, name) in items(&resources[class], "names") {
            let Some(name) = name.as_str() else { continue };
            let inner = name.strip_prefix('*').or_else(|| name.strip_suffix('*')).unwrap_or(name);
            if inner.contains('*') {
                let path = path.child("matchResources").child(class).child("names").index(index);
                let detail = "\"*\" can appear once, at the beginning or the end of the selector";
                faults.push(FieldError::invalid(path, &json!(name), detail));
            }
        }
    }
}

fn validate_operation(operation: &Value, path: &FieldPath, faults: &mut Vec<FieldError>) {
    let place = operation.get("path").and_then(Value::as_str).unwrap_or_default();
    if !place.starts_with("/spec") {
        let detail = "jsonPatch path must start with \"/spec\"";
        faults.push(FieldError::invalid(path.child("path"), &json!(place), detail));
    }
    if operation.get("op").and_then(Value::as_str) == Some("remove") {
        return;
    }
    let problem = match (operation.get("value"), operation.get("valueFrom")) {
        (None, None) => "jsonPatch must define one of value or valueFrom",
        (Some(_), Some(_)) => "jsonPatch can not define both value and valueFrom",
        (_, Some(from)) => match (from.get("template"), from.get("variable")) {
            (None, None) => "valueFrom must set either template or variable",
            (Some(_), Some(_)) => "valueFrom can not set both template and variable",
            _ => return,
        },
        _ => return,
    };
    faults.push(FieldError::invalid(path.clone(), operation, problem));
}
