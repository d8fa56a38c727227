//! Settings of a webhook in the authorization file.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use apiserver_schema::field_errors::{FieldError, FieldPath};
use jiff::SignedDuration;
use serde::Deserialize;
use serde_json::json;

use super::conditions::{self, Conditions};

/// Longest time limit of a webhook: upstream's.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Largest number of conditions of a webhook: upstream's.
const MOST_CONDITIONS: usize = 64;

/// Lifetimes of cached answers: upstream's defaults.
const ALLOWED_TTL: Duration = Duration::from_secs(300);
const DENIED_TTL: Duration = Duration::from_secs(30);

/// Settings of a webhook.
#[derive(Debug)]
pub struct WebhookSettings {
    /// Name in the audit log.
    pub name: String,
    /// Kubeconfig with the URL of the webhook and the server's credential for it.
    pub kubeconfig: PathBuf,
    pub(super) timeout: Duration,
    pub(super) allowed_ttl: Duration,
    pub(super) denied_ttl: Duration,
    /// True if a webhook that does not answer denies.
    pub(super) denies_on_failure: bool,
    pub(super) conditions: Conditions,
}

/// Webhook as it is in the file.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Webhook {
    #[serde(rename = "authorizedTTL")]
    authorized_ttl: String,
    #[serde(rename = "unauthorizedTTL")]
    unauthorized_ttl: String,
    timeout: String,
    subject_access_review_version: String,
    match_condition_subject_access_review_version: String,
    failure_policy: String,
    connection_info: ConnectionInfo,
    match_conditions: Vec<MatchCondition>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct ConnectionInfo {
    #[serde(rename = "type")]
    kind: String,
    kube_config_file: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct MatchCondition {
    expression: String,
}

/// Returns the settings, and adds the errors of the fields.
pub(super) fn settings(
    name: String,
    webhook: &Webhook,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) -> WebhookSettings {
    let timeout = duration(&webhook.timeout, None, &path.child("timeout"), errors);
    if timeout > LONGEST_TIMEOUT {
        let detail = "must be at most 30s";
        errors.push(FieldError::invalid(path.child("timeout"), &json!(webhook.timeout), detail));
    }
    let of = |text: &str, default, field: &str, errors: &mut Vec<FieldError>| {
        duration(text, Some(default), &path.child(field), errors)
    };
    let allowed_ttl = of(&webhook.authorized_ttl, ALLOWED_TTL, "authorizedTTL", errors);
    let denied_ttl = of(&webhook.unauthorized_ttl, DENIED_TTL, "unauthorizedTTL", errors);
    let version = path.child("subjectAccessReviewVersion");
    one_of(&webhook.subject_access_review_version, &["v1"], version, errors);
    one_of(&webhook.failure_policy, &["NoOpinion", "Deny"], path.child("failurePolicy"), errors);
    WebhookSettings {
        name,
        kubeconfig: kubeconfig(&webhook.connection_info, &path.child("connectionInfo"), errors),
        timeout,
        allowed_ttl,
        denied_ttl,
        denies_on_failure: webhook.failure_policy == "Deny",
        conditions: conditions(webhook, path, errors),
    }
}

/// Reads a duration above zero. Without a default it is required.
fn duration(
    text: &str,
    default: Option<Duration>,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) -> Duration {
    match (text, default) {
        ("", Some(default)) => return default,
        ("", None) => errors.push(FieldError::required(path.clone(), "a duration such as 3s")),
        _ => {
            let read = text.parse::<SignedDuration>().ok().and_then(|read| Duration::try_from(read).ok());
            if let Some(read) = read.filter(|read| !read.is_zero()) {
                return read;
            }
            errors.push(FieldError::invalid(path.clone(), &json!(text), "must be a duration above zero"));
        }
    }
    Duration::ZERO
}

fn one_of(value: &str, supported: &[&str], path: FieldPath, errors: &mut Vec<FieldError>) {
    if value.is_empty() {
        errors.push(FieldError::required(path, &format!("one of {}", supported.join(", "))));
    } else if !supported.contains(&value) {
        errors.push(FieldError::not_supported(path, &json!(value), supported));
    }
}

fn kubeconfig(from: &ConnectionInfo, path: &FieldPath, errors: &mut Vec<FieldError>) -> PathBuf {
    one_of(&from.kind, &["KubeConfigFile"], path.child("type"), errors);
    let (file, at) = (PathBuf::from(&from.kube_config_file), path.child("kubeConfigFile"));
    if from.kube_config_file.is_empty() {
        errors.push(FieldError::required(at, ""));
    } else if !file.is_absolute() {
        errors.push(FieldError::invalid(at, &json!(from.kube_config_file), "must be an absolute path"));
    }
    file
}

fn conditions(webhook: &Webhook, path: &FieldPath, errors: &mut Vec<FieldError>) -> Conditions {
    let at = path.child("matchConditions");
    let all = &webhook.match_conditions;
    let limit = u64::try_from(MOST_CONDITIONS).unwrap_or(u64::MAX);
    if all.len() > MOST_CONDITIONS {
        errors.push(FieldError::too_many(at, all.len(), limit));
        return Conditions::default();
    }
    let version = &webhook.match_condition_subject_access_review_version;
    if !all.is_empty() || !version.is_empty() {
        one_of(version, &["v1"], path.child("matchConditionSubjectAccessReviewVersion"), errors);
    }
    let (mut known, mut found) = (HashSet::new(), Vec::new());
    for (index, condition) in all.iter().enumerate() {
        let (source, field) = (&condition.expression, at.index(index).child("expression"));
        if source.trim().is_empty() {
            errors.push(FieldError::required(field, ""));
        } else if !known.insert(source) {
            errors.push(FieldError::duplicate(field, &json!(source)));
        } else {
            match conditions::compile(source) {
                Ok(expression) => found.push(expression),
                Err(error) => errors.push(FieldError::invalid(field, &json!(source), &error)),
            }
        }
    }
    Conditions(found)
}
