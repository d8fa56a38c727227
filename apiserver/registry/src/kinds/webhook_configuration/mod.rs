//! ValidatingWebhookConfiguration and MutatingWebhookConfiguration: strategy, validation and table.

mod client;

use apiserver_machinery::object;
use apiserver_machinery::strategy::Strategy;
use apiserver_machinery::table::{OwnColumn, OwnTable};
use apiserver_schema::field_errors::{FieldError, FieldPath};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::rules::admission_rules::{
    entries, name_errors, one_of, text, validate_conditions, validate_rule, validate_selector,
};
use crate::rules::names;

/// Versions of AdmissionReview that upstream accepts in a configuration.
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];

/// Side effects that a webhook of `v1` may have.
const SIDE_EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];

/// Limits of the timeout: upstream's. Unit: seconds.
const TIMEOUTS: std::ops::RangeInclusive<i64> = 1..=30;

/// Strategy of the webhook configurations.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WebhookConfigurationStrategy {
    /// True for MutatingWebhookConfiguration.
    pub(crate) is_mutating: bool,
}

impl Strategy for WebhookConfigurationStrategy {
    /// Removes an empty `caBundle`, as the type upstream does: many manifests have one, which a controller fills in later.
    fn canonicalize(&self, new: &mut Value) {
        let hooks = new.get_mut("webhooks").and_then(Value::as_array_mut).into_iter().flatten();
        for client in hooks.filter_map(|hook| hook.get_mut("clientConfig")?.as_object_mut()) {
            if client.get("caBundle").and_then(Value::as_str) == Some("") {
                client.remove("caBundle");
            }
        }
    }

    fn drops_nulls(&self) -> bool {
        true
    }

    fn validate(&self, new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let hooks = entries(new, "webhooks");
        for (index, hook) in hooks.iter().enumerate() {
            let path = FieldPath::new("webhooks").index(index);
            self.validate_hook(hook, &path, &mut errors);
            let name = text(hook, "name");
            if !name.is_empty() && hooks.iter().take(index).any(|before| text(before, "name") == name) {
                errors.push(FieldError::duplicate(path.child("name"), &json!(name)));
            }
        }
        errors
    }

    fn name_errors(&self, name: &str) -> Vec<String> {
        name_errors(name)
    }

    fn allow_create_on_update(&self) -> bool {
        false
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn table(&self) -> Option<OwnTable> {
        Some(TABLE)
    }
}

impl WebhookConfigurationStrategy {
    fn validate_hook(self, hook: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
        validate_name(text(hook, "name"), &path.child("name"), errors);
        for (index, rule) in entries(hook, "rules").iter().enumerate() {
            validate_rule(rule, &path.child("rules").index(index), errors);
        }
        one_of(hook, "failurePolicy", &["Fail", "Ignore"], path, errors);
        one_of(hook, "matchPolicy", &["Equivalent", "Exact"], path, errors);
        if hook.get("sideEffects").is_none() {
            let detail = format!("must specify one of {}", SIDE_EFFECTS.join(", "));
            errors.push(FieldError::required(path.child("sideEffects"), &detail));
        }
        one_of(hook, "sideEffects", &SIDE_EFFECTS, path, errors);
        let timeout = hook.get("timeoutSeconds").and_then(Value::as_i64);
        if let Some(timeout) = timeout.filter(|timeout| !TIMEOUTS.contains(timeout)) {
            let detail = "the timeout value must be between 1 and 30 seconds";
            errors.push(FieldError::invalid(path.child("timeoutSeconds"), &json!(timeout), detail));
        }
        validate_selector(hook, "namespaceSelector", path, errors);
        validate_selector(hook, "objectSelector", path, errors);
        if self.is_mutating {
            one_of(hook, "reinvocationPolicy", &["IfNeeded", "Never"], path, errors);
        }
        client::validate(
            hook.get("clientConfig").unwrap_or(&Value::Null),
            &path.child("clientConfig"),
            errors,
        );
        validate_conditions(hook, false, path, errors);
        validate_reviews(hook, &path.child("admissionReviewVersions"), errors);
    }
}

fn validate_name(name: &str, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let wrong = names::subdomain(name);
    if name.is_empty() {
        errors.push(FieldError::required(path.clone(), ""));
    } else if !wrong.is_empty() {
        errors.push(FieldError::invalid(path.clone(), &json!(name), &wrong.join(",")));
    } else if name.split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        errors.push(FieldError::invalid(path.clone(), &json!(name), detail));
    }
}

/// Validates the versions of AdmissionReview. This server sends `v1` alone, so one of them must be that.
fn validate_reviews(hook: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let versions = entries(hook, "admissionReviewVersions");
    if versions.is_empty() {
        let detail = format!("must specify one of {}", REVIEWS.join(", "));
        return errors.push(FieldError::required(path.clone(), &detail));
    }
    for (index, version) in versions.iter().enumerate() {
        if versions.iter().take(index).any(|before| before == version) {
            errors.push(FieldError::invalid(path.index(index), version, "duplicate version"));
            continue;
        }
        let wrong = names::service(version.as_str().unwrap_or_default());
        errors.extend(wrong.iter().map(|why| FieldError::invalid(path.index(index), version, why)));
    }
    let has = |wanted: &str| versions.iter().any(|version| version == wanted);
    let shown = json!(versions);
    if !REVIEWS.into_iter().any(has) {
        let detail = format!("must include at least one of {}", REVIEWS.join(", "));
        errors.push(FieldError::invalid(path.clone(), &shown, &detail));
    } else if !has("v1") {
        let detail = "must include v1: Capstan sends AdmissionReview in this version only";
        errors.push(FieldError::invalid(path.clone(), &shown, detail));
    }
}

const TABLE: OwnTable = OwnTable {
    columns: &[
        OwnColumn { name: "Name", format: "name", priority: 0, description: "Name of the configuration." },
        OwnColumn { name: "Webhooks", format: "", priority: 0, description: "Number of its webhooks." },
        OwnColumn { name: "Age", format: "", priority: 0, description: "Time since its creation." },
    ],
    cells,
};

fn cells(configuration: &Value, now: Timestamp) -> Vec<Value> {
    let age = apiserver_machinery::age::age(object::meta(configuration, "creationTimestamp"), now);
    vec![json!(object::name(configuration)), json!(entries(configuration, "webhooks").len()), json!(age)]
}

#[cfg(test)]
mod tests;
