//! JSON patch and JSON merge patch.

mod effort;
mod obstacle;
mod operation;

use serde_json::{Map, Value, json};

use self::effort::{Effort, TooMuch};
pub use self::obstacle::Obstacle;
use self::operation::Operation;
use crate::field_validation::FieldValidation;
use crate::metadata::{unknowable_kind, word};
use crate::object;
use crate::status::{ApiError, ApiResult};
use apiserver_schema::field_errors::{FieldError, FieldPath};
use apiserver_schema::merge_patch;

/// Maximum number of operations of one JSON patch: upstream's limit.
const MOST_OPERATIONS: usize = 10_000;

/// Maximum number of errors that are reported of one patch: upstream's limit.
const MAX_ERRORS: usize = 100;

/// The fields of an operation.
const FIELDS: [&str; 4] = ["op", "path", "from", "value"];

/// A decoded patch, or the error of decoding it. The error is reported when the patch is applied, so that a missing
/// object is reported first.
#[derive(Debug, Clone)]
pub struct Patch {
    change: Change,
    errors: Vec<String>,
}

#[derive(Debug, Clone)]
enum Change {
    /// RFC 6902.
    Operations(Vec<Operation>),
    /// RFC 7386.
    Merge(Map<String, Value>),
    /// A merge patch that replaces the whole object.
    Whole(Value),
    Refused(ApiError),
}

impl Patch {
    /// Decodes an RFC 6902 document. `duplicates` are the paths of its duplicate fields.
    ///
    /// Applying it fails with 400 if it is no such document, and with 413 if it has too many operations.
    pub fn json(document: Value, duplicates: &[String], validation: FieldValidation) -> Self {
        let is_checked = validation != FieldValidation::Ignore;
        let operations = match document {
            Value::Array(operations) => operations,
            Value::Null => Vec::new(),
            other if is_checked => {
                return Self::refused(unfit(&other, "value of type []handlers.jsonPatchOp"));
            }
            other => return Self::refused(unfit_unchecked(&other, "jsonpatch.Patch")),
        };
        let errors = if is_checked { errors(&operations, duplicates) } else { Vec::new() };
        let count = operations.len();
        let mut decoded = Vec::with_capacity(count.min(MOST_OPERATIONS));
        for operation in operations {
            match decode(operation, is_checked) {
                Ok(operation) => decoded.push(operation),
                Err(error) => return Self::refused(error),
            }
        }
        if count > MOST_OPERATIONS {
            return Self::refused(ApiError::too_large(format!(
                "Request entity too large: The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {count}"
            )));
        }
        Self { change: Change::Operations(decoded), errors }
    }

    /// Decodes an RFC 7386 document. `duplicates` are the paths of its duplicate fields.
    ///
    /// Applying it fails with 400 if it is no object.
    pub fn merge(document: Value, duplicates: &[String], validation: FieldValidation) -> Self {
        let is_checked = validation != FieldValidation::Ignore;
        let change = match document {
            Value::Object(fields) => Change::Merge(fields),
            Value::Array(_) if !is_checked => Change::Whole(merge_patch::without_nulls(&document)),
            other if is_checked && !other.is_null() => {
                Change::Refused(unfit(&other, "value of type map[string]interface {}"))
            }
            _ => Change::Refused(ApiError::bad_request("Invalid JSON Patch")),
        };
        let errors = if is_checked { duplicates } else { &[] };
        Self { change, errors: errors.iter().map(|path| format!("duplicate field {path:?}")).collect() }
    }

    /// Decodes a strategic merge patch that means the same as a merge patch: one without directives, and without the
    /// lists of metadata that it would merge by key.
    ///
    /// Applying it fails with 400 if it is no object, and with 422 if it needs more than merging.
    pub fn strategic(document: Value, duplicates: &[String], validation: FieldValidation) -> Self {
        let merged_by_key = ["finalizers", "ownerReferences"];
        let lists = document
            .get("metadata")
            .is_some_and(|meta| merged_by_key.iter().any(|list| meta.get(list).is_some()));
        if lists || has_directive(&document) {
            let message = "only strategic merge patches without directives and without metadata.finalizers and \
                           metadata.ownerReferences are read here; use a merge patch (--type=merge)";
            return Self::refused(ApiError::untyped(422, message));
        }
        Self::merge(document, duplicates, validation)
    }

    /// Creates a patch that could not be decoded.
    pub fn refused(error: ApiError) -> Self {
        Self { change: Change::Refused(error), errors: Vec::new() }
    }

    /// Returns the warnings for the client. They are errors if fields are validated strictly.
    pub fn errors(&self) -> &[String] {
        &self.errors
    }

    /// Applies the patch to an object.
    ///
    /// # Errors
    /// 422 if an operation cannot be carried out, or if the result is no object; else the error of decoding.
    pub fn apply(&self, object: &Value) -> ApiResult<Value> {
        self.carry_out(object.clone())
    }

    /// Applies the patch to an object that the author of the patch does not see.
    ///
    /// # Errors
    /// [`Obstacle`] names the operation that cannot be carried out.
    pub fn attempt(&self, object: &Value) -> Result<Value, Obstacle> {
        self.changed(object.clone())
    }

    /// Returns true if the patch neither reads nor writes `metadata.managedFields`.
    pub(crate) fn leaves_managers(&self) -> bool {
        let Change::Merge(fields) = &self.change else { return false };
        match fields.get("metadata") {
            None => true,
            Some(Value::Object(metadata)) => !metadata.contains_key("managedFields"),
            Some(_) => false,
        }
    }

    /// Returns true if the patch neither reads nor writes this field of the object.
    pub(crate) fn leaves_unchanged(&self, field: &str) -> bool {
        match &self.change {
            Change::Operations(operations) => !operations.iter().any(|operation| operation.is_of(field)),
            Change::Merge(fields) => !fields.contains_key(field),
            Change::Whole(_) | Change::Refused(_) => false,
        }
    }

    /// Applies the patch in place.
    pub(crate) fn carry_out(&self, object: Value) -> ApiResult<Value> {
        self.changed(object).map_err(ApiError::from)
    }

    fn changed(&self, mut patched: Value) -> Result<Value, Obstacle> {
        match &self.change {
            Change::Operations(operations) => {
                let mut effort = Effort::default();
                for (index, operation) in operations.iter().enumerate() {
                    operation.weigh(&mut patched, &mut effort).map_err(refused)?;
                    if operation.carry_out(&mut patched).is_none() {
                        return Err(Obstacle::of(index, operation, &mut patched));
                    }
                }
            }
            Change::Merge(patch) => {
                if let Value::Object(fields) = &mut patched {
                    merge_patch::merge(fields, patch);
                }
            }
            Change::Whole(value) => patched = value.clone(),
            Change::Refused(error) => return Err(error.clone().into()),
        }
        if object::is_too_deep(&patched) {
            return Err(refused(TooMuch::Deep).into());
        }
        check_kind(&patched)?;
        Ok(patched)
    }
}

/// Upstream has a limit for copies, and this response. It has no other limits.
fn refused(why: TooMuch) -> ApiError {
    let detail = match why {
        TooMuch::Copied => return ApiError::unprocessable_patch(),
        TooMuch::Deep => format!("it nests the object more than {} deep", object::DEEPEST),
        TooMuch::Touched => "it moves too much about: send several patches".to_owned(),
    };
    ApiError::invalid_kind("", "", &[FieldError::forbidden(FieldPath::new("patch"), &detail)])
}

/// Returns the refusal of the result of a patch, with that result.
pub fn invalid(patched: &Value, why: &str) -> ApiError {
    let error = FieldError::invalid(FieldPath::new("patch"), &json!(patched.to_string()), why);
    ApiError::invalid_kind("", "", &[error])
}

/// Checks that the patched object still has a kind.
fn check_kind(patched: &Value) -> ApiResult<()> {
    if let Some(why) = unknowable_kind(patched) {
        return Err(invalid(patched, &why));
    }
    if patched.get("kind").and_then(Value::as_str).unwrap_or_default().is_empty() {
        return Err(invalid(patched, &format!("Object 'Kind' is missing in '{patched}'")));
    }
    Ok(())
}

/// Decodes one operation. An invalid one is an error of the patch, and not of its encoding.
fn decode(operation: Value, is_checked: bool) -> ApiResult<Operation> {
    let fields = match operation {
        Value::Object(fields) => fields,
        Value::Null => Map::new(),
        other if is_checked => return Err(unfit(&other, "value of type handlers.jsonPatchOp")),
        other => return Err(unfit_unchecked(&other, "jsonpatch.Operation")),
    };
    let is_wrong =
        |name: &&str| fields.get(*name).is_some_and(|value| !value.is_string() && !value.is_null());
    let texts = ["op", "path", "from"];
    match texts
        .iter()
        .find(|name| is_checked && is_wrong(name))
        .and_then(|name| Some((name, fields.get(*name)?)))
    {
        Some((name, value)) => Err(unfit(value, &format!("struct field jsonPatchOp.{name} of type string"))),
        None => Ok(Operation::new(fields)),
    }
}

/// Returns the warnings about duplicate and unknown fields.
fn errors(operations: &[Value], duplicates: &[String]) -> Vec<String> {
    let unknown = operations.iter().enumerate().flat_map(|(index, operation)| {
        let names = operation.as_object().into_iter().flat_map(Map::keys);
        names.filter(|name| !FIELDS.contains(&name.as_str())).map(move |name| format!("[{index}].{name}"))
    });
    let unknown: Vec<String> = unknown.take(MAX_ERRORS).collect();
    let twice = duplicates.iter().filter(|path| !unknown.contains(path));
    let twice = twice.map(|path| format!("json patch duplicate field {path:?}"));
    twice
        .chain(unknown.iter().map(|path| format!("json patch unknown field {path:?}")))
        .take(MAX_ERRORS)
        .collect()
}

fn unfit(value: &Value, target: &str) -> ApiError {
    let message = "error decoding patch: json: cannot unmarshal";
    ApiError::bad_request(format!("{message} {} into Go {target}", word(value)))
}

/// The same in the words of upstream's second decoder, which decodes if the first one is skipped.
fn unfit_unchecked(value: &Value, target: &str) -> ApiError {
    ApiError::bad_request(format!("json: cannot unmarshal {} into Go value of type {target}", word(value)))
}

/// Returns true if the value contains a directive such as `$patch` or `$setElementOrder/…`.
fn has_directive(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.iter().any(|(key, value)| key.starts_with('$') || has_directive(value)),
        Value::Array(items) => items.iter().any(has_directive),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WARN: FieldValidation = FieldValidation::Warn;

    #[test]
    fn merge_and_json_patches_are_applied() {
        let object = json!({"kind": "K", "a": 1, "l": [1], "m": {"x": 1}});
        let merge = Patch::merge(json!({"a": null, "m": {"y": 2}}), &[], WARN);
        assert_eq!(merge.apply(&object), Ok(json!({"kind": "K", "l": [1], "m": {"x": 1, "y": 2}})));
        let operations =
            json!([{"op": "test", "path": "/a", "value": 1}, {"op": "add", "path": "/l/-", "value": 2}]);
        let patched = Patch::json(operations, &[], WARN).apply(&object);
        assert_eq!(patched, Ok(json!({"kind": "K", "a": 1, "l": [1, 2], "m": {"x": 1}})));
        assert_eq!(Patch::json(Value::Null, &[], WARN).apply(&object), Ok(object));
    }

    #[test]
    fn a_strategic_patch_is_accepted_if_it_only_merges() {
        let object = json!({"kind": "K", "data": {"c": "d"}, "metadata": {"labels": {"x": "y"}}});
        let patch = json!({"data": {"a": "b"}, "metadata": {"labels": {"x": null}}});
        assert_eq!(
            Patch::strategic(patch, &[], WARN).apply(&object),
            Ok(json!({"kind": "K", "data": {"a": "b", "c": "d"}, "metadata": {"labels": {}}}))
        );
        for patch in [json!({"data": {"$patch": "replace"}}), json!({"metadata": {"finalizers": ["a"]}})] {
            assert_eq!(Patch::strategic(patch, &[], WARN).apply(&object).unwrap_err().code, 422);
        }
    }

    #[test]
    fn a_small_patch_cannot_create_a_huge_object() {
        let object = json!({"kind": "K", "l": [], "d": {}});
        let many = |prefix: &str, often: &str, times: usize| {
            let patch = format!("[{prefix}{}]", vec![often; times].join(","));
            Patch::json(serde_json::from_str(&patch).unwrap(), &[], WARN).apply(&object)
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
    fn a_merge_patch_cannot_exceed_the_nesting_limit() {
        let nested = |depth: usize| (0..depth).fold(json!(1), |inner, _| json!({"a": inner}));
        let merged = |depth| Patch::merge(nested(depth), &[], WARN).apply(&json!({"kind": "K"}));
        assert!(merged(100).is_ok());
        assert_eq!(merged(101).unwrap_err().code, 422);
    }

    #[test]
    fn errors_have_the_codes_of_kube_apiserver() {
        let object = json!({"kind": "K", "a": 1});
        let json =
            |document: Value, validation| Patch::json(document, &[], validation).apply(&object).unwrap_err();
        let many = json!(vec![json!({"op": "test", "path": "/a", "value": 1}); 10_001]);
        let table = [
            (json!([{"op": "test", "path": "/a", "value": 2}]), 422, 422),
            (json!([{"op": "remove", "path": "/b"}]), 422, 422),
            (json!([{"op": "zap", "path": "/b"}]), 422, 422),
            (json!([null]), 422, 422),
            (json!([{"op": 1}]), 400, 422),
            (json!([{"op": "test", "path": "/a", "from": []}]), 400, 422),
            (json!([1]), 400, 400),
            (json!({}), 400, 400),
            (json!([{"op": "replace", "path": "", "value": []}]), 422, 422),
            (json!([{"op": "remove", "path": "/kind"}]), 422, 422),
            (many, 413, 413),
        ];
        for (document, checked, unchecked) in table {
            assert_eq!(json(document.clone(), WARN).code, checked, "{document}");
            assert_eq!(json(document.clone(), FieldValidation::Ignore).code, unchecked, "{document}");
        }
        let merge =
            |document: Value, validation| Patch::merge(document, &[], validation).apply(&object).unwrap_err();
        assert_eq!(merge(json!([]), WARN).code, 400);
        assert_eq!(merge(json!([]), FieldValidation::Ignore).code, 422);
        assert_eq!(merge(json!(1), FieldValidation::Ignore).message, "Invalid JSON Patch");
        assert_eq!(merge(Value::Null, WARN).message, "Invalid JSON Patch");
    }

    #[test]
    fn duplicate_and_unknown_fields_are_reported() {
        let document = json!([{"op": "test", "path": "/kind", "value": "K", "foo": 1}]);
        let duplicates = ["[0].op".to_owned(), "[0].foo".to_owned()];
        let patch = Patch::json(document.clone(), &duplicates, WARN);
        assert_eq!(
            patch.errors(),
            [r#"json patch duplicate field "[0].op""#, r#"json patch unknown field "[0].foo""#]
        );
        assert!(Patch::json(document, &duplicates, FieldValidation::Ignore).errors().is_empty());
        let patch = Patch::merge(json!({"a": 1}), &["a".to_owned()], WARN);
        assert_eq!(patch.errors(), [r#"duplicate field "a""#]);
    }
}
