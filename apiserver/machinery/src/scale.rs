//! `autoscaling/v1 Scale`: the number of replicas of any kind that has one, in one form.

use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::metadata;
use crate::object;
use crate::resource::{Resource, Scale};
use crate::status::{ApiError, ApiResult};
use apiserver_schema::Schema;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use apiserver_structured_merge::go_values;

/// API group.
pub const GROUP: &str = "autoscaling";

/// API version of a Scale.
pub const VERSION: &str = "v1";

/// Kind of a Scale.
pub const KIND: &str = "Scale";

/// One part of a Scale: its name, its type in Go, and its fields with theirs.
type Part = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const PARTS: [Part; 2] = [
    ("spec", "ScaleSpec", &[("replicas", "int32")]),
    ("status", "ScaleStatus", &[("replicas", "int32"), ("selector", "string")]),
];

static SCHEMA: LazyLock<Option<Schema>> = LazyLock::new(|| {
    let mut whole = schema();
    whole["properties"]["metadata"] = metadata::schema();
    // The field is published as required, but a request needs no status: the server does not read it.
    whole["properties"]["status"]["required"].take();
    Schema::compile(&whole).ok()
});

/// Returns the schema, without the fields that all metadata have in common.
pub fn schema() -> Value {
    let count = |description: &str| json!({"type": "integer", "format": "int32", "description": description});
    let text = |description: &str| json!({"type": "string", "description": description});
    json!({"type": "object", "description": "The number of replicas of an object, desired and observed.",
        "properties": {
            "apiVersion": text("Version of the schema of this representation."),
            "kind": text("Kind of this object."),
            "metadata": {"type": "object", "description": "Metadata of the object that is scaled."},
            "spec": {"type": "object", "description": "Desired state.",
                "properties": {"replicas": count("Desired number of replicas.")}},
            "status": {"type": "object", "description": "Observed state.", "required": ["replicas"], "properties": {
                "replicas": count("Observed number of replicas."),
                "selector": text("Label selector of the replicas, as text.")}}}})
}

/// Returns the compiled schema, for decoding.
///
/// # Errors
/// 500; the schema is a constant.
pub fn compiled() -> ApiResult<&'static Schema> {
    SCHEMA.as_ref().ok_or_else(|| ApiError::internal("the schema of Scale is not structural"))
}

/// Returns the first field of a Scale with the wrong type, in the words of Go's decoder.
pub fn wrong_type(scale: &Value) -> Option<String> {
    let wrong = |found: &Value, field: &str, wanted: &str| {
        let found = match found {
            Value::Number(number) => format!("number {number}"),
            other => metadata::word(other).to_owned(),
        };
        Some(format!("json: cannot unmarshal {found} into Go struct field {field} of type {wanted}"))
    };
    let field = |name: &str| scale.get(name).filter(|value| !value.is_null());
    if let Some(error) = field("metadata").and_then(metadata::wrong_type) {
        return Some(error);
    }
    for (part, go_name, fields) in PARTS {
        let Some(value) = field(part) else { continue };
        let Some(values) = value.as_object() else {
            return wrong(value, &format!("Scale.{part}"), &format!("v1.{go_name}"));
        };
        for (name, wanted) in fields {
            let is_right = |value: &Value| match *wanted {
                "int32" => value.as_i64().is_some_and(|number| i32::try_from(number).is_ok()),
                _ => value.is_string(),
            };
            if let Some(value) = values.get(*name).filter(|value| !value.is_null() && !is_right(value)) {
                return wrong(value, &format!("{go_name}.{part}.{name}"), wanted);
            }
        }
    }
    None
}

/// Returns the Scale of an object, and whether the object has a desired number of replicas.
///
/// # Errors
/// 500 if a number has the wrong type: the object was stored before its kind had a number there.
pub fn of(scale: &Scale, object: &Value) -> ApiResult<(Value, bool)> {
    let wanted = count(object, &scale.spec_replicas)?;
    let observed = count(object, &scale.status_replicas)?.unwrap_or_default();
    let mut metadata = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        let text = object::meta(object, field);
        if !text.is_empty() {
            metadata[field] = json!(text);
        }
    }
    let mut spec = json!({});
    if let Some(wanted) = wanted.filter(|wanted| *wanted != 0) {
        spec["replicas"] = json!(wanted);
    }
    let mut status = json!({"replicas": observed});
    let selector = scale.selector.as_deref().and_then(|path| at(object, path)).and_then(Value::as_str);
    if let Some(selector) = selector.filter(|selector| !selector.is_empty()) {
        status["selector"] = json!(selector);
    }
    let value = json!({"kind": KIND, "apiVersion": format!("{GROUP}/{VERSION}"), "metadata": metadata,
        "spec": spec, "status": status});
    Ok((value, wanted.is_some()))
}

/// Returns the Scale of an object, for a read.
///
/// # Errors
/// 500 if the object has no desired number of replicas.
pub fn shown(scale: &Scale, object: &Value) -> ApiResult<Value> {
    match of(scale, object)? {
        (value, true) => Ok(value),
        (_, false) => {
            let path = &scale.spec_replicas;
            Err(ApiError::internal(format!("the spec replicas field {path:?} does not exist")))
        }
    }
}

/// Returns the object with the number of the Scale `wanted`, and with the preconditions in it.
pub fn carry_over(scale: &Scale, object: &Value, wanted: &Value) -> Value {
    let mut new = object.clone();
    let replicas = object::at(wanted, "spec.replicas").cloned().filter(Value::is_number);
    set(&mut new, &scale.spec_replicas, replicas.unwrap_or_else(|| json!(0)));
    for field in ["name", "namespace", "uid", "resourceVersion"] {
        let given = object::meta(wanted, field);
        if !given.is_empty() {
            object::set_meta(&mut new, field, given);
        }
    }
    new
}

/// Returns the errors of the numbers of an object whose kind has a Scale.
pub fn validate(resource: &Resource, object: &Value) -> Vec<FieldError> {
    let Some(scale) = &resource.scale else { return Vec::new() };
    let mut errors = Vec::new();
    for path in [&scale.spec_replicas, &scale.status_replicas] {
        let (shown, detail) = match number(object, path) {
            Ok(Some(number)) if number < 0 => (number, "should be a non-negative integer".to_owned()),
            Ok(Some(number)) if number > i64::from(i32::MAX) => {
                (number, format!("should be less than or equal to {}", i32::MAX))
            }
            Ok(_) => continue,
            Err(problem) => (0, problem),
        };
        errors.push(FieldError::invalid(FieldPath::new(path.as_str()), &json!(shown), &detail));
    }
    if let Some((path, problem)) =
        scale.selector.as_ref().and_then(|path| Some((path, text(object, path).err()?)))
    {
        errors.push(FieldError::invalid(FieldPath::new(path.as_str()), &json!(""), &problem));
    }
    errors
}

/// Returns the number at a path, if there is one, or the type error, in the words of Go.
fn number(object: &Value, path: &str) -> Result<Option<i64>, String> {
    match found(object, path)? {
        None => Ok(None),
        Some(value) => value.as_i64().map(Some).ok_or_else(|| wrong(path, value, "int64")),
    }
}

/// Returns the text at a path, likewise.
fn text<'a>(object: &'a Value, path: &str) -> Result<Option<&'a str>, String> {
    match found(object, path)? {
        None => Ok(None),
        Some(value) => value.as_str().map(Some).ok_or_else(|| wrong(path, value, "string")),
    }
}

fn wrong(path: &str, found: &Value, wanted: &str) -> String {
    let (text, kind) = (go_values::plain(found), go_values::type_name(found));
    format!("{path} accessor error: {text} is of the type {kind}, expected {wanted}")
}

/// Returns the value at a path, if there is one.
fn found<'a>(object: &'a Value, path: &str) -> Result<Option<&'a Value>, String> {
    let (mut place, mut taken) = (object, String::new());
    for name in path.trim_start_matches('.').split('.') {
        if place.is_null() {
            return Ok(None);
        }
        taken.push('.');
        taken.push_str(name);
        let Some(fields) = place.as_object() else {
            return Err(wrong(&taken, place, "map[string]interface{}"));
        };
        let Some(field) = fields.get(name) else { return Ok(None) };
        place = field;
    }
    Ok(Some(place))
}

fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    object::at(object, path.trim_start_matches('.')).filter(|value| !value.is_null())
}

fn count(object: &Value, path: &str) -> ApiResult<Option<i64>> {
    let Some(value) = at(object, path) else { return Ok(None) };
    let number = value.as_i64();
    number.map(Some).ok_or_else(|| ApiError::internal(format!("{path} is not a whole number: {value}")))
}

/// Sets the value at a dotted path, and creates the objects on the way.
fn set(object: &mut Value, path: &str, value: Value) {
    let mut place = object;
    for name in path.trim_start_matches('.').split('.') {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[name];
    }
    *place = value;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_are_read_from_and_written_to_their_paths() {
        let scale = Scale {
            spec_replicas: ".spec.replicas".to_owned(),
            status_replicas: ".status.count".to_owned(),
            selector: Some(".status.selector".to_owned()),
        };
        let object = json!({"metadata": {"name": "a", "uid": "u", "labels": {"x": "y"}},
            "spec": {"replicas": 2}, "status": {"count": 1, "selector": "a=b"}});
        let shown = shown(&scale, &object).unwrap();
        assert_eq!(shown["metadata"], json!({"name": "a", "uid": "u"}));
        assert_eq!(
            (&shown["spec"], &shown["status"]),
            (&json!({"replicas": 2}), &json!({"replicas": 1, "selector": "a=b"}))
        );
        let new = carry_over(&scale, &json!({"metadata": {"name": "a"}}), &json!({"spec": {"replicas": 3}}));
        assert_eq!(new, json!({"metadata": {"name": "a"}, "spec": {"replicas": 3}}));
        let absent = super::shown(&scale, &json!({"spec": {}})).unwrap_err();
        assert_eq!(
            (absent.code, absent.message.as_str()),
            (500, "Internal error occurred: the spec replicas field \".spec.replicas\" does not exist")
        );
        assert!(of(&scale, &json!({"spec": {"replicas": "x"}})).is_err());
        assert!(compiled().is_ok());
    }

    #[test]
    fn a_wrong_type_gets_the_error_message_of_go() {
        for (scale, expected) in [
            (
                json!({"spec": {"replicas": "x"}}),
                "string into Go struct field ScaleSpec.spec.replicas of type int32",
            ),
            (
                json!({"spec": {"replicas": 1.5}}),
                "number 1.5 into Go struct field ScaleSpec.spec.replicas of type int32",
            ),
            (
                json!({"spec": {"replicas": 3_000_000_000_i64}}),
                "number 3000000000 into Go struct field ScaleSpec.spec.replicas of type int32",
            ),
            (json!({"spec": []}), "array into Go struct field Scale.spec of type v1.ScaleSpec"),
            (
                json!({"status": {"selector": 1}}),
                "number 1 into Go struct field ScaleStatus.status.selector of type string",
            ),
            (json!({"metadata": {"name": {}}}), "object into Go struct field ObjectMeta.name of type string"),
        ] {
            assert_eq!(wrong_type(&scale), Some(format!("json: cannot unmarshal {expected}")), "{scale}");
        }
        for right in [
            json!({}),
            json!({"spec": {"replicas": null}, "status": null}),
            json!({"spec": {"replicas": -1}}),
        ] {
            assert_eq!(wrong_type(&right), None, "{right}");
        }
    }

    #[test]
    fn a_value_that_is_no_number_gets_the_error_message_of_go() {
        let expected = |text: &str, kind: &str| {
            Err(format!(".spec.replicas accessor error: {text} is of the type {kind}, expected int64"))
        };
        for (replicas, found) in [
            (json!(3), Ok(Some(3))),
            (json!(null), expected("<nil>", "<nil>")),
            (json!("x"), expected("x", "string")),
            (json!(true), expected("true", "bool")),
            (json!(1.5), expected("1.5", "float64")),
            (json!(["a", 1]), expected("[a 1]", "[]interface {}")),
            (json!({"b": 1, "a": {}}), expected("map[a:map[] b:1]", "map[string]interface {}")),
        ] {
            assert_eq!(number(&json!({"spec": {"replicas": replicas}}), ".spec.replicas"), found);
        }
        assert_eq!(number(&json!({}), ".spec.replicas"), Ok(None));
        let above = number(&json!({"spec": "x"}), ".spec.replicas");
        let text = ".spec.replicas accessor error: x is of the type string, expected map[string]interface{}";
        assert_eq!(above, Err(text.to_owned()));
    }
}
