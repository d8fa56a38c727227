//! Secret fields in recorded bodies: their values are replaced.

use serde_json::Value;

/// Names of fields whose texts are secrets in kinds that are no Secrets: files and users of machines, tokens with
/// which machines join, and user data.
const SECRET: [&str; 6] = ["certificateKey", "content", "passwd", "tlsBootstrapToken", "token", "userData"];

/// Annotation in which `kubectl apply` keeps the whole object as a text.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

const REPLACEMENT: &str = "REDACTED";

/// Replaces the texts of secret fields, also in the annotation of `kubectl apply` and in the operations of a JSON
/// patch.
pub(super) fn redact(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(redact),
        Value::Object(fields) => {
            let path = fields.get("path").and_then(Value::as_str).unwrap_or_default();
            let is_secret_patch =
                path.rsplit_once('/').is_some_and(|(_, field)| is_secret(field)) && fields.contains_key("op");
            for (name, value) in fields.iter_mut() {
                match value {
                    Value::String(text) if is_secret(name) || (is_secret_patch && name == "value") => {
                        REPLACEMENT.clone_into(text);
                    }
                    Value::String(text) if name == LAST_APPLIED => redact_text(text),
                    other => redact(other),
                }
            }
        }
        _ => {}
    }
}

fn is_secret(field: &str) -> bool {
    SECRET.contains(&field)
}

/// Redacts an object in a text. A text that is no JSON may be anything.
fn redact_text(text: &mut String) {
    *text = match serde_json::from_str::<Value>(text) {
        Ok(mut object) => {
            redact(&mut object);
            object.to_string()
        }
        Err(_) => REPLACEMENT.to_owned(),
    };
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secret_texts_are_replaced_in_objects_lists_annotations_and_patches() {
        let spec = json!({"files": [{"path": "/etc/a", "content": "hunter2"}],
            "users": [{"name": "core", "passwd": "hunter2"}],
            "joinConfiguration": {"discovery": {"bootstrapToken": {"token": "hunter2"}, "tlsBootstrapToken": "hunter2"}}});
        let applied = json!({"spec": spec}).to_string();
        let object = json!({"metadata": {"annotations": {LAST_APPLIED: applied}}, "spec": spec});
        let patch = json!([{"op": "replace", "path": "/spec/files/0/content", "value": "hunter2"},
            {"op": "add", "path": "/spec/files/-", "value": {"content": "hunter2"}}]);
        let odd = json!({"metadata": {"annotations": {LAST_APPLIED: "hunter2"}}});
        for mut value in [object.clone(), json!({"items": [object]}), patch, odd] {
            redact(&mut value);
            let text = value.to_string();
            assert!(!text.contains("hunter2") && text.contains(REPLACEMENT), "{text}");
        }
    }

    #[test]
    fn other_fields_stay() {
        let value = json!({"spec": {"files": [{"path": "/content"}], "token": {"name": "a"}, "replicas": 3},
            "op": 1, "path": "/a/content"});
        let mut redacted = value.clone();
        redact(&mut redacted);
        assert_eq!(redacted, value);
    }
}
