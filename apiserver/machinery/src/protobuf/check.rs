//! Check of a JSON body against the table of its kind, for kinds that have no schema: reviews.

use serde_json::{Map, Value};

use super::{Field, Shape};

/// Value of another type than its field has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongType {
    /// Path of the field, such as `spec.resourceAttributes.verb`.
    pub path: String,
    /// Type of the value: `bool`, `number`, `string`, `array` or `object`.
    pub found: &'static str,
    /// Type of the field, in Go's words; empty for a message.
    pub wanted: &'static str,
}

/// Removes the fields that are not in the table. Returns their paths.
///
/// # Errors
/// [`WrongType`] of the first value with another type than its field. Null is a value of each type.
pub fn prune(body: &mut Map<String, Value>, fields: &[Field]) -> Result<Vec<String>, WrongType> {
    let mut unknown = Vec::new();
    message(body, fields, "", &mut unknown)?;
    Ok(unknown)
}

fn message(
    object: &mut Map<String, Value>,
    fields: &[Field],
    at: &str,
    unknown: &mut Vec<String>,
) -> Result<(), WrongType> {
    let path = |name: &str| if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
    let is_known = |name: &String| fields.iter().any(|field| field.name == name.as_str());
    let others: Vec<String> = object.keys().filter(|name| !is_known(name)).cloned().collect();
    for name in others {
        object.remove(&name);
        unknown.push(path(&name));
    }
    for field in fields {
        if let Some(value) = object.get_mut(field.name) {
            check(value, field, &path(field.name), unknown)?;
        }
    }
    Ok(())
}

fn check(value: &mut Value, field: &Field, at: &str, unknown: &mut Vec<String>) -> Result<(), WrongType> {
    match (field.shape, field.repeated, value) {
        (_, _, Value::Null) | (Shape::Text, false, Value::String(_)) => Ok(()),
        (Shape::Message(fields), false, Value::Object(inner)) => message(inner, fields, at, unknown),
        (Shape::Message(fields), true, Value::Array(items)) => {
            for (index, item) in items.iter_mut().enumerate() {
                match item {
                    Value::Null => {}
                    Value::Object(inner) => message(inner, fields, &format!("{at}[{index}]"), unknown)?,
                    other => return Err(wrong(other, at, "")),
                }
            }
            Ok(())
        }
        (Shape::Text, true, Value::Array(items)) => texts(items, at),
        (Shape::TextLists, false, Value::Object(lists)) => {
            for list in lists.values() {
                match list {
                    Value::Null => {}
                    Value::Array(items) => texts(items, at)?,
                    other => return Err(wrong(other, at, "v1.ExtraValue")),
                }
            }
            Ok(())
        }
        (Shape::Text, false, other) => Err(wrong(other, at, "string")),
        (Shape::Text, true, other) => Err(wrong(other, at, "[]string")),
        (Shape::TextLists, _, other) => Err(wrong(other, at, "map[string]v1.ExtraValue")),
        (Shape::Message(_), _, other) => Err(wrong(other, at, "")),
        // No field of a review has another shape.
        _ => Ok(()),
    }
}

fn texts(items: &[Value], at: &str) -> Result<(), WrongType> {
    match items.iter().find(|item| !item.is_string() && !item.is_null()) {
        Some(other) => Err(wrong(other, at, "string")),
        None => Ok(()),
    }
}

fn wrong(value: &Value, at: &str, wanted: &'static str) -> WrongType {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    WrongType { path: at.to_owned(), found, wanted }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const FIELDS: &[Field] = &[
        Field::new(1, "name", Shape::Text),
        Field::list(2, "groups", Shape::Text),
        Field::new(3, "extra", Shape::TextLists),
        Field::list(4, "parts", Shape::Message(&[Field::new(1, "key", Shape::Text)])),
    ];

    fn pruned(body: &Value) -> Result<(Vec<String>, Value), WrongType> {
        let mut body = body.as_object().unwrap().clone();
        let mut unknown = prune(&mut body, FIELDS)?;
        unknown.sort();
        Ok((unknown, Value::Object(body)))
    }

    #[test]
    fn unknown_fields_are_removed_at_each_depth() {
        let right = json!({"name": "a", "groups": ["b", null], "extra": {"any": ["c"], "none": null},
            "parts": [{"key": "d"}, null]});
        assert_eq!(pruned(&right), Ok((Vec::new(), right.clone())));
        let mut more = right.clone();
        more["Name"] = json!("x");
        more["parts"][0]["value"] = json!(7);
        let unknown = vec!["Name".to_owned(), "parts[0].value".to_owned()];
        assert_eq!(pruned(&more), Ok((unknown, right)));
        let nulls = json!({"name": null, "groups": null, "extra": null, "parts": null});
        assert_eq!(pruned(&nulls), Ok((Vec::new(), nulls.clone())));
    }

    #[test]
    fn a_value_of_another_type_is_an_error_with_its_path() {
        for (body, path, found, wanted) in [
            (json!({"name": 7}), "name", "number", "string"),
            (json!({"groups": "a"}), "groups", "string", "[]string"),
            (json!({"groups": [true]}), "groups", "bool", "string"),
            (json!({"extra": ["a"]}), "extra", "array", "map[string]v1.ExtraValue"),
            (json!({"extra": {"a": "b"}}), "extra", "string", "v1.ExtraValue"),
            (json!({"extra": {"a": [{}]}}), "extra", "object", "string"),
            (json!({"parts": {}}), "parts", "object", ""),
            (json!({"parts": [7]}), "parts", "number", ""),
            (json!({"parts": [{"key": 7}]}), "parts[0].key", "number", "string"),
        ] {
            let expected = WrongType { path: path.to_owned(), found, wanted };
            assert_eq!(pruned(&body), Err(expected), "{body}");
        }
    }
}
