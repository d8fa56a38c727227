//! Validating webhooks: all that match are called at once.

use apiserver_machinery::admission_control::AdmittedWrite;
use apiserver_machinery::status::ApiResult;
use futures::future::join_all;
use serde_json::Value;

use super::answer;
use super::hook::Hook;
use crate::matching::Subject;
use crate::one_request::OneRequest;

/// Calls the webhooks that match a write.
///
/// # Errors
/// The first refusal, in the order of the webhooks; 500 for a webhook that fails and does not ignore it.
pub(crate) async fn validate(
    admission: &OneRequest,
    hooks: &[Hook],
    write: AdmittedWrite<'_>,
    object: Option<&Value>,
) -> ApiResult<()> {
    let subject = Subject { store: admission.store(), write, object };
    let mut calls = Vec::new();
    for hook in hooks {
        if let Some(due) = hook.due(admission, subject).await? {
            calls.push((hook, due));
        }
    }
    let called = calls.iter().enumerate().map(async |(index, (hook, due))| {
        admission.called(hook, due, write.dry_run, false, &format!("round_0_index_{index}")).await.map(|_| ())
    });
    join_all(called).await.into_iter().collect()
}

/// Returns the refusal of an answer, if it is one.
pub(crate) fn refused(hook: &Hook, answer: &answer::Answer) -> ApiResult<()> {
    match &answer.refusal {
        Some(status) => Err(answer::refusal(&hook.name, status)),
        None => Ok(()),
    }
}
