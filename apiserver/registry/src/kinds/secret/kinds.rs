//! Required data of the well-known types of Secrets.

use apiserver_machinery::object;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::Value;

use super::{decoded, hidden};

/// Annotation with the service account of a token.
const SERVICE_ACCOUNT: &str = "kubernetes.io/service-account.name";

/// Adds an error for everything that the Secret's type requires and its data lacks.
pub(super) fn validate(secret: &Value, errors: &mut Vec<FieldError>) {
    match secret.get("type").and_then(Value::as_str).unwrap_or_default() {
        "kubernetes.io/tls" => missing(secret, &["tls.crt", "tls.key"], errors),
        "kubernetes.io/basic-auth" => {
            let keys = ["username", "password"];
            // Either key can be absent, and both values can be empty.
            if keys.iter().all(|key| decoded(secret, key).is_none()) {
                missing(secret, &keys, errors);
            }
        }
        "kubernetes.io/ssh-auth" if decoded(secret, "ssh-privatekey").is_none_or(|key| key.is_empty()) => {
            errors.push(FieldError::required(FieldPath::new("data").key("ssh-privatekey"), ""));
        }
        "kubernetes.io/dockercfg" => json_object(secret, ".dockercfg", errors),
        "kubernetes.io/dockerconfigjson" => json_object(secret, ".dockerconfigjson", errors),
        "kubernetes.io/service-account-token" => {
            let account = object::at(secret, "metadata.annotations").and_then(|all| all.get(SERVICE_ACCOUNT));
            if account.and_then(Value::as_str).unwrap_or_default().is_empty() {
                let path = FieldPath::new("metadata.annotations").key(SERVICE_ACCOUNT);
                errors.push(FieldError::required(path, ""));
            }
        }
        _ => {}
    }
}

fn missing(secret: &Value, keys: &[&str], errors: &mut Vec<FieldError>) {
    let absent = keys.iter().filter(|key| decoded(secret, key).is_none());
    errors.extend(absent.map(|key| FieldError::required(FieldPath::new("data").key(key), "")));
}

fn json_object(secret: &Value, key: &str, errors: &mut Vec<FieldError>) {
    let path = FieldPath::new("data").key(key);
    match decoded(secret, key) {
        None => errors.push(FieldError::required(path, "")),
        Some(bytes) if !serde_json::from_slice::<Value>(&bytes).is_ok_and(|value| value.is_object()) => {
            errors.push(FieldError::invalid(path, &hidden(), "must be a JSON object"));
        }
        Some(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::json;

    use super::*;

    #[test]
    fn each_type_requires_its_keys() {
        let encoded = |text: &str| json!(STANDARD.encode(text));
        let table = [
            ("Opaque", json!({}), vec![]),
            ("kubernetes.io/tls", json!({"tls.crt": "YQ=="}), vec!["data[tls.key]"]),
            ("kubernetes.io/tls", json!({"tls.crt": "YQ==", "tls.key": ""}), vec![]),
            ("kubernetes.io/basic-auth", json!({"password": ""}), vec![]),
            ("kubernetes.io/basic-auth", json!({}), vec!["data[username]", "data[password]"]),
            ("kubernetes.io/ssh-auth", json!({"ssh-privatekey": ""}), vec!["data[ssh-privatekey]"]),
            ("kubernetes.io/dockerconfigjson", json!({".dockerconfigjson": encoded("{}")}), vec![]),
            (
                "kubernetes.io/dockerconfigjson",
                json!({".dockerconfigjson": encoded("hunter2")}),
                vec!["data[.dockerconfigjson]"],
            ),
            (
                "kubernetes.io/service-account-token",
                json!({}),
                vec!["metadata.annotations[kubernetes.io/service-account.name]"],
            ),
        ];
        for (kind, data, expected) in table {
            let mut errors = Vec::new();
            validate(&json!({"type": kind, "data": data}), &mut errors);
            let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
            assert_eq!(fields, expected, "{kind}");
            assert!(errors.iter().all(|error| !error.body.contains("hunter2")), "{kind}");
        }
    }
}
