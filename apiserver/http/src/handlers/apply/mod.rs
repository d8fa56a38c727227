//! Handler of server-side apply, a patch whose body is the configuration that the client declares.

mod duplicate_keys;

use apiserver_machinery::admission::Creation;
use apiserver_machinery::object;
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_machinery::store::{Configuration, Kind, Target, WriteOptions};
use apiserver_schema::field_errors::{FieldError, FieldPath};
use http::header::CONTENT_TYPE;
use serde_json::{Value, json};
use serde_saphyr::options::DuplicateKeyPolicy;

use super::view;
use crate::filters::authorization::UserPermissions;
use crate::request::Call;
use crate::request::request_info::ResourcePath;
use crate::request::{json as decoder, yaml as reader};
use crate::response::negotiation;
use crate::response::{self, HttpResponse};
use crate::state::ApiServer;

/// Media type of the configuration in a server-side apply.
pub(super) const MEDIA_TYPE: &str = "application/apply-patch+yaml";

/// Returns true if a patch is a server-side apply.
pub(super) fn is_meant(call: &Call) -> bool {
    call.header(&CONTENT_TYPE).split(';').next().unwrap_or_default().trim() == MEDIA_TYPE
}

/// Returns the configuration in the body, and the options of its write.
///
/// # Errors
/// 400 for an invalid configuration; 422 for options that it may not have, or that are missing.
pub(super) fn read(call: &Call) -> ApiResult<(Configuration, WriteOptions)> {
    let mut errors = Vec::new();
    if call.query.text("fieldManager").is_empty() {
        errors.push(FieldError::required(FieldPath::new("fieldManager"), "is required for apply patch"));
    }
    let options = call.checked_options("PatchOptions", errors)?;
    let (fields, duplicates) = decode(&call.body)?;
    Ok((Configuration { fields, force: call.query.flag("force"), duplicates }, options))
}

/// Applies the body to the object or its status.
pub(super) async fn serve(
    server: &ApiServer,
    call: &Call,
    kind: Kind<'_>,
    path: &ResourcePath,
    target: Target,
) -> ApiResult<HttpResponse> {
    let form = negotiation::form(&call.headers, &call.query)?;
    let (configuration, options) = read(call)?;
    let permissions = UserPermissions::new(server, call);
    let creation = Creation { namespace: &path.namespace, caller: call.caller(), permissions: &permissions };
    let objects = &server.parts.objects;
    let applied = objects.apply(kind, &path.name, &configuration, target, &options, &creation).await?;
    let code = if applied.created { 201 } else { 200 };
    let mut answer = view::written(code, kind.resource, applied.written.object, form, &call.query)?;
    response::warn(&mut answer, &applied.written.warnings);
    Ok(answer)
}

/// Decodes a configuration in YAML, which includes JSON; returns it with the warnings about duplicate keys.
///
/// # Errors
/// 400 for any other text.
fn decode(body: &[u8]) -> ApiResult<(Value, Vec<String>)> {
    // Most clients send JSON, and the JSON decoder is ten times as fast.
    match decoder::parse(body) {
        Ok((value, duplicates)) if duplicates.is_empty() => Ok((checked(value)?, Vec::new())),
        _ => {
            let text = std::str::from_utf8(body).map_err(|error| malformed(&error))?;
            let mut options = reader::options();
            options.duplicate_keys = DuplicateKeyPolicy::LastWins;
            let value = serde_saphyr::from_str_with_options(text, options.clone())
                .map_err(|error| malformed(&error))?;
            Ok((checked(value)?, duplicate_keys::warnings(text, options)))
        }
    }
}

/// Checks that a configuration is a map, or empty.
fn checked(mut value: Value) -> ApiResult<Value> {
    object::whole_numbers(&mut value);
    let found = match &value {
        Value::Null => return Ok(json!({})),
        Value::Object(_) if object::is_too_deep(&value) => {
            return Err(malformed(&"nested too deep"));
        }
        Value::Object(_) => return Ok(value),
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Number(_) => "number",
        Value::Bool(_) => "bool",
    };
    Err(ApiError::bad_request(format!(
        "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go value \
         of type map[string]interface {{}}"
    )))
}

fn malformed(error: &dyn std::fmt::Display) -> ApiError {
    ApiError::bad_request(format!("error decoding YAML: error converting YAML to JSON: yaml: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_are_yaml_or_json() {
        let read = |text: &str| decode(text.as_bytes()).unwrap().0;
        assert_eq!(read("a: {b: 1}\nc: [x]"), json!({"a": {"b": 1}, "c": ["x"]}));
        assert_eq!(read(r#"{"a":1}"#), json!({"a": 1}));
        assert_eq!(read(""), json!({}));
        for text in ["a: [1", "- 1", "5", "\"x\"", "{\"a\":"] {
            let error = decode(text.as_bytes()).unwrap_err();
            assert!(error.code == 400 && error.message.starts_with("error decoding YAML: "), "{error}");
        }
    }

    #[test]
    fn the_last_of_duplicate_keys_wins() {
        let body = "spec:\n  replicas: 1\n  replicas: 2\n";
        let (value, texts) = decode(body.as_bytes()).unwrap();
        assert_eq!(value, json!({"spec": {"replicas": 2}}));
        assert_eq!(texts, [r#"line 3: key "replicas" already set in map"#]);
    }
}
