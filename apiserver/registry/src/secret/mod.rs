//! Secret.

use apiserver_machinery::field_errors::{FieldError, FieldPath};
use apiserver_machinery::strategy::Strategy;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

/// Largest data of a Secret: upstream's limit.
const LARGEST: usize = 1024 * 1024;

/// Secret's own rules.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SecretStrategy;

impl Strategy for SecretStrategy {
    /// Plain texts are written into the encoded data; what is stored has one form.
    fn prepare(&self, new: &mut Value, _old: Option<&Value>) {
        let Some(root) = new.as_object_mut() else { return };
        root.entry("type").or_insert_with(|| json!("Opaque"));
        let Some(Value::Object(plain)) = root.remove("stringData") else { return };
        let data = root.entry("data").or_insert_with(|| Value::Object(Map::new()));
        if let Some(data) = data.as_object_mut() {
            for (key, value) in plain {
                let encoded = STANDARD.encode(value.as_str().unwrap_or_default());
                data.insert(key, json!(encoded));
            }
        }
    }

    /// Faults name the key, never the value.
    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut faults = Vec::new();
        let path = FieldPath::new("data");
        let mut total = 0;
        for (key, value) in new.get("data").and_then(Value::as_object).into_iter().flatten() {
            let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            if key.is_empty()
                || key.len() > 253
                || !key.chars().all(legal)
                || matches!(key.as_str(), "." | "..")
            {
                let detail = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
                faults.push(FieldError::invalid(path.key(key), &json!(key), detail));
            }
            match STANDARD.decode(value.as_str().unwrap_or_default()) {
                Ok(decoded) => total += decoded.len(),
                Err(_) => {
                    let shown = json!("(hidden)");
                    faults.push(FieldError::invalid(
                        path.key(key),
                        &shown,
                        "must be base64; use stringData for plain text",
                    ));
                }
            }
        }
        if total > LARGEST {
            faults.push(FieldError::too_long(path.clone(), 1024 * 1024));
        }
        if let Some(old) = old {
            faults.extend(crate::immutable::field(new, old, "type"));
            if old.get("immutable") == Some(&json!(true)) {
                if new.get("immutable") != Some(&json!(true)) {
                    let detail = "field is immutable when `immutable` is set";
                    faults.push(FieldError::forbidden(FieldPath::new("immutable"), detail));
                }
                if new.get("data") != old.get("data") {
                    faults.push(FieldError::forbidden(path, "field is immutable when `immutable` is set"));
                }
            }
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_becomes_data_and_faults_show_no_value() {
        let mut secret = json!({"stringData": {"a": "hunter2"}, "data": {"b": "***"}});
        SecretStrategy.prepare(&mut secret, None);
        assert_eq!(secret, json!({"type": "Opaque", "data": {"a": "aHVudGVyMg==", "b": "***"}}));
        let faults = SecretStrategy.validate(&secret, None);
        assert_eq!(faults.len(), 1);
        assert_eq!(faults[0].field.as_str(), "data[b]");
        assert!(!faults[0].body.contains("***"), "{}", faults[0].body);
    }
}
