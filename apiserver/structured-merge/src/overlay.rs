//! Overlay of an object by a policy, which has no field manager.

use serde_json::Value;

use crate::check::check;
use crate::element::{Element, Path};
use crate::merge::merge;
use crate::schema::{Relation, Type};

/// Returns the object with the fields of a patch. Field managers stay as they are.
///
/// # Errors
/// The patch does not fit the type, or it would replace an atomic list or map.
pub fn overlay(of: &Type, object: &Value, patch: &Value) -> Result<Value, String> {
    check(of, patch).map_err(|error| format!("failed to convert patch object to typed object: {error}"))?;
    let mut atomic = Vec::new();
    find_atomic(of, patch, &mut Path::default(), &mut atomic);
    if !atomic.is_empty() {
        let atomic = atomic.join(", ");
        return Err(format!(
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {atomic}"
        ));
    }
    Ok(merge(of, object, patch))
}

/// Collects the paths of atomic lists and maps in a patch. A patch that sets a part of one would remove the rest.
fn find_atomic(of: &Type, value: &Value, path: &mut Path, found: &mut Vec<String>) {
    match (of, value) {
        (Type::Map(map), Value::Object(fields)) => {
            if map.atomic {
                found.push(path.to_string());
            }
            for (name, field) in fields {
                path.0.push(Element::field(name.as_str()));
                find_atomic(map.field(name), field, path, found);
                path.0.pop();
            }
        }
        (Type::List(list), Value::Array(items)) => {
            if list.relation == Relation::Atomic {
                found.push(path.to_string());
            }
            for item in items {
                find_atomic(&list.element, item, path, found);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_patch_sets_its_fields_and_no_part_of_an_atomic_value() {
        let text = json!({"type": "string"});
        let of = Type::of_object(&json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "a": text, "b": text,
                "list": {"type": "array", "items": text},
                "keyed": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "properties": {"name": text, "value": text}}}}}}}))
        .unwrap();
        let object = json!({"spec": {"a": "1", "keyed": [{"name": "x", "value": "1"}], "list": ["l"]}});
        let found =
            overlay(&of, &object, &json!({"spec": {"b": "2", "keyed": [{"name": "x", "value": "2"}]}}))
                .unwrap();
        let expected =
            json!({"spec": {"a": "1", "b": "2", "keyed": [{"name": "x", "value": "2"}], "list": ["l"]}});
        assert_eq!(found, expected);
        let error = overlay(&of, &object, &json!({"spec": {"list": ["m"]}})).unwrap_err();
        assert!(error.ends_with("may not mutate atomic arrays, maps or structs: .spec.list"), "{error}");
        let error = overlay(&of, &object, &json!({"spec": {"none": 1}})).unwrap_err();
        assert!(error.contains("field not declared in schema"), "{error}");
    }
}
