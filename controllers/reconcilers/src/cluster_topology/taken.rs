//! Text about a name that a topology needs and that another object has. Pure.

use serde_json::Value;

use super::{DEPLOYMENT, OWNED};
use crate::CLUSTER_NAME_LABEL;

/// Returns why an object cannot be made while this one exists, and what to do. `object` is its kind, namespace and name.
pub(super) fn message(object: &str, intent: &Value, found: &Value) -> String {
    let wanted: Vec<(&str, &str)> = [CLUSTER_NAME_LABEL, OWNED, DEPLOYMENT]
        .into_iter()
        .filter_map(|key| Some((key, label(intent, key)?)))
        .collect();
    let is_own = wanted.iter().all(|(key, value)| label(found, key) == Some(*value));
    if is_own && found.pointer("/metadata/deletionTimestamp").is_some() {
        return format!("{object} is being deleted. It is made again once the old one is gone");
    }
    let labels: Vec<String> = wanted.iter().map(|(key, value)| format!("{key}={value:?}")).collect();
    format!(
        "{object} exists already, and does not belong to this topology. It is left unchanged. Delete it, or put \
         {{{{ .random }}}} into the naming template of the ClusterClass. To let the topology take it over, give it \
         the labels {}",
        labels.join(", ")
    )
}

fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("labels")?.get(key)?.as_str()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_of_another_owner_is_named_with_the_labels_that_hand_it_over() {
        let object = |labels: Value| json!({"kind": "K", "metadata": {"namespace": "n", "name": "x", "labels": labels}});
        let own = json!({CLUSTER_NAME_LABEL: "blue", OWNED: ""});
        let text = message("K n/x", &object(own.clone()), &object(json!({"a": "b"})));
        assert!(text.starts_with("K n/x exists already, and does not belong to this topology"), "{text}");
        let end = format!("the labels {CLUSTER_NAME_LABEL}=\"blue\", {OWNED}=\"\"");
        assert!(text.ends_with(&end), "{text}");
        assert!(text.contains("put {{ .random }} into the naming template"), "{text}");
        let mut going = object(own.clone());
        going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert!(message("K n/x", &object(own), &going).starts_with("K n/x is being deleted"));
    }
}
