//! Evaluation of all policies for one write, and the consequences of their validations.

use std::collections::BTreeMap;

use apiserver_machinery::admission_control::{AdmittedWrite, RequestAdmission};
use apiserver_machinery::object;
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_schema::AdmissionInputs;
use serde_json::{Value, json};

use super::compile::{Base, Binding, Policy};
use super::decision::{Failed, decide};
use super::params;
use crate::matching::{Criteria, Matched, Subject, is_namespace};
use crate::one_request::OneRequest;
use crate::review::{self, Objects};

/// Key of the audit annotation with the failed validations.
const FAILURES: &str = "validation.policy.admission.k8s.io/validation_failure";

/// Refusals and annotations, collected over all policies.
#[derive(Default)]
struct Findings {
    /// Message and reason of each refusal.
    denied: Vec<(String, String)>,
    failures: Vec<Value>,
}

/// Evaluates the policies that match a write.
///
/// # Errors
/// The first refusal, with the code of its reason; 404 for a namespace that does not exist; 503.
pub(crate) async fn validate(
    admission: &OneRequest,
    policies: &[Policy],
    write: AdmittedWrite<'_>,
    object: Option<&Value>,
) -> ApiResult<()> {
    let subject = Subject { store: admission.store(), write, object };
    let mut findings = Findings::default();
    let governing = policies.iter().filter(|policy| policy.base.source.governs(write.resource));
    for policy in governing {
        evaluate(admission, policy, subject, &mut findings).await?;
    }
    if !findings.failures.is_empty() {
        admission.annotate(FAILURES.to_owned(), json!(findings.failures).to_string());
    }
    match findings.denied.into_iter().next() {
        None => Ok(()),
        Some((message, reason)) => Err(refusal(subject, &message, &reason)),
    }
}

/// Evaluates one policy with all its bindings.
async fn evaluate(
    admission: &OneRequest,
    policy: &Policy,
    subject: Subject<'_>,
    findings: &mut Findings,
) -> ApiResult<()> {
    let matched = match matches(&policy.base.criteria, subject).await {
        Ok(Some(matched)) => matched,
        Ok(None) => return Ok(()),
        Err(why) => {
            findings.misconfigured(policy, None, &why);
            return Ok(());
        }
    };
    let mut annotations: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for binding in &policy.base.bindings {
        let is_bound = match &binding.criteria {
            None => Ok(true),
            Some(criteria) => matches(criteria, subject).await.map(|matched| matched.is_some()),
        };
        let all = match is_bound {
            Ok(false) => continue,
            Ok(true) if !decides(admission, &policy.base, binding).await? => continue,
            Ok(true) => params::collect(admission, &policy.base, binding, subject.write.namespace).await,
            Err(why) => Err(why),
        };
        let all = match all {
            Ok(all) => all,
            Err(why) => {
                findings.misconfigured(policy, Some(binding), &why);
                continue;
            }
        };
        let inputs = inputs(admission, subject, &matched).await?;
        for one in all {
            let inputs = inputs.with_params(one.as_deref());
            let outcome = loop {
                let outcome = decide(policy, &inputs);
                if !admission.answer_open_questions().await {
                    break outcome;
                }
            };
            for failed in &outcome.failed {
                findings.add(admission, policy, binding, failed);
            }
            for why in outcome.refused {
                findings.deny(policy, Some(binding), &why, "");
            }
            for (key, value) in outcome.annotations {
                let values = annotations.entry(key).or_default();
                if !values.contains(&value) {
                    values.push(value);
                }
            }
        }
    }
    for (key, values) in annotations {
        admission.annotate(format!("{}/{key}", policy.base.name), values.join(", "));
    }
    Ok(())
}

/// Returns false if the user passes a policy of the host cluster whose copy cannot be used.
///
/// # Errors
/// 503 if the user may not.
pub(super) async fn decides(admission: &OneRequest, base: &Base, binding: &Binding) -> ApiResult<bool> {
    admission.host_decides(base.source, "policy", &base.name, &binding.name).await
}

pub(super) async fn matches(
    criteria: &Result<Criteria, String>,
    subject: Subject<'_>,
) -> Result<Option<Matched>, String> {
    criteria.as_ref().map_err(Clone::clone)?.matches(subject).await.map_err(|error| error.message)
}

/// Converts the objects of a write for expressions.
pub(super) async fn inputs(
    admission: &OneRequest,
    subject: Subject<'_>,
    matched: &Matched,
) -> ApiResult<AdmissionInputs> {
    let write = subject.write;
    let namespace = if write.namespace.is_empty() || is_namespace(write.resource) {
        None
    } else {
        subject.store.namespace_object(write.namespace).await?
    };
    let objects = Objects::of(subject, matched)?;
    let request = review::request(admission.request(), write, matched);
    let (object, old) = (objects.object.as_ref(), objects.old.as_ref());
    let inputs = AdmissionInputs::new(object, old, &request, namespace.as_ref());
    Ok(admission.with_authorizer(&inputs, write))
}

impl Findings {
    /// Adds the consequences of a failed validation.
    fn add(&mut self, admission: &OneRequest, policy: &Policy, binding: &Binding, failed: &Failed) {
        for action in &binding.actions {
            match action.as_str() {
                "Deny" => self.deny(policy, Some(binding), &failed.message, &failed.reason),
                "Warn" => admission.warn(format!(
                    "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                    policy.base.name, binding.name, failed.message
                )),
                _ => self.failures.push(json!({"message": failed.message, "policy": policy.base.name,
                    "binding": binding.name, "expressionIndex": failed.index,
                    "validationActions": binding.actions})),
            }
        }
    }

    /// Adds the error of a policy or a binding that cannot be evaluated.
    fn misconfigured(&mut self, policy: &Policy, binding: Option<&Binding>, why: &str) {
        if policy.base.fails_closed {
            let what = if binding.is_some() { "binding" } else { "policy" };
            self.deny(policy, binding, &format!("failed to configure {what}: {why}"), "");
        }
    }

    fn deny(&mut self, policy: &Policy, binding: Option<&Binding>, message: &str, reason: &str) {
        let by = binding.map(|binding| format!(" with binding '{}'", binding.name)).unwrap_or_default();
        let message =
            format!("ValidatingAdmissionPolicy '{}'{by} denied request: {message}", policy.base.name);
        self.denied.push((message, reason.to_owned()));
    }
}

/// Returns the refusal with the code of its reason.
fn refusal(subject: Subject<'_>, message: &str, reason: &str) -> ApiError {
    let resource = subject.write.resource;
    let (reason, code) = match reason {
        "Forbidden" => ("Forbidden", 403),
        "RequestEntityTooLarge" => ("RequestEntityTooLarge", 413),
        _ => ("Invalid", 422),
    };
    let name = name(subject);
    let mut error = ApiError::forbidden(&resource.group, &resource.plural, &name, message);
    error.details["causes"] = json!([{"message": message}]);
    ApiError { code, reason: reason.into(), ..error }
}

/// Returns the name in a refusal. A name that the server will generate is not known yet.
pub(super) fn name(subject: Subject<'_>) -> String {
    let given = subject.object.map(|object| (object::name(object), object::meta(object, "generateName")));
    match (subject.write.name, given) {
        ("", Some(("", ""))) | ("", None) => "Unknown".to_owned(),
        ("", Some(("", prefix))) => prefix.to_owned(),
        ("", Some((name, _))) | (name, _) => name.to_owned(),
    }
}
