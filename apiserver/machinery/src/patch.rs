//! JSON patch and JSON merge patch.

mod effort;

use effort::{Effort, TooMuch};
use json_patch::{AddOperation, PatchOperation};
use serde_json::Value;

use crate::field_errors::{FieldError, FieldPath};
use crate::metadata::word;
use crate::object;
use crate::status::{ApiError, ApiResult};

/// Most operations of one JSON patch: upstream's limit.
const MOST_OPERATIONS: usize = 10_000;

/// A decoded patch.
#[derive(Debug, Clone)]
pub enum Patch {
    /// RFC 6902.
    Json(json_patch::Patch),
    /// RFC 7386.
    Merge(Value),
}

impl Patch {
    /// Reads an RFC 6902 document.
    ///
    /// # Errors
    /// 400 when it is not one, 413 when it has too many operations.
    pub fn json(body: &[u8]) -> ApiResult<Self> {
        let value: Value = serde_json::from_slice(body).map_err(|e| decoding(&e))?;
        let count = value.as_array().map_or(0, Vec::len);
        if count > MOST_OPERATIONS {
            return Err(ApiError::too_large(format!(
                "Request entity too large: The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {count}"
            )));
        }
        let Some(list) = value.as_array() else {
            let message = "error decoding patch: json: cannot unmarshal";
            let into = "into Go value of type []handlers.jsonPatchOp";
            return Err(ApiError::bad_request(format!("{message} {} {into}", word(&value))));
        };
        if let Some(other) = list.iter().find(|op| !op.is_object()) {
            let message = "error decoding patch: json: cannot unmarshal";
            let into = "into Go value of type handlers.jsonPatchOp";
            return Err(ApiError::bad_request(format!("{message} {} {into}", word(other))));
        }
        // An operation that cannot be one is a fault of the patch, not of its encoding.
        serde_json::from_value(value).map(Self::Json).map_err(|_| ApiError::unprocessable_patch())
    }

    /// Reads an RFC 7386 document, which must be an object.
    ///
    /// # Errors
    /// 400 when it is not one.
    pub fn merge(body: &[u8]) -> ApiResult<Self> {
        let value: Value = serde_json::from_slice(body).map_err(|e| decoding(&e))?;
        if value.is_null() {
            return Err(ApiError::bad_request("Invalid JSON Patch"));
        }
        if !value.is_object() {
            let message = "error decoding patch: json: cannot unmarshal";
            let into = "into Go value of type map[string]interface {}";
            return Err(ApiError::bad_request(format!("{message} {} {into}", word(&value))));
        }
        Ok(Self::Merge(value))
    }

    /// Reads a strategic merge patch that says what a merge patch would say: without directives,
    /// and without the lists of metadata that it would merge by key.
    ///
    /// # Errors
    /// 400 when it is not an object; 422 when it needs more than merging.
    pub fn strategic(body: &[u8]) -> ApiResult<Self> {
        let patch = Self::merge(body)?;
        let Self::Merge(value) = &patch else { return Ok(patch) };
        let merged_by_key = ["finalizers", "ownerReferences"];
        let lists = value
            .get("metadata")
            .is_some_and(|meta| merged_by_key.iter().any(|list| meta.get(list).is_some()));
        if lists || has_directive(value) {
            let message = "only strategic merge patches without directives and without metadata.finalizers and \
                           metadata.ownerReferences are read here; use a merge patch (--type=merge)";
            return Err(ApiError::untyped(422, message));
        }
        Ok(patch)
    }

    /// The object with the patch carried out.
    ///
    /// # Errors
    /// 422 when an operation cannot be carried out; the object is then as it was.
    pub fn apply(&self, object: &Value) -> ApiResult<Value> {
        let mut patched = object.clone();
        match self {
            Self::Json(patch) => {
                let mut effort = Effort::default();
                patch.0.iter().try_for_each(|operation| carry_out(&mut patched, operation, &mut effort))?;
            }
            Self::Merge(patch) => json_patch::merge(&mut patched, patch),
        }
        if object::is_too_deep(&patched) {
            return Err(refused(TooMuch::Deep));
        }
        if patched.is_object() { Ok(patched) } else { Err(ApiError::unprocessable_patch()) }
    }
}

/// Carries out one operation, unless all of them together cost too much. What is replaced and is not
/// there is added, as upstream does it. After an error the object is of no use.
fn carry_out(object: &mut Value, operation: &PatchOperation, effort: &mut Effort) -> ApiResult<()> {
    check(object, operation, effort).map_err(refused)?;
    let added = match operation {
        PatchOperation::Replace(replace) if is_absent_field(object, replace.path.as_str()) => {
            let (path, value) = (replace.path.clone(), replace.value.clone());
            Some(PatchOperation::Add(AddOperation { path, value }))
        }
        _ => None,
    };
    let operation = std::slice::from_ref(added.as_ref().unwrap_or(operation));
    json_patch::patch_unsafe(object, operation).map_err(|_| ApiError::unprocessable_patch())
}

/// Counts what an operation is going to cost.
fn check(object: &Value, operation: &PatchOperation, effort: &mut Effort) -> Result<(), TooMuch> {
    match operation {
        PatchOperation::Add(add) => {
            effort.put(add.path.as_str(), &add.value)?;
            effort.shift(object, add.path.as_str())
        }
        PatchOperation::Replace(replace) => effort.put(replace.path.as_str(), &replace.value),
        PatchOperation::Remove(remove) => effort.shift(object, remove.path.as_str()),
        PatchOperation::Move(moved) => {
            if let Some(value) = object.pointer(moved.from.as_str()) {
                effort.put(moved.path.as_str(), value)?;
            }
            effort.shift(object, moved.from.as_str())?;
            effort.shift(object, moved.path.as_str())
        }
        PatchOperation::Copy(copy) => {
            if let Some(value) = object.pointer(copy.from.as_str()) {
                effort.put(copy.path.as_str(), value)?;
                effort.copy(value)?;
            }
            effort.shift(object, copy.path.as_str())
        }
        PatchOperation::Test(_) => Ok(()),
    }
}

/// Upstream has a limit for copies, and answers so; it has none for the others.
fn refused(why: TooMuch) -> ApiError {
    let detail = match why {
        TooMuch::Copied => return ApiError::unprocessable_patch(),
        TooMuch::Deep => format!("it nests the object more than {} deep", object::DEEPEST),
        TooMuch::Touched => "it moves too much about: send several patches".to_owned(),
    };
    ApiError::invalid_kind("", "", &[FieldError::forbidden(FieldPath::new("patch"), &detail)])
}

/// Whether a pointer names a field that an object could have, and has not.
fn is_absent_field(object: &Value, pointer: &str) -> bool {
    let parent = pointer.rsplit_once('/').and_then(|(parent, _)| object.pointer(parent));
    parent.is_some_and(Value::is_object) && object.pointer(pointer).is_none()
}

/// Whether a `$patch`, `$setElementOrder/…` or the like stands anywhere.
fn has_directive(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.iter().any(|(key, value)| key.starts_with('$') || has_directive(value)),
        Value::Array(items) => items.iter().any(has_directive),
        _ => false,
    }
}

fn decoding(error: &serde_json::Error) -> ApiError {
    let fault = if error.is_eof() { "unexpected end of JSON input".to_owned() } else { error.to_string() };
    ApiError::bad_request(format!("error decoding patch: {fault}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn patches_do_what_their_documents_say() {
        let object = json!({"a": 1, "l": [1], "m": {"x": 1}});
        let merge = Patch::merge(br#"{"a":null,"m":{"y":2}}"#).unwrap();
        assert_eq!(merge.apply(&object), Ok(json!({"l": [1], "m": {"x": 1, "y": 2}})));
        let json =
            Patch::json(br#"[{"op":"test","path":"/a","value":1},{"op":"add","path":"/l/-","value":2}]"#)
                .unwrap();
        assert_eq!(json.apply(&object), Ok(json!({"a": 1, "l": [1, 2], "m": {"x": 1}})));
    }

    #[test]
    fn a_strategic_patch_is_read_as_far_as_it_merges() {
        let patch = Patch::strategic(br#"{"data":{"a":"b"},"metadata":{"labels":{"x":null}}}"#).unwrap();
        let object = json!({"data": {"c": "d"}, "metadata": {"labels": {"x": "y"}}});
        assert_eq!(
            patch.apply(&object),
            Ok(json!({"data": {"a": "b", "c": "d"}, "metadata": {"labels": {}}}))
        );
        for body in [r#"{"data":{"$patch":"replace"}}"#, r#"{"metadata":{"finalizers":["a"]}}"#] {
            assert_eq!(Patch::strategic(body.as_bytes()).unwrap_err().code, 422, "{body}");
        }
    }

    #[test]
    fn a_patch_cannot_make_much_of_little() {
        let object = json!({"l": [], "d": {}});
        let many = |prefix: &str, often: &str, times: usize| {
            let patch = format!("[{prefix}{}]", vec![often; times].join(","));
            Patch::json(patch.as_bytes()).unwrap().apply(&object)
        };
        let double = r#"{"op":"copy","from":"/l","path":"/l/-"}"#;
        assert!(many("", double, 15).is_ok());
        assert_eq!(many("", double, 40), Err(ApiError::unprocessable_patch()));
        let nest = r#"{"op":"move","from":"/d","path":"/l/0"},{"op":"add","path":"/d","value":{}},
            {"op":"move","from":"/l/0","path":"/d/d"}"#;
        assert!(many("", nest, 90).is_ok());
        let deep = many("", nest, 3000).unwrap_err();
        assert_eq!(
            deep.message,
            r#" "" is invalid: patch: Forbidden: it nests the object more than 100 deep"#
        );
        let long = format!(r#"{{"op":"add","path":"/l","value":[{}0]}},"#, "0,".repeat(100_000));
        let shift = r#"{"op":"add","path":"/l/0","value":0}"#;
        assert!(many(&long, shift, 100).is_ok());
        assert_eq!(many(&long, shift, 9000).unwrap_err().code, 422);
    }

    #[test]
    fn a_merge_patch_does_not_nest_deeper_than_is_read() {
        let nested = |depth: usize| format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
        let merged = |depth| Patch::merge(nested(depth).as_bytes()).unwrap().apply(&json!({}));
        assert!(merged(100).is_ok());
        assert_eq!(merged(101).unwrap_err().code, 422);
    }

    #[test]
    fn faults_have_the_codes_clients_know() {
        let object = json!({"a": 1});
        let failing = Patch::json(br#"[{"op":"test","path":"/a","value":2}]"#).unwrap();
        assert_eq!(failing.apply(&object).unwrap_err().code, 422);
        let missing = Patch::json(br#"[{"op":"remove","path":"/b"}]"#).unwrap();
        assert_eq!(missing.apply(&object).unwrap_err().code, 422);
        assert_eq!(Patch::json(br#"[{"op":"zap","path":"/b"}]"#).unwrap_err().code, 422);
        assert_eq!(Patch::json(b"{").unwrap_err().code, 400);
        assert_eq!(Patch::merge(b"[]").unwrap_err().code, 400);
        let many = json!(vec![json!({"op": "test", "path": "/a", "value": 1}); 10_001]).to_string();
        assert_eq!(Patch::json(many.as_bytes()).unwrap_err().code, 413);
    }
}
