//! Validation of `metadata.ownerReferences`, with upstream's errors.

use serde_json::Value;

use apiserver_schema::field_errors::{FieldError, FieldPath};

/// Fields of a reference, in the order in which upstream shows them.
const FIELDS: [&str; 6] = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];

/// Adds every error of the references at `path`. Like upstream's, the paths have no index.
pub(super) fn validate(owners: &[Value], path: &FieldPath, errors: &mut Vec<FieldError>) {
    let mut controller = None;
    for owner in owners {
        validate_one(owner, path, errors);
        if owner.get("controller") != Some(&Value::Bool(true)) {
            continue;
        }
        let name = format!("{}/{}", text(owner, "kind"), text(owner, "name"));
        let Some(first) = &controller else {
            controller = Some(name);
            continue;
        };
        let detail = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {name}"
        );
        let all: Vec<String> = owners.iter().map(shown).collect();
        errors.push(FieldError::invalid_text(path.clone(), &format!("[{}]", all.join(",")), &detail));
    }
}

fn validate_one(owner: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let api_version = text(owner, "apiVersion");
    let (group, version) = group_version(api_version);
    if version.is_empty() {
        let given = Value::from(api_version);
        errors.push(FieldError::invalid(path.child("apiVersion"), &given, "version must not be empty"));
    }
    for field in ["kind", "name", "uid"].into_iter().filter(|field| text(owner, field).is_empty()) {
        errors.push(FieldError::invalid(path.child(field), &Value::from(""), "must not be empty"));
    }
    // An Event expires, and its dependents would be deleted with it.
    if (group, version, text(owner, "kind")) == ("", "v1", "Event") {
        let detail = "/v1, Kind=Event is disallowed from being an owner";
        errors.push(FieldError::invalid_text(path.clone(), &shown(owner), detail));
    }
}

/// Returns the group and the version of an `apiVersion`, as Go's `schema.ParseGroupVersion` reads it: text with more than
/// one slash has neither.
fn group_version(api_version: &str) -> (&str, &str) {
    match api_version.split_once('/') {
        None => ("", api_version),
        Some((_, version)) if version.contains('/') => ("", ""),
        Some(parts) => parts,
    }
}

fn text<'a>(owner: &'a Value, field: &str) -> &'a str {
    owner.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn shown(owner: &Value) -> String {
    let fields = FIELDS.iter().filter_map(|field| Some(format!("{field:?}:{}", owner.get(field)?)));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn errors(owners: &Value) -> Vec<String> {
        let mut errors = Vec::new();
        let owners = owners.as_array().map(Vec::as_slice).unwrap_or_default();
        validate(owners, &FieldPath::new("metadata.ownerReferences"), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_owner_reference_needs_a_parseable_api_version() {
        let version_errors = |api_version: &str| {
            errors(&json!([{"apiVersion": api_version, "kind": "A", "name": "a", "uid": "u"}]))
        };
        for valid in ["v1", "a/v1", "/v1", "anything"] {
            assert_eq!(version_errors(valid), Vec::<String>::new(), "{valid}");
        }
        for wrong in ["", "/", "a/", "a/b/c", "a//c", "/a/"] {
            let expected = format!(
                "metadata.ownerReferences.apiVersion: Invalid value: {wrong:?}: version must not be empty"
            );
            assert_eq!(version_errors(wrong), [expected], "{wrong}");
        }
    }

    #[test]
    fn each_further_controller_is_an_error() {
        let owner = |name: &str| json!({"apiVersion": "a/v1", "kind": "A", "name": name, "uid": name, "controller": true});
        let found = errors(
            &json!([owner("a"), {"apiVersion": "v1", "kind": "B", "name": "n"}, owner("b"), owner("c")]),
        );
        assert_eq!(found[0], "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty");
        assert_eq!(found.len(), 3);
        assert!(found[1].ends_with("Found \"true\" in references for A/a and A/b"), "{found:?}");
        assert!(found[2].ends_with("Found \"true\" in references for A/a and A/c"), "{found:?}");
    }

    #[test]
    fn an_owner_reference_is_complete_and_only_one_is_the_controller() {
        let owner = json!({"apiVersion": "a/v1", "kind": "A", "name": "a", "uid": "u", "controller": true});
        assert_eq!(errors(&json!([owner])), Vec::<String>::new());
        assert_eq!(
            errors(&json!([{"kind": "A", "name": "a", "uid": "u"}])),
            ["metadata.ownerReferences.apiVersion: Invalid value: \"\": version must not be empty"]
        );
        assert!(
            errors(&json!([owner, owner]))[0]
                .contains("[{\"apiVersion\":\"a/v1\",\"kind\":\"A\",\"name\":\"a\"")
        );
        for core in ["v1", "/v1"] {
            let event = json!([{"apiVersion": core, "kind": "Event", "name": "a", "uid": "u"}]);
            assert!(errors(&event)[0].ends_with("/v1, Kind=Event is disallowed from being an owner"));
        }
    }
}
