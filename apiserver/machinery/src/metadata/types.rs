//! Type errors of `metadata`, which is decoded before anything else. They have the text of Go's decoder, which clients
//! know.

use serde_json::Value;

/// Type of a field.
#[derive(Clone, Copy)]
enum Type {
    Text(&'static str),
    Integer,
    Boolean,
    Time,
    Texts,
    TextMap,
    Objects(&'static str, &'static str, &'static [(&'static str, Self)]),
    Anything,
}

const FIELDS: &[(&str, Type)] = &[
    ("name", Type::Text("string")),
    ("generateName", Type::Text("string")),
    ("namespace", Type::Text("string")),
    ("selfLink", Type::Text("string")),
    ("uid", Type::Text("types.UID")),
    ("resourceVersion", Type::Text("string")),
    ("generation", Type::Integer),
    ("creationTimestamp", Type::Time),
    ("deletionTimestamp", Type::Time),
    ("deletionGracePeriodSeconds", Type::Integer),
    ("labels", Type::TextMap),
    ("annotations", Type::TextMap),
    ("ownerReferences", Type::Objects("OwnerReference", "v1.OwnerReference", OWNER)),
    ("finalizers", Type::Texts),
    ("managedFields", Type::Objects("ManagedFieldsEntry", "v1.ManagedFieldsEntry", MANAGED)),
];

const OWNER: &[(&str, Type)] = &[
    ("apiVersion", Type::Text("string")),
    ("kind", Type::Text("string")),
    ("name", Type::Text("string")),
    ("uid", Type::Text("types.UID")),
    ("controller", Type::Boolean),
    ("blockOwnerDeletion", Type::Boolean),
];

const MANAGED: &[(&str, Type)] = &[
    ("manager", Type::Text("string")),
    ("operation", Type::Text("v1.ManagedFieldsOperationType")),
    ("apiVersion", Type::Text("string")),
    ("time", Type::Time),
    ("fieldsType", Type::Text("string")),
    ("fieldsV1", Type::Anything),
    ("subresource", Type::Text("string")),
];

/// Returns the first type error of `metadata`, in the words of Go's decoder.
pub fn wrong_type(metadata: &Value) -> Option<String> {
    let Some(root) = metadata.as_object() else {
        let found = word(metadata);
        return Some(format!("json: cannot unmarshal {found} into Go value of type v1.ObjectMeta"));
    };
    let error = |name: &str, kind: Type, value: &Value| check(value, "ObjectMeta", name, kind);
    // Few of the fields are present, and mostly without errors. The order of the fields in the type decides which of
    // several errors is the first.
    let is_wrong = |(name, value): (&String, &Value)| {
        FIELDS.iter().any(|(field, kind)| field == name && error(field, *kind, value).is_some())
    };
    if !root.iter().any(is_wrong) {
        return None;
    }
    FIELDS.iter().find_map(|(name, kind)| error(name, *kind, root.get(*name)?))
}

fn check(value: &Value, go_type: &str, path: &str, kind: Type) -> Option<String> {
    let wrong = |found: &Value, wanted: &str| {
        let found = word(found);
        Some(format!("json: cannot unmarshal {found} into Go struct field {go_type}.{path} of type {wanted}"))
    };
    match (kind, value) {
        (Type::Anything, _) | (_, Value::Null) | (Type::Text(_), Value::String(_)) => None,
        (Type::Boolean, Value::Bool(_)) => None,
        (Type::Text(wanted), other) => wrong(other, wanted),
        (Type::Boolean, other) => wrong(other, "bool"),
        (Type::Integer, Value::Number(number)) if number.is_i64() => None,
        (Type::Integer, other) => wrong(other, "int64"),
        (Type::Time, Value::String(text)) => wrong_time(text),
        (Type::Time, other) => wrong(other, "string"),
        (Type::Texts, Value::Array(items)) => {
            let bad = items.iter().find(|item| !item.is_string() && !item.is_null());
            bad.and_then(|item| wrong(item, "string"))
        }
        (Type::Texts, other) => wrong(other, "[]string"),
        (Type::TextMap, Value::Object(map)) => {
            let bad = map.values().find(|value| !value.is_string() && !value.is_null());
            bad.and_then(|value| wrong(value, "string"))
        }
        (Type::TextMap, other) => wrong(other, "map[string]string"),
        (Type::Objects(inner, _, fields), Value::Array(items)) => {
            items.iter().find_map(|item| check_item(item, go_type, path, (inner, fields), kind))
        }
        (Type::Objects(_, wanted, _), other) => wrong(other, &format!("[]{wanted}")),
    }
}

/// Checks an item of a list of objects. `inner` is its name in Go, with its fields.
fn check_item(
    item: &Value,
    go_type: &str,
    path: &str,
    inner: (&str, &[(&str, Type)]),
    kind: Type,
) -> Option<String> {
    match (item, kind) {
        (Value::Object(map), _) => inner
            .1
            .iter()
            .find_map(|(name, kind)| check(map.get(*name)?, inner.0, &format!("{path}.{name}"), *kind)),
        (Value::Null, _) => None,
        (other, Type::Objects(_, wanted, _)) => {
            let found = word(other);
            Some(format!(
                "json: cannot unmarshal {found} into Go struct field {go_type}.{path} of type {wanted}"
            ))
        }
        _ => None,
    }
}

fn wrong_time(text: &str) -> Option<String> {
    if has_form_of_time(text) && text.parse::<jiff::Timestamp>().is_ok() {
        return None;
    }
    let layout = "2006-01-02T15:04:05Z07:00";
    Some(format!("parsing time {text:?} as {layout:?}: cannot parse {text:?} as \"2006\""))
}

/// Returns true if a text has the form of RFC 3339 times, in capital letters and without a leap second. Other clients
/// can read that form, too.
fn has_form_of_time(text: &str) -> bool {
    const FORM: &[u8] = b"0000-00-00T00:00:00";
    let alike =
        |(form, found): (&u8, &u8)| if *form == b'0' { found.is_ascii_digit() } else { form == found };
    let Some((time, rest)) = text.as_bytes().split_at_checked(FORM.len()) else { return false };
    let fraction = |rest: &[u8]| rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let zone = match rest {
        [b'.' | b',', digits @ ..] => digits.get(fraction(digits)..).filter(|_| fraction(digits) > 0),
        _ => Some(rest),
    };
    let is_zone = match zone {
        Some([b'Z']) => true,
        Some([b'+' | b'-', offset @ ..]) => offset.len() == 5 && b"00:00".iter().zip(offset).all(alike),
        _ => false,
    };
    FORM.iter().zip(time).all(alike) && !time.ends_with(b"60") && is_zone
}

/// The type that upstream decodes `apiVersion` and `kind` into, as its errors name it.
const TYPE_AND_VERSION: &str =
    r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;

/// Returns the error of an object without a usable kind and version, in the words of upstream's first decoder.
pub fn unknowable_kind(object: &Value) -> Option<String> {
    let unreadable = |value: &Value, what: &str| {
        let found = word(value);
        Some(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go {what}"
        ))
    };
    if !object.is_object() {
        return unreadable(object, &format!("value of type {TYPE_AND_VERSION}"));
    }
    for field in ["apiVersion", "kind"] {
        if let Some(other) = object.get(field).filter(|value| !value.is_string() && !value.is_null()) {
            return unreadable(other, &format!("struct field .{field} of type string"));
        }
    }
    let version = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    (version.matches('/').count() > 1).then(|| format!("unexpected GroupVersion string: {version}"))
}

/// Returns the name of a JSON type in Go's decoder.
pub fn word(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Each text is a response of a kube-apiserver 1.36.3.
    #[test]
    fn wrong_types_get_the_errors_of_kube_apiserver() {
        let field = |text: &str| Some(format!("json: cannot unmarshal {text}"));
        let table = [
            (json!({"name": "a", "labels": {"x": "y"}, "finalizers": [], "creationTimestamp": null}), None),
            (json!({"name": 1}), field("number into Go struct field ObjectMeta.name of type string")),
            (
                json!({"labels": {"a": 1}}),
                field("number into Go struct field ObjectMeta.labels of type string"),
            ),
            (
                json!({"labels": []}),
                field("array into Go struct field ObjectMeta.labels of type map[string]string"),
            ),
            (
                json!({"finalizers": "x"}),
                field("string into Go struct field ObjectMeta.finalizers of type []string"),
            ),
            (
                json!({"ownerReferences": [{"controller": "x"}]}),
                field("string into Go struct field OwnerReference.ownerReferences.controller of type bool"),
            ),
            (json!([]), field("array into Go value of type v1.ObjectMeta")),
            (
                json!({"creationTimestamp": "foo"}),
                Some(
                    "parsing time \"foo\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"foo\" as \"2006\""
                        .to_owned(),
                ),
            ),
        ];
        for (metadata, expected) in table {
            assert_eq!(wrong_type(&metadata), expected, "{metadata}");
        }
    }
}
