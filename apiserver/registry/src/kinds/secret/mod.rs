//! Secret: strategy, validation, table and protobuf form.

mod credentials;
mod kinds;
mod table;

use apiserver_machinery::protobuf::{Field, METADATA, Shape};
use apiserver_machinery::related::ObjectReader;
use apiserver_machinery::status::ApiResult;
use apiserver_machinery::strategy::Strategy;
use apiserver_machinery::table::OwnTable;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::rules::data_key;

/// Largest data of a Secret: upstream's limit. Unit: bytes.
const LARGEST: usize = 1024 * 1024;

/// Strategy of Secret. Errors name keys, never values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SecretStrategy;

#[async_trait]
impl Strategy for SecretStrategy {
    /// Writes plain texts into the encoded data, so that the stored form is unique. The default type is `Opaque`.
    fn canonicalize(&self, new: &mut Value) {
        let Some(root) = new.as_object_mut() else { return };
        if root.get("type").is_none_or(|kind| kind.is_null() || kind == "") {
            root.insert("type".to_owned(), json!("Opaque"));
        }
        let plain = if are_texts(root, "data") && are_texts(root, "stringData") {
            root.remove("stringData")
        } else {
            None
        };
        if let Some(data) = root.get_mut("data").and_then(Value::as_object_mut) {
            data.values_mut().for_each(unwrap_lines);
        }
        if let Some(Value::Object(plain)) = plain.filter(|plain| plain != &json!({})) {
            let data = root.entry("data").or_insert_with(|| Value::Object(Map::new()));
            for (key, value) in plain {
                let encoded = STANDARD.encode(value.as_str().unwrap_or_default());
                data[key] = json!(encoded);
            }
        }
        if root.get("data") == Some(&json!({})) {
            root.remove("data");
        }
    }

    fn drops_nulls(&self) -> bool {
        true
    }

    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        validate_data(new, &mut errors);
        if errors.is_empty() {
            kinds::validate(new, &mut errors);
        }
        if let Some(old) = old {
            validate_change(new, old, &mut errors);
        }
        errors
    }

    async fn deletion_warnings_with(
        &self,
        object: &Value,
        others: &dyn ObjectReader,
    ) -> ApiResult<Vec<String>> {
        Ok(credentials::warning(object, others).await?.into_iter().collect())
    }

    fn allow_unconditional_update(&self) -> bool {
        true
    }

    fn table(&self) -> Option<OwnTable> {
        Some(table::TABLE)
    }

    fn protobuf(&self) -> Option<&'static [Field]> {
        Some(MESSAGE)
    }
}

/// Returns true if a field is a map of texts, in which a null stands for an empty text. Other values stay as they are, and
/// validation refuses them.
fn are_texts(root: &Map<String, Value>, field: &str) -> bool {
    match root.get(field) {
        None | Some(Value::Null) => true,
        Some(Value::Object(texts)) => texts.values().all(|text| text.is_string() || text.is_null()),
        Some(_) => false,
    }
}

/// Removes line breaks from encoded values. Encoders wrap long lines, and YAML keeps the breaks. Other servers accept
/// such values.
fn unwrap_lines(value: &mut Value) {
    if let Value::String(text) = value {
        text.retain(|letter| letter != '\n' && letter != '\r');
    }
}

/// Returns the decoded value of a key of `data`, if it is valid base64.
fn decoded(secret: &Value, key: &str) -> Option<Vec<u8>> {
    STANDARD.decode(secret.get("data")?.get(key)?.as_str()?).ok()
}

fn validate_data(new: &Value, errors: &mut Vec<FieldError>) {
    let path = FieldPath::new("data");
    let mut total = 0;
    for (key, value) in new.get("data").and_then(Value::as_object).into_iter().flatten() {
        errors.extend(data_key::validate(&path, key));
        match STANDARD.decode(value.as_str().unwrap_or_default()) {
            Ok(decoded) => total += decoded.len(),
            Err(_) => {
                let detail = "must be base64; use stringData for plain text";
                errors.push(FieldError::invalid(path.key(key), &hidden(), detail));
            }
        }
    }
    if total > LARGEST {
        errors.push(FieldError::too_long(path, 1024 * 1024));
    }
}

/// Replacement of secret values in messages.
fn hidden() -> Value {
    json!("(hidden)")
}

fn validate_change(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    errors.extend(crate::rules::immutable::field(new, old, "type"));
    errors.extend(data_key::immutable(new, old, &["data"]));
}

/// Protobuf message.
const MESSAGE: &[Field] = &[
    METADATA,
    Field::new(2, "data", Shape::Blobs),
    Field::new(3, "type", Shape::Text),
    Field::new(4, "stringData", Shape::Texts),
    Field::pointer(5, "immutable", Shape::Boolean),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(new: &Value, old: &Value) -> Vec<String> {
        SecretStrategy.validate(new, Some(old)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn string_data_becomes_data_and_errors_contain_no_value() {
        let mut secret = json!({"stringData": {"a": "hunter2"}, "data": {"b": "***"}});
        SecretStrategy.canonicalize(&mut secret);
        assert_eq!(secret, json!({"type": "Opaque", "data": {"a": "aHVudGVyMg==", "b": "***"}}));
        let errors = SecretStrategy.validate(&secret, None);
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0].field.as_str(), "data[b]");
        assert!(!errors[0].body.contains("***"), "{}", errors[0].body);
    }

    #[test]
    fn values_of_wrong_types_stay_for_validation() {
        let good = json!({"a": "hunter2"});
        for (data, plain) in [
            (json!("text"), good.clone()),
            (json!(["text"]), good.clone()),
            (json!({"b": ["text"]}), good.clone()),
            (json!({}), json!("text")),
            (json!({}), json!({"a": ["hunter2"]})),
            (json!({}), json!({"a": 1})),
        ] {
            let mut secret = json!({"type": "Opaque", "data": data, "stringData": plain});
            SecretStrategy.canonicalize(&mut secret);
            assert_eq!(secret["stringData"], plain, "{data}");
        }
        let mut secret = json!({"type": ["a"]});
        SecretStrategy.canonicalize(&mut secret);
        assert_eq!(secret, json!({"type": ["a"]}));
        let mut secret = json!({"data": null, "stringData": {"a": null}});
        SecretStrategy.canonicalize(&mut secret);
        assert_eq!(secret, json!({"type": "Opaque", "data": {"a": ""}}));
    }

    #[test]
    fn wrapped_base64_is_accepted_and_stored_in_one_line() {
        let mut secret = json!({"data": {"a": "aHVu\n dGVy", "b": "aHVu\r\ndGVyMg==\n"}});
        SecretStrategy.canonicalize(&mut secret);
        assert_eq!(secret["data"]["b"], "aHVudGVyMg==");
        let errors = SecretStrategy.validate(&secret, None);
        assert_eq!(errors.iter().map(|error| error.field.as_str()).collect::<Vec<_>>(), ["data[a]"]);
    }

    #[test]
    fn the_type_is_immutable_and_defaults_to_opaque() {
        let old = json!({"type": "capstan.dev/cloud"});
        let mut new = json!({"data": {"a": "YQ=="}});
        SecretStrategy.canonicalize(&mut new);
        assert_eq!(errors(&new, &old), ["type: Invalid value: \"Opaque\": field is immutable"]);
    }

    #[test]
    fn an_immutable_secret_cannot_be_changed() {
        let old = json!({"type": "Opaque", "immutable": true, "data": {"a": "YQ=="}});
        let mut new = old.clone();
        new["metadata"] = json!({"labels": {"a": "b"}});
        assert_eq!(errors(&new, &old), Vec::<String>::new());
        new["immutable"] = json!(false);
        new["data"]["a"] = json!("Yg==");
        let detail = "Forbidden: field is immutable when `immutable` is set";
        assert_eq!(errors(&new, &old), [format!("immutable: {detail}"), format!("data: {detail}")]);
    }

    #[test]
    fn keys_must_be_valid_file_names() {
        for (key, good) in [("a.b-c_D", true), ("..data", false), (".", false), ("a/b", false), ("", false)] {
            let secret = json!({"type": "Opaque", "data": {key: ""}});
            assert_eq!(SecretStrategy.validate(&secret, None).is_empty(), good, "{key:?}");
        }
    }
}
