//! Decisions about one provisional namespace. Pure.

use std::collections::BTreeMap;

use apiserver_machinery::store::PROVISIONAL;
use k8s_openapi::api::core::v1::{Namespace, NamespaceCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use kube::api::ObjectMeta;

use crate::write_back::Refusal;

/// Begin of the labels that the Namespace in the host gets. Policies of the host select namespaces by others, and a user of
/// the direct endpoint must not choose these.
const OWN_LABELS: &str = "capstan.dev/";

/// Finalizer that lets the namespace controller empty a namespace of Capstan's own store.
const FINALIZER: &str = "kubernetes";

/// Condition of a namespace that the host does not let Capstan create.
const FORBIDDEN: &str = "WriteBackForbidden";

/// Condition of a namespace that the host does not accept.
const REFUSED: &str = "WriteBackRefused";

/// Step for a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The host deletes a namespace of this name. It may be created when that is gone.
    Wait,
    /// The host does not have it.
    Create,
    /// The host has it.
    HandOver,
}

/// Returns true for a Namespace of Capstan's own store that the host is to have.
pub(super) fn is_provisional(namespace: &Namespace) -> bool {
    namespace.annotations().contains_key(PROVISIONAL) && namespace.metadata.deletion_timestamp.is_none()
}

/// Returns the step, given the namespace of the same name in the host.
pub(super) fn step(found: Option<&Namespace>) -> Step {
    match found {
        None => Step::Create,
        Some(found) if found.metadata.deletion_timestamp.is_some() => Step::Wait,
        Some(_) => Step::HandOver,
    }
}

/// Returns the Namespace for the host.
pub(super) fn copy(namespace: &Namespace) -> Namespace {
    let labels = namespace.labels().iter().filter(|(key, _)| key.starts_with(OWN_LABELS));
    let labels: BTreeMap<String, String> = labels.map(|(key, value)| (key.clone(), value.clone())).collect();
    let metadata = ObjectMeta {
        name: Some(namespace.name_any()),
        labels: Some(labels).filter(|labels| !labels.is_empty()),
        ..ObjectMeta::default()
    };
    Namespace { metadata, ..Namespace::default() }
}

/// Returns the Namespace without the finalizer, so that its deletion takes no objects along.
pub(super) fn without_finalizer(namespace: &Namespace) -> Namespace {
    let mut namespace = namespace.clone();
    namespace.metadata.managed_fields = None;
    let finalizers = namespace.spec.as_mut().and_then(|spec| spec.finalizers.as_mut());
    if let Some(finalizers) = finalizers {
        finalizers.retain(|it| it != FINALIZER);
    }
    namespace
}

/// Returns the refusal in an answer to a create that only a person can end.
pub(super) fn refusal(name: &str, error: &kube::Error) -> Option<Refusal> {
    let kube::Error::Api(status) = error else { return None };
    let (reason, message) = match status.code {
        403 => (
            FORBIDDEN,
            format!(
                "{}. Apply the output of `capstan host manifests --create-namespaces`, or create the namespace {name} in \
                 the host cluster",
                status.message
            ),
        ),
        400 | 422 => (
            REFUSED,
            format!(
                "The host cluster does not accept the namespace {name}: {}. Create it there yourself",
                status.message
            ),
        ),
        _ => return None,
    };
    Some(Refusal { reason, message })
}

/// Returns the Namespace with the condition of a refusal; `None` if it has it.
pub(super) fn shown(namespace: &Namespace, refusal: &Refusal, now: Time) -> Option<Namespace> {
    let mut status = namespace.status.clone().unwrap_or_default();
    let mut conditions = status.conditions.take().unwrap_or_default();
    let known = conditions.iter().find(|it| it.type_ == refusal.reason);
    if known.is_some_and(|known| known.message.as_ref() == Some(&refusal.message)) {
        return None;
    }
    let since = known.and_then(|known| known.last_transition_time.clone()).unwrap_or(now);
    conditions.retain(|it| it.type_ != FORBIDDEN && it.type_ != REFUSED);
    conditions.push(NamespaceCondition {
        type_: refusal.reason.to_owned(),
        status: "True".to_owned(),
        reason: Some(refusal.reason.to_owned()),
        message: Some(refusal.message.clone()),
        last_transition_time: Some(since),
    });
    status.conditions = Some(conditions);
    let mut shown = namespace.clone();
    shown.metadata.managed_fields = None;
    shown.status = Some(status);
    Some(shown)
}
