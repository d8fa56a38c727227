//! Compiled webhook.

use std::collections::BTreeSet;
use std::time::Duration;

use apiserver_machinery::object;
use apiserver_machinery::resource::Resource;
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_schema::AdmissionInputs;
use serde_json::Value;

use super::clients::Clients;
use super::target::Target;
use crate::expressions::{Compiler, Uncompiled};
use crate::matching::{Conditions, Criteria, Matched, Subject};
use crate::one_request::OneRequest;
use crate::review::{self, Objects};
use crate::snapshot::Source;
use crate::value::{entries, text};

/// Webhook of a configuration.
#[derive(Debug)]
pub(crate) struct Hook {
    /// Kind of its configuration.
    pub(crate) kind: &'static str,
    /// Name of its configuration.
    pub(crate) configuration: String,
    pub(crate) source: Source,
    pub(crate) name: String,
    pub(crate) target: Target,
    pub(crate) timeout: Duration,
    /// True if a write fails whose webhook cannot be called.
    pub(crate) fails_closed: bool,
    /// True if the webhook can be called in a dry run.
    pub(crate) takes_dry_run: bool,
    /// True if it is called again after a later webhook has changed the object.
    pub(crate) is_reinvoked: bool,
    criteria: Result<Criteria, String>,
    conditions: Conditions,
}

/// Compiles the webhooks of a configuration, in their order. Adds the expressions that cannot be compiled to `uncompiled`.
pub(crate) fn compile(
    kind: &'static str,
    configuration: &Value,
    source: Source,
    clients: &Clients,
    uncompiled: &mut BTreeSet<Uncompiled>,
) -> Vec<Hook> {
    let mut compiler = Compiler::new(kind, configuration, source, uncompiled);
    let hook = |(index, hook): (usize, &Value)| {
        compiler.enter_webhook(index);
        let seconds = hook.get("timeoutSeconds").and_then(Value::as_u64).unwrap_or(10);
        Hook {
            kind,
            configuration: object::name(configuration).to_owned(),
            source,
            name: text(hook, "name").to_owned(),
            target: Target::new(hook.get("clientConfig").unwrap_or(&Value::Null), clients),
            timeout: Duration::from_secs(seconds),
            fails_closed: text(hook, "failurePolicy") != "Ignore",
            takes_dry_run: matches!(text(hook, "sideEffects"), "None" | "NoneOnDryRun"),
            is_reinvoked: text(hook, "reinvocationPolicy") == "IfNeeded",
            criteria: Criteria::of_webhook(hook),
            conditions: Conditions::compile(hook, false, &mut compiler),
        }
    };
    entries(configuration, "webhooks").iter().enumerate().map(hook).collect()
}

/// Write that a webhook is called for.
#[derive(Debug)]
pub(crate) struct Due {
    pub(super) matched: Matched,
    pub(super) objects: Objects,
    /// Fields of the review except its uid and its objects.
    pub(super) request: Value,
}

impl Hook {
    /// Returns true if writes of this resource may match.
    pub(crate) fn may_concern(&self, group: &str, resource: &str) -> bool {
        self.criteria.as_ref().map_or(true, |criteria| criteria.may_concern(group, resource))
    }

    /// Returns the write in the version of the rules; `None` if it does not match.
    ///
    /// # Errors
    /// 403 for a condition that cannot be evaluated, unless the webhook ignores it; 404 for a namespace that does not exist;
    /// 500 for rules that cannot be read, and for an object that cannot be converted.
    pub(super) async fn due(&self, admission: &OneRequest, subject: Subject<'_>) -> ApiResult<Option<Due>> {
        if !self.source.governs(subject.write.resource) {
            return Ok(None);
        }
        let criteria = self.criteria.as_ref().map_err(|why| ApiError::internal(why.clone()))?;
        let Some(matched) = criteria.matches(subject).await? else { return Ok(None) };
        let objects = Objects::of(subject, &matched)?;
        let shown = review::request(admission.request(), subject.write, &matched);
        let (resource, name) = (subject.write.resource, subject.write.name);
        if !self.conditions.is_empty() {
            let inputs = AdmissionInputs::new(objects.object.as_ref(), objects.old.as_ref(), &shown, None);
            let inputs = admission.with_authorizer(&inputs, subject.write);
            let met = loop {
                let met = self.conditions.are_met(&inputs);
                if !admission.answer_open_questions().await {
                    break met;
                }
            };
            match met {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(why) => return self.unevaluated(resource, name, &why),
            }
        }
        Ok(Some(Due { matched, objects, request: shown }))
    }

    /// Returns the outcome for a write about which the conditions say nothing: they fail, or cannot be compiled. A host
    /// cluster may have functions that are not known here.
    ///
    /// # Errors
    /// 403, unless the webhook ignores failures.
    fn unevaluated(&self, resource: &Resource, name: &str, why: &str) -> ApiResult<Option<Due>> {
        if self.fails_closed {
            return Err(ApiError::forbidden(&resource.group, &resource.plural, name, why));
        }
        // An expression that cannot be compiled was logged when the configuration was read.
        if self.conditions.are_compiled() {
            tracing::warn!(
                webhook = self.name,
                why,
                "conditions of a webhook failed; its failurePolicy ignores it"
            );
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::snapshot::tests::kind;

    #[test]
    fn am_04_the_failure_policy_decides_about_conditions_that_cannot_be_compiled() {
        let resource = kind(true);
        let outcome = |policy: &str| {
            let configuration = json!({"metadata": {"name": "w"}, "webhooks": [{"name": "a.example.com",
                "failurePolicy": policy, "clientConfig": {"url": "https://a.example.com"},
                "matchConditions": [{"name": "c", "expression": "object."}]}]});
            let (kind, mut uncompiled) = ("ValidatingWebhookConfiguration", BTreeSet::new());
            let clients = Clients::default();
            let hook = compile(kind, &configuration, Source::Host, &clients, &mut uncompiled).pop().unwrap();
            assert_eq!(uncompiled.len(), 1, "it is logged when the configuration is read");
            let inputs = AdmissionInputs::new(None, None, &json!({}), None);
            let why = hook.conditions.are_met(&inputs).unwrap_err();
            hook.unevaluated(&resource, "m", &why).map(|due| due.is_some())
        };
        assert!(!outcome("Ignore").unwrap());
        let error = outcome("Fail").unwrap_err();
        assert_eq!(error.code, 403);
        assert!(error.message.contains("matchConditions \"c\""), "{}", error.message);
    }
}
