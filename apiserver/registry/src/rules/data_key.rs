//! Keys of the data of Secrets and ConfigMaps, and the field `immutable` of both.

use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::{Value, json};

/// Returns the error of a key that is no valid name of a file.
pub(crate) fn validate(path: &FieldPath, key: &str) -> Option<FieldError> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let valid =
        !key.is_empty() && key.len() <= 253 && key.chars().all(legal) && key != "." && !key.starts_with("..");
    let detail = "a valid config key must consist of alphanumeric characters, '-', '_' or '.', and not \
                  start with '..'";
    (!valid).then(|| FieldError::invalid(path.key(key), &json!(key), detail))
}

/// Returns the errors of a change of an immutable object in one of `fields`.
pub(crate) fn immutable(new: &Value, old: &Value, fields: &[&str]) -> Vec<FieldError> {
    if old.get("immutable") != Some(&json!(true)) {
        return Vec::new();
    }
    let detail = "field is immutable when `immutable` is set";
    let kept = new.get("immutable") == Some(&json!(true));
    let unset = (!kept).then(|| FieldError::forbidden(FieldPath::new("immutable"), detail));
    let changed = fields.iter().filter(|field| new.get(**field) != old.get(**field));
    unset
        .into_iter()
        .chain(changed.map(|field| FieldError::forbidden(FieldPath::new(*field), detail)))
        .collect()
}
