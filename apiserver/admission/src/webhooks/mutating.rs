//! Mutating webhooks: one after the other, and a second time if their objects were changed after them.

use apiserver_machinery::admission_control::AdmittedWrite;
use apiserver_machinery::field_validation::FieldValidation;
use apiserver_machinery::patch::Patch;
use apiserver_machinery::status::{ApiError, ApiResult};
use serde_json::{Value, json};

use super::hook::{Due, Hook};
use crate::matching::Subject;
use crate::one_request::OneRequest;
use crate::review;
use crate::rounds::Rounds;

/// Calls the webhooks that match a write and are due in this round. They change the object.
///
/// # Errors
/// The refusal of a webhook; 500 for a webhook that fails and does not ignore it.
pub(crate) async fn mutate(
    admission: &OneRequest,
    hooks: &[Hook],
    write: AdmittedWrite<'_>,
    object: &mut Option<Value>,
    rounds: &mut Rounds,
) -> ApiResult<()> {
    for (index, hook) in hooks.iter().enumerate() {
        if !rounds.is_hook_due(index) {
            continue;
        }
        let subject = Subject { store: admission.store(), write, object: object.as_ref() };
        let Some(due) = hook.due(admission, subject).await? else { continue };
        let place = format!("round_{}_index_{index}", rounds.number());
        if let Some(changed) = call(admission, hook, &due, write, &place).await? {
            *object = Some(changed);
            rounds.hook_changed();
        }
        if hook.is_reinvoked {
            rounds.hook_called(index);
        }
    }
    Ok(())
}

/// Calls one webhook. Returns the object if the webhook has changed it.
async fn call(
    admission: &OneRequest,
    hook: &Hook,
    due: &Due,
    write: AdmittedWrite<'_>,
    place: &str,
) -> ApiResult<Option<Value>> {
    let answered = admission.called(hook, due, write.dry_run, true, place).await;
    let patch = answered?.and_then(|answer| answer.patch);
    let changed = patch.as_ref().map(|patch| apply(hook, due, write, patch)).transpose()?.flatten();
    let mutated =
        json!({"configuration": hook.configuration, "webhook": hook.name, "mutated": changed.is_some()});
    admission.annotate(format!("mutation.webhook.admission.k8s.io/{place}"), mutated.to_string());
    Ok(changed)
}

/// Applies the patch of a webhook. Returns the object in the version of the request; `None` if the patch changes
/// nothing.
fn apply(hook: &Hook, due: &Due, write: AdmittedWrite<'_>, patch: &Value) -> ApiResult<Option<Value>> {
    let Some(object) = &due.objects.object else {
        return Err(ApiError::internal(format!(
            "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
            hook.name
        )));
    };
    let failed = |why: &dyn std::fmt::Display| {
        ApiError::internal(format!("the patch of admission webhook {:?} cannot be applied: {why}", hook.name))
    };
    let patched = Patch::json(patch.clone(), &[], FieldValidation::Ignore).attempt(object);
    let patched = patched.map_err(|error| failed(&error))?;
    for field in ["apiVersion", "kind"] {
        if patched.get(field) != object.get(field) {
            return Err(failed(&format!("it changes {field}")));
        }
    }
    if patched == *object {
        return Ok(None);
    }
    review::from_version(write, &due.matched, patched).map(Some)
}
