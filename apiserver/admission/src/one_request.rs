//! Admission of one request, on the configurations of the moment at which it arrived.

use std::sync::{Arc, Mutex, PoisonError};

use apiserver_machinery::admission::Action;
use apiserver_machinery::admission_control::{
    AdmissionNotes, AdmissionRequest, AdmittedWrite, RequestAdmission,
};
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_machinery::store::ObjectStore;
use apiserver_schema::{AdmissionInputs, AuthorizationOracle, AuthorizationQuestion};
use apiserver_trace::{Kind, Span};
use async_trait::async_trait;
use serde_json::Value;

use crate::host::{HostCluster, HostContact};
use crate::policies;
use crate::rounds::Rounds;
use crate::snapshot::{Configurations, Source};
use crate::webhooks::{self, Answer, CallError, Due, Hook};

/// Permission of users whose writes pass webhooks that cannot be called.
const BYPASS: Action<'static> = Action {
    verb: "bypass",
    group: "capstan.dev",
    version: "v1alpha1",
    resource: "admissionwebhooks",
    subresource: "",
    namespace: "",
    name: "",
};

/// Admission of one request.
#[derive(Debug)]
pub(crate) struct OneRequest {
    store: Arc<ObjectStore>,
    configurations: Arc<Configurations>,
    request: AdmissionRequest,
    notes: Mutex<AdmissionNotes>,
    /// Answers to the questions of expressions.
    oracle: AuthorizationOracle,
}

#[async_trait]
impl RequestAdmission for OneRequest {
    async fn mutate(&self, write: AdmittedWrite<'_>, object: Option<&Value>) -> ApiResult<Option<Value>> {
        if is_exempt(write) {
            return Ok(None);
        }
        self.require_host(write).await?;
        let (mut changed, mut rounds) = (object.cloned(), Rounds::default());
        loop {
            let policies = &self.configurations.mutating_policies;
            policies::mutate(self, policies, write, &mut changed, &mut rounds).await?;
            let hooks = &self.configurations.mutating;
            webhooks::mutate(self, hooks, write, &mut changed, &mut rounds).await?;
            if rounds.number() > 0 || !rounds.start_second() {
                break;
            }
        }
        Ok(changed.filter(|changed| Some(changed) != object))
    }

    async fn validate(&self, write: AdmittedWrite<'_>, object: Option<&Value>) -> ApiResult<()> {
        if is_exempt(write) {
            return Ok(());
        }
        self.require_host(write).await?;
        policies::validate(self, &self.configurations.policies, write, object).await?;
        webhooks::validate(self, &self.configurations.validating, write, object).await
    }

    async fn bypassed(&self, what: &str, name: &str, why: &str, place: &str) -> bool {
        if self.request.permissions.require(BYPASS).await.is_err() {
            return false;
        }
        self.annotate(format!("bypassed.{what}.admission.capstan.dev/{place}"), name.to_owned());
        self.warn(format!(
            "{why}; the write passed it by your permission to bypass admissionwebhooks.capstan.dev"
        ));
        true
    }

    fn warn(&self, warning: String) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        // A write that starts again because another client was first calls the webhooks again.
        if notes.warnings.len() < MOST_WARNINGS && !notes.warnings.contains(&warning) {
            notes.warnings.push(warning);
        }
    }

    fn notes(&self) -> AdmissionNotes {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Calls a webhook within a span, which names the webhook and not the object.
async fn traced_call(
    hook: &Hook,
    due: &Due,
    is_mutating: bool,
    host: Option<&dyn HostCluster>,
) -> Result<Answer, CallError> {
    let span = Span::child("admission webhook", Kind::Client);
    span.set("capstan.webhook", hook.name.clone());
    span.set("capstan.mutating", is_mutating);
    let answered = span.around(hook.call(due, is_mutating, host)).await;
    if answered.is_err() {
        span.fail("the call failed");
    }
    answered
}

/// Largest number of warnings of a request. A webhook could send very many in an answer.
pub(crate) const MOST_WARNINGS: usize = 256;

/// Configurations are never sent: a mistake in one could otherwise not be repaired.
fn is_exempt(write: AdmittedWrite<'_>) -> bool {
    write.resource.group == crate::GROUP
}

impl OneRequest {
    pub(crate) fn new(
        store: Arc<ObjectStore>,
        configurations: Arc<Configurations>,
        request: AdmissionRequest,
    ) -> Self {
        let (notes, oracle) = (Mutex::default(), AuthorizationOracle::default());
        Self { store, configurations, request, notes, oracle }
    }

    pub(crate) fn store(&self) -> &ObjectStore {
        &self.store
    }

    pub(crate) fn request(&self) -> &AdmissionRequest {
        &self.request
    }

    /// Returns the inputs of expressions with the authorizer.
    pub(crate) fn with_authorizer(
        &self,
        inputs: &AdmissionInputs,
        write: AdmittedWrite<'_>,
    ) -> AdmissionInputs {
        let requested = AuthorizationQuestion {
            group: write.resource.group.clone(),
            resource: write.resource.plural.clone(),
            subresource: write.subresource.to_owned(),
            namespace: write.namespace.to_owned(),
            name: write.name.to_owned(),
            ..AuthorizationQuestion::default()
        };
        inputs.with_authorizer(&self.oracle, requested)
    }

    /// Answers the open questions of expressions. Returns true if there were any: the expressions are then evaluated
    /// again.
    pub(crate) async fn answer_open_questions(&self) -> bool {
        let open = self.oracle.take_open();
        let are_open = !open.is_empty();
        for question in open {
            let answer = self.request.permissions.answer(&question).await;
            self.oracle.answer(question, answer);
        }
        are_open
    }

    /// Adds an annotation of the audit event.
    pub(crate) fn annotate(&self, key: String, value: String) {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).annotations.insert(key, value);
    }

    /// Calls a webhook. Returns its answer, or `None` if the call failed and the write goes on. `place` is the round and
    /// the index in annotations.
    ///
    /// # Errors
    /// The refusal of the webhook; 500 for a failed call that the webhook does not ignore.
    pub(crate) async fn called(
        &self,
        hook: &Hook,
        due: &Due,
        dry_run: bool,
        is_mutating: bool,
        place: &str,
    ) -> ApiResult<Option<Answer>> {
        if dry_run && !hook.takes_dry_run {
            return Err(ApiError::bad_request(format!(
                "admission webhook {:?} does not support dry run",
                hook.name
            )));
        }
        if !self.host_decides(hook.source, "webhook", &hook.name, place).await? {
            return Ok(None);
        }
        let answer = match traced_call(hook, due, is_mutating, self.host()).await {
            Ok(answer) => answer,
            Err(error) if !hook.fails_closed => {
                tracing::warn!(webhook = hook.name, %error, "webhook failed; its failurePolicy ignores it");
                let of = if is_mutating { "mutating" } else { "validating" };
                let key = format!("failed-open.{of}.webhook.admission.k8s.io/{place}");
                self.annotate(key, hook.name.clone());
                return Ok(None);
            }
            Err(error) => {
                tracing::warn!(webhook = hook.name, %error, "webhook failed");
                if error.has_answered() {
                    return Err(error.response());
                }
                let is_bypassed = self.bypassed("webhook", &hook.name, &error.to_string(), place).await;
                return is_bypassed.then_some(None).ok_or_else(|| error.response());
            }
        };
        for (key, value) in &answer.annotations {
            self.annotate(format!("{}/{key}", hook.name), value.clone());
        }
        for warning in &answer.warnings {
            self.warn(warning.clone());
        }
        webhooks::refused(hook, &answer)?;
        Ok(Some(answer))
    }

    pub(crate) fn host(&self) -> Option<&dyn HostCluster> {
        self.configurations.host.as_deref()
    }

    /// Returns true if a configuration of this source decides; false if the user passes it because the copy of it cannot
    /// be used.
    ///
    /// # Errors
    /// 503 if the copy cannot be used, and the user may not pass it.
    pub(crate) async fn host_decides(
        &self,
        source: Source,
        what: &str,
        name: &str,
        place: &str,
    ) -> ApiResult<bool> {
        let contact = self.host().filter(|_| source == Source::Host).map(HostCluster::contact);
        let Some(HostContact::Unusable(why)) = contact else { return Ok(true) };
        let why = format!("admission {what} {name:?} of the host cluster cannot decide: {why}");
        if self.bypassed(what, name, &why, place).await { Ok(false) } else { Err(ApiError::silent_host(why)) }
    }

    /// Lets a write wait for a host whose configurations have never been read. While that host does not answer, it has
    /// no configurations.
    ///
    /// # Errors
    /// 503 if the host answers, so that they could be read, and the user may not pass them.
    async fn require_host(&self, write: AdmittedWrite<'_>) -> ApiResult<()> {
        if !self.configurations.is_host_unread || !write.resource.hosted {
            return Ok(());
        }
        let Some(host) = self.host().filter(|host| host.contact() != HostContact::Down) else {
            return Ok(());
        };
        let mut why = "the admission configurations of the host cluster have not been read yet".to_owned();
        if let HostContact::Unusable(cause) = host.contact() {
            why = format!("{why}: {cause}");
        }
        if self.bypassed("configurations", "unread", &why, "host").await {
            return Ok(());
        }
        Err(ApiError::unavailable(format!(
            "{why}; nothing was changed. See host.admission in docs/configuration.md"
        )))
    }
}
