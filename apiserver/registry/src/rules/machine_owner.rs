//! Rules that MachineSets and MachineDeployments share: a selector, and a template that it must match.

use apiserver_schema::field_errors::{FieldError, FieldPath};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::rules::json_fields::{annotation, get, object};
use crate::rules::label_selection::LabelSelection;
use crate::rules::machine_template::{self, validate_bootstrap, validate_cluster, validate_taints};
use crate::rules::{name_template, names, replicas, template_metadata};

/// Path of the spec of the Machines.
pub(crate) const TEMPLATE: &str = "spec.template.spec";

/// Annotation with the checks that are skipped before Machines are created.
const SKIPPED_CHECKS: &str = "machineset.cluster.x-k8s.io/skip-preflight-checks";

/// Names of the checks.
const CHECKS: [&str; 5] =
    ["All", "ControlPlaneIsStable", "ControlPlaneVersionSkew", "KubeadmVersionSkew", "KubernetesVersionSkew"];

/// Error of labels that the selector does not match.
type Mismatch = fn(FieldPath, &Value, &str) -> FieldError;

/// Returns a name as a label value: the name itself, or a hash if it is too long.
pub(crate) fn label_value_of(name: &str) -> String {
    if names::label_value(name).is_empty() {
        return name.to_owned();
    }
    // FNV-1a with 32 bits, as other tools compute it.
    let hash =
        name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("hash_{}_z", URL_SAFE_NO_PAD.encode(hash.to_be_bytes()))
}

/// Sets the label with the object's own name in the selector and in the template, if there is no selector.
pub(crate) fn prepare_selector(new: &mut Value, label: &str) {
    let is_empty = |field: &str| {
        let found = get(new, &format!("spec.selector.{field}"));
        found.is_none_or(|found| found.as_object().is_some_and(|map| map.is_empty()) || found == &json!([]))
    };
    let name = get(new, "metadata.name").filter(|name| name.is_string()).cloned();
    let (true, true, Some(name)) = (is_empty("matchLabels"), is_empty("matchExpressions"), name) else {
        return;
    };
    let value = name.as_str().map(label_value_of).unwrap_or_default();
    label_both(new, label, &json!(value));
}

/// Sets a label in the selector and in the template.
pub(crate) fn label_both(new: &mut Value, label: &str, value: &Value) {
    if !get(new, "spec.template").is_some_and(Value::is_object) {
        return;
    }
    for path in ["spec.selector.matchLabels", "spec.template.metadata.labels"] {
        if let Some(labels) = object(new, path) {
            labels.insert(label.to_owned(), value.clone());
        }
    }
}

/// Adds every error that both kinds share.
pub(crate) fn validate(new: &Value, old: Option<&Value>, mismatch: Mismatch, errors: &mut Vec<FieldError>) {
    validate_bootstrap(new, TEMPLATE, errors);
    validate_selector(new, mismatch, errors);
    validate_skipped_checks(new, errors);
    validate_cluster(new, old, errors);
    machine_template::validate(new, TEMPLATE, errors);
    let naming = get(new, "spec.machineNaming.template");
    name_template::validate(naming, "machineSet", &FieldPath::new("spec.machineNaming.template"), errors);
    replicas::validate(new, errors);
    let template = get(new, TEMPLATE).unwrap_or(&Value::Null);
    validate_taints(template, &FieldPath::new(TEMPLATE), true, errors);
    template_metadata::metadata(
        get(new, "spec.template.metadata"),
        &FieldPath::new("spec.template.metadata"),
        errors,
    );
}

fn validate_selector(new: &Value, mismatch: Mismatch, errors: &mut Vec<FieldError>) {
    let Some(selector) = get(new, "spec.selector") else { return };
    let labels = get(new, "spec.template.metadata.labels");
    match LabelSelection::read(selector) {
        Err(problem) => errors.push(FieldError::invalid(FieldPath::new("spec.selector"), selector, &problem)),
        Ok(read) if !read.matches(labels.and_then(Value::as_object)) => {
            let path = FieldPath::new("spec.template.metadata.labels");
            let detail = format!("must match spec.selector {:?}", read.to_string());
            errors.push(mismatch(path, labels.unwrap_or(&Value::Null), &detail));
        }
        Ok(_) => {}
    }
}

fn validate_skipped_checks(new: &Value, errors: &mut Vec<FieldError>) {
    let skipped = annotation(new, SKIPPED_CHECKS).unwrap_or_default();
    let unknown: Vec<&str> = skipped
        .split(',')
        .map(str::trim)
        .filter(|check| !skipped.is_empty() && !CHECKS.contains(check))
        .collect();
    if !unknown.is_empty() {
        let path = FieldPath::new("metadata.annotations").child(SKIPPED_CHECKS);
        let detail = format!("skipped preflight check(s) must be among: [{}]", CHECKS.join(" "));
        errors.push(FieldError::invalid(path, &json!(unknown), &detail));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_too_long_for_a_label_is_hashed() {
        assert_eq!(label_value_of("md-0-abc"), "md-0-abc");
        assert_eq!(label_value_of(&"a".repeat(70)), "hash_WQR0Cw_z");
    }
}
