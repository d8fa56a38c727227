//! Secret fields in recorded bodies: their values are replaced.

use serde_json::{Map, Value};

/// Names of fields whose texts are secrets in kinds that are no Secrets: files and users of machines, tokens with
/// which machines join, and settings that become user data.
const SECRET: [&str; 7] =
    ["additionalConfig", "certificateKey", "content", "passwd", "tlsBootstrapToken", "token", "userData"];

/// Names of lists whose entries have such fields.
const OF_SECRETS: [&str; 2] = ["files", "users"];

/// Annotation in which `kubectl apply` keeps the whole object as a text.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

const REPLACEMENT: &str = "REDACTED";

/// API groups and resources with such fields. Errors of their validation may quote them. `*` stands for all resources.
const QUOTED: [(&str, &str); 3] = [
    ("bootstrap.cluster.x-k8s.io", "*"),
    ("controlplane.cluster.x-k8s.io", "*"),
    // Its patches have values of such fields.
    ("cluster.x-k8s.io", "clusterclasses"),
];

/// Returns true if the error about a body of this resource may quote a secret.
pub(super) fn is_quoted(group: &str, resource: &str) -> bool {
    QUOTED.iter().any(|(of, name)| *of == group && (*name == "*" || *name == resource))
}

/// Names of the last three fields on the way to a value, the innermost last. An item of a list has the name `-` or its
/// index.
type Place<'a> = [&'a str; 3];

/// Replaces the texts of secret fields, also in the annotation of `kubectl apply` and in the operations of a JSON
/// patch.
pub(super) fn redact(value: &mut Value) {
    // A text is no object, and may be anything.
    if value.is_string() {
        *value = REPLACEMENT.into();
    }
    redact_at(value, [""; 3]);
}

fn redact_at(value: &mut Value, place: Place<'_>) {
    match value {
        // The request is refused: a text is expected. What was sent instead can have the secret anywhere.
        Value::Array(_) | Value::Object(_) if is_secret_text(place) => *value = REPLACEMENT.into(),
        Value::Array(items) => items.iter_mut().for_each(|item| redact_at(item, inside(place, "-"))),
        Value::Object(fields) => {
            let target = target(fields);
            for (name, value) in fields.iter_mut() {
                if let Some([of, field, last]) = target.as_ref().filter(|_| name == "value") {
                    redact_at(value, [of, field, last]);
                }
                redact_at(value, inside(place, name));
            }
        }
        Value::String(text) if place[2] == LAST_APPLIED => redact_text(text),
        Value::String(text) if is_secret(place) => REPLACEMENT.clone_into(text),
        _ => {}
    }
}

fn inside<'a>([_, of, field]: Place<'a>, name: &'a str) -> Place<'a> {
    [of, field, name]
}

/// Returns the names of the last three fields in the path of a JSON patch's operation, if this is one.
fn target(fields: &Map<String, Value>) -> Option<[String; 3]> {
    let path = fields.get("path")?.as_str().filter(|_| fields.contains_key("op"))?;
    let mut names = path.rsplit('/').map(|name| name.replace("~1", "/").replace("~0", "~"));
    let mut next = || names.next().unwrap_or_default();
    let (last, field, of) = (next(), next(), next());
    // A path below a text is refused, and its value can be the secret.
    let rest = names.find(|name| is_secret_text(["", "", name]));
    match [&last, &field, &of].into_iter().find(|name| is_secret_text(["", "", name])).cloned().or(rest) {
        Some(secret) => Some([of, field, secret]),
        None => Some([of, field, last]),
    }
}

/// Returns true if this is the name of an item of a list.
fn is_item(name: &str) -> bool {
    name == "-" || name.parse::<usize>().is_ok()
}

/// Returns true if a valid value is always a text. A `token` is also an object in some kinds.
fn is_secret_text([_, _, name]: Place<'_>) -> bool {
    name != "token" && SECRET.contains(&name)
}

fn is_secret(place: Place<'_>) -> bool {
    match place {
        // A text in the place of an object with secrets.
        [_, of, item] if OF_SECRETS.contains(&of) && is_item(item) => true,
        [_, _, of] if OF_SECRETS.contains(&of) => true,
        // Credentials in the kubeconfig of a discovery.
        ["authProvider", "config", _] | ["env", _, "value"] => true,
        [_, _, name] => SECRET.contains(&name),
    }
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
        let object = json!({"metadata": {"annotations": {LAST_APPLIED: applied.clone()}}, "spec": spec});
        let patch = json!([{"op": "replace", "path": "/spec/files/0/content", "value": "hunter2"},
            {"op": "add", "path": "/spec/files/-", "value": {"content": "hunter2"}}]);
        let annotation = json!([{"op": "add", "value": applied,
            "path": "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration"}]);
        let odd = json!({"metadata": {"annotations": {LAST_APPLIED: "hunter2"}}});
        for mut value in [object.clone(), json!({"items": [object]}), patch, annotation, odd] {
            redact(&mut value);
            let text = value.to_string();
            assert!(!text.contains("hunter2") && text.contains(REPLACEMENT), "{text}");
        }
    }

    #[test]
    fn settings_with_credentials_are_replaced_in_objects_and_patches() {
        let user = json!({"authProvider": {"name": "oidc", "config": {"client-secret": "hunter2"}},
            "exec": {"command": "login", "env": [{"name": "PASSWORD", "value": "hunter2"}]}});
        let object = json!({"spec": {"ignition": {"containerLinuxConfig": {"additionalConfig": "hunter2"}},
            "joinConfiguration": {"discovery": {"file": {"kubeConfig": {"user": user}}}}}});
        let at = |path: &str, value: Value| json!([{"op": "add", "path": path, "value": value}]);
        for mut value in [
            object,
            at("/user/authProvider/config", json!({"client-secret": "hunter2"})),
            at("/user/authProvider/config/client-secret", json!("hunter2")),
            at("/user/exec/env", json!([{"name": "A", "value": "hunter2"}])),
            at("/user/exec/env/0/value", json!("hunter2")),
        ] {
            redact(&mut value);
            let text = value.to_string();
            assert!(!text.contains("hunter2") && text.contains(REPLACEMENT), "{text}");
        }
    }

    #[test]
    fn values_of_wrong_types_are_replaced_too() {
        let wrong = [json!(["hunter2"]), json!({"hunter2": "hunter2"}), json!([{"a": ["hunter2"]}])];
        let mut all: Vec<Value> = ["content", "passwd", "userData"]
            .into_iter()
            .flat_map(|name| wrong.clone().map(|value| json!({"spec": {"files": [{name: value}]}})))
            .collect();
        all.extend(["files", "users"].map(|name| json!({"spec": {name: ["hunter2"]}})));
        all.extend(["files", "users"].map(|name| json!({"spec": {name: "hunter2"}})));
        all.push(json!("hunter2"));
        all.push(json!([{"op": "add", "path": "/spec/files/0/content", "value": ["hunter2"]}]));
        all.extend(
            ["-", "0"].map(
                |item| json!([{"op": "add", "path": format!("/spec/files/{item}"), "value": "hunter2"}]),
            ),
        );
        for mut value in all {
            redact(&mut value);
            let text = value.to_string();
            assert!(!text.contains("hunter2") && text.contains(REPLACEMENT), "{text}");
        }
    }

    #[test]
    fn other_fields_stay() {
        let value = json!({"spec": {"files": [{"path": "/content"}], "token": {"name": "a"}, "replicas": 3},
            "items": [{"name": "a", "value": "b", "config": {"c": "d"}}], "op": 1, "path": "/a/content"});
        let mut redacted = value.clone();
        redact(&mut redacted);
        assert_eq!(redacted, value);
    }
}
