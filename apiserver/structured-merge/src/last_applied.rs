//! Annotation with the last configuration of client-side `kubectl apply`, and the upgrade from it to server-side
//! apply.

use serde_json::{Map, Value};

use crate::compare::compare;
use crate::owned::owned;
use crate::schema::Type;
use crate::set::Set;

/// Annotation with the last configuration of client-side `kubectl apply`.
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The only field manager that is upgraded, and whose annotation is kept up to date.
pub(crate) const KUBECTL: &str = "kubectl";

/// Most bytes of the annotations of one object, keys and values together.
const MOST_BYTES: usize = 256 * 1024;

/// Returns the fields of the last client-side apply that are unchanged: a change of them is no conflict.
pub(crate) fn allowed(of: &Type, live: &Value) -> Option<Set> {
    let text = annotations(live)?.get(ANNOTATION)?.as_str()?;
    let last: Value = serde_json::from_str(text).ok()?;
    let version = |object: &Value| object.get("apiVersion").and_then(Value::as_str).map(str::to_owned);
    if version(&last)? != version(live)? {
        return None;
    }
    let change = compare(of, &last, live);
    let mut allowed = owned(of, &last);
    allowed.subtract(&change.modified);
    allowed.subtract(&change.added);
    allowed.subtract(&change.removed);
    Some(allowed)
}

/// Writes the applied configuration into the annotation, if there is one. If that makes the annotations too large,
/// the annotation is removed.
pub(crate) fn keep(object: &mut Value, config: &Value) {
    if !annotations(object).is_some_and(|annotations| annotations.contains_key(ANNOTATION)) {
        return;
    }
    let mut config = config.clone();
    if let Some(given) = annotations_mut(&mut config) {
        given.remove(ANNOTATION);
    }
    let Some(annotations) = annotations_mut(object) else { return };
    annotations.insert(ANNOTATION.to_owned(), Value::from(format!("{config}\n")));
    let size: usize =
        annotations.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if size > MOST_BYTES {
        annotations.remove(ANNOTATION);
    }
}

fn annotations(object: &Value) -> Option<&Map<String, Value>> {
    object.pointer("/metadata/annotations")?.as_object()
}

fn annotations_mut(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object.pointer_mut("/metadata/annotations")?.as_object_mut()
}
