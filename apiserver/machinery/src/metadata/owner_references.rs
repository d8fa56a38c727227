//! The rules of `metadata.ownerReferences`.

use serde_json::Value;

use apiserver_schema::field_errors::{FieldError, FieldPath};

/// The fields of a reference, in the order in which upstream shows them.
const FIELDS: [&str; 6] = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];

/// Every error of the references at `path`, which is without the place in the list, as upstream's is.
pub(super) fn validate(owners: &[Value], path: &FieldPath, errors: &mut Vec<FieldError>) {
    let mut controllers = owners.iter().filter(|owner| owner.get("controller") == Some(&Value::Bool(true)));
    for owner in owners {
        let version = text(owner, "apiVersion").rsplit('/').next().unwrap_or_default();
        if version.is_empty() {
            let given = Value::from(text(owner, "apiVersion"));
            errors.push(FieldError::invalid(path.child("apiVersion"), &given, "version must not be empty"));
        }
        for field in ["kind", "name", "uid"].into_iter().filter(|field| text(owner, field).is_empty()) {
            errors.push(FieldError::invalid(path.child(field), &Value::from(""), "must not be empty"));
        }
        if text(owner, "apiVersion") == "v1" && text(owner, "kind") == "Event" {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid_text(path.clone(), &shown(owner), detail));
        }
    }
    if let (Some(first), Some(second)) = (controllers.next(), controllers.next()) {
        let name = |owner: &Value| format!("{}/{}", text(owner, "kind"), text(owner, "name"));
        let detail = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {} and {}",
            name(first),
            name(second)
        );
        let all: Vec<String> = owners.iter().map(shown).collect();
        errors.push(FieldError::invalid_text(path.clone(), &format!("[{}]", all.join(",")), &detail));
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
    fn a_reference_names_its_owner_whole_and_one_owner_controls() {
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
        let event = json!([{"apiVersion": "v1", "kind": "Event", "name": "a", "uid": "u"}]);
        assert!(errors(&event)[0].ends_with("/v1, Kind=Event is disallowed from being an owner"));
    }
}
