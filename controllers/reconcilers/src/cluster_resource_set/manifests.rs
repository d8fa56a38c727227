//! Objects of a resource: parsed from its values, in order of creation. Pure.

use kube::core::DynamicObject;
use serde_json::Value;

/// Kinds that other objects need, in the order in which they are created. Kinds that are not listed follow, except for
/// [`LATE`].
const EARLY: [&str; 15] = [
    "Namespace",
    "CustomResourceDefinition",
    "StorageClass",
    "PriorityClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Secret",
    "ConfigMap",
    "ServiceAccount",
    "LimitRange",
    "ClusterRole",
    "Role",
    "ClusterRoleBinding",
    "RoleBinding",
    "Service",
];

/// Kinds that send requests of the API server to Pods. Before these Pods run, such requests fail.
const LATE: [&str; 3] = ["APIService", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];

/// Fields of metadata that a server sets. Manifests that were read from a server contain them, and other servers refuse
/// them.
const SET_BY_SERVER: [&str; 6] =
    ["resourceVersion", "uid", "generation", "managedFields", "selfLink", "creationTimestamp"];

/// Deepest nesting of lists in lists. No tool makes more than one level.
const DEPTH: usize = 4;

/// Returns the objects of a value: YAML or JSON, several documents, and lists of objects. Empty documents are left out.
/// `key` is the name of the value in the resource.
pub(super) fn parse(key: &str, text: &str) -> Result<Vec<DynamicObject>, String> {
    let mut found = Vec::new();
    for (index, document) in
        documents(text).map_err(|error| format!("{key}: {error}"))?.into_iter().enumerate()
    {
        let place = format!("{key}, document {}", index.saturating_add(1));
        flatten(document, DEPTH, &mut found).map_err(|error| format!("{place}: {error}"))?;
    }
    Ok(found)
}

/// Puts objects in the order of creation. Objects of one rank keep their order.
pub(super) fn sort(objects: &mut [DynamicObject]) {
    objects.sort_by_key(|object| rank(object.types.as_ref().map_or("", |types| types.kind.as_str())));
}

fn rank(kind: &str) -> usize {
    let early = EARLY.iter().position(|known| *known == kind);
    early.unwrap_or_else(|| if LATE.contains(&kind) { usize::MAX } else { EARLY.len() })
}

/// Returns the documents of a text. The errors do not quote it, because a Secret may contain passwords.
fn documents(text: &str) -> Result<Vec<Value>, String> {
    if text.trim_start().starts_with(['{', '[']) {
        let all: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(text).into_iter().collect();
        if let Ok(all) = all {
            return Ok(all);
        }
    }
    // A mode such as 0644 is octal in YAML 1.1, and the last of duplicate keys counts, as in upstream Cluster API.
    let options = serde_saphyr::options! {
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
        legacy_octal_numbers: true,
        with_snippet: false,
    };
    serde_saphyr::from_multiple_with_options(text, options).map_err(|error| format!("it is no YAML: {error}"))
}

fn flatten(value: Value, depth: usize, found: &mut Vec<DynamicObject>) -> Result<(), String> {
    let depth = depth.checked_sub(1).ok_or("lists are nested too deeply")?;
    match value {
        Value::Null => Ok(()),
        Value::Array(items) => items.into_iter().try_for_each(|item| flatten(item, depth, found)),
        Value::Object(mut fields) => {
            let is_list =
                fields.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"));
            match fields.remove("items") {
                Some(Value::Array(items)) if is_list => {
                    return items.into_iter().try_for_each(|item| flatten(item, depth, found));
                }
                Some(other) => {
                    fields.insert("items".to_owned(), other);
                }
                None => {}
            }
            found.push(object(Value::Object(fields))?);
            Ok(())
        }
        _ => Err("an object with apiVersion and kind is expected".to_owned()),
    }
}

fn object(mut value: Value) -> Result<DynamicObject, String> {
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, _| !SET_BY_SERVER.contains(&name.as_str()));
    }
    let filled =
        |pointer: &str| value.pointer(pointer).and_then(Value::as_str).is_some_and(|it| !it.is_empty());
    for (pointer, field) in
        [("/apiVersion", "apiVersion"), ("/kind", "kind"), ("/metadata/name", "metadata.name")]
    {
        if !filled(pointer) {
            return Err(format!("{field} is missing"));
        }
    }
    serde_json::from_value(value).map_err(|error| format!("it is no Kubernetes object: {error}"))
}

#[cfg(test)]
mod tests {
    use kube::ResourceExt;

    use super::*;

    fn names(text: &str) -> Result<Vec<String>, String> {
        parse("k", text).map(|found| found.iter().map(ResourceExt::name_any).collect())
    }

    #[test]
    fn documents_in_yaml_and_json_and_lists_of_both_are_objects() {
        let of = |name: &str| {
            format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}}}}"#)
        };
        let (a, b) = (of("a"), of("b"));
        let yaml = |name: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n");
        let both = || Ok(vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(names(&format!("# text\n---\n{}---\n---\n{}", yaml("a"), yaml("b"))), both());
        assert_eq!(names(&format!("{a}\n{b}")), both(), "JSON documents after each other");
        assert_eq!(names(&format!("[{a},{b}]")), both(), "a list in JSON");
        assert_eq!(names(&format!("- {a}\n- {b}\n")), both(), "a list in YAML");
        assert_eq!(names(&format!(r#"{{"apiVersion":"v1","kind":"List","items":[{a},{b}]}}"#)), both());
        assert_eq!(names("[]"), Ok(Vec::new()), "upstream does not take a short list for one");
        assert_eq!(names(""), Ok(Vec::new()));
        assert_eq!(names(&format!("{a}\n---\n{b}")), both(), "JSON in YAML documents");
    }

    #[test]
    fn a_wrong_document_is_named_and_not_quoted() {
        let error = |text: &str| parse("cni.yaml", text).unwrap_err();
        assert_eq!(error("apiVersion: v1\nkind: Pod\n"), "cni.yaml, document 1: metadata.name is missing");
        let second = "---\nkind: Pod\nmetadata: {name: a}\n";
        assert_eq!(error(&format!("---\n{second}")), "cni.yaml, document 1: apiVersion is missing");
        assert_eq!(error("text"), "cni.yaml, document 1: an object with apiVersion and kind is expected");
        let broken = error("password: 'secret");
        assert!(broken.starts_with("cni.yaml: it is no YAML") && !broken.contains("secret"), "{broken}");
        assert!(error(&format!("{}{}", "[".repeat(9), "]".repeat(9))).contains("nested too deeply"));
    }

    #[test]
    fn what_a_server_has_set_is_removed_and_modes_are_octal() {
        let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, uid: u, resourceVersion: '7', creationTimestamp: null}\n\
                    spec: {volumes: [{name: v, secret: {defaultMode: 0644}}]}\n";
        let object = parse("k", text).unwrap().remove(0);
        assert_eq!((object.uid(), object.resource_version()), (None, None));
        assert_eq!(object.data.pointer("/spec/volumes/0/secret/defaultMode"), Some(&420.into()));
    }

    #[test]
    fn the_last_of_duplicate_keys_counts() {
        let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  mode: old\n  mode: new\n";
        let object = parse("k", text).unwrap().remove(0);
        assert_eq!(object.data.pointer("/data/mode"), Some(&"new".into()));
    }

    #[test]
    fn kinds_that_others_need_come_first_and_webhooks_last() {
        let of = |kind: &str, name: &str| {
            let value = serde_json::json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
            serde_json::from_value::<DynamicObject>(value).unwrap()
        };
        let mut objects = vec![
            of("ValidatingWebhookConfiguration", "w"),
            of("Widget", "first"),
            of("DaemonSet", "second"),
            of("ServiceAccount", "sa"),
            of("CustomResourceDefinition", "crd"),
            of("Namespace", "ns"),
        ];
        sort(&mut objects);
        let names: Vec<String> = objects.iter().map(ResourceExt::name_any).collect();
        assert_eq!(names, ["ns", "crd", "sa", "first", "second", "w"]);
    }
}
