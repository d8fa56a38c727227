//! Comparison of an object with what it is to be, after the changes that an extension server can make. Pure.

use controllers_extensions::{PatchDocument, UpdatePatch};
use controllers_topology::patches::{Generated, applied};
use serde_json::{Value, json};

use crate::plan::changed_fields;

/// Fields of a Machine's spec that do not count: they never change, change without an update, or name other objects.
pub(crate) const MACHINE_FIELDS: &[&str] = &[
    "clusterName",
    "bootstrap",
    "infrastructureRef",
    "providerID",
    "minReadySeconds",
    "readinessGates",
    "deletion",
    "taints",
];

/// Change of an object, with the part of it that a server can make.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Change<'a> {
    /// Kind and name of the object. For people.
    pub title: &'a str,
    pub current: &'a Value,
    pub desired: &'a Value,
    pub patch: &'a UpdatePatch,
}

impl Change<'_> {
    /// Returns the fields below a path, e.g. `spec.template.spec`, that stay different, one line each. Only there may the
    /// patch change the object. `ignored` are fields below the path that do not count.
    ///
    /// # Errors
    /// The patch cannot be used. For people; no value is in the text.
    pub(crate) fn uncovered(&self, path: &str, ignored: &[&str]) -> Result<Vec<String>, String> {
        let pointer = format!("/{}", path.replace('.', "/"));
        let part = |object: &Value| {
            let part = object.pointer(&pointer).filter(|part| !part.is_null());
            let mut part = part.cloned().unwrap_or_else(|| json!({}));
            if let Some(fields) = part.as_object_mut() {
                fields.retain(|name, _| !ignored.contains(&name.as_str()));
            }
            part
        };
        let mut fields = Vec::new();
        changed_fields(path, &part(&self.patched()?), &part(self.desired), &mut fields);
        Ok(fields.into_iter().map(|field| format!("{} {field}", self.title)).collect())
    }

    fn patched(&self) -> Result<Value, String> {
        let wrong = |why: String| format!("the patch of {} cannot be used: {why}", self.title);
        let Some(patch) = self.patch.document().map_err(wrong)? else { return Ok(self.current.clone()) };
        let patch = match &patch {
            PatchDocument::Json(operations) => Generated::Operations(operations),
            PatchDocument::Merge(fields) => Generated::Fields(fields),
        };
        applied(self.current, patch).map_err(wrong)
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    fn patch(kind: &str, patch: &Value) -> UpdatePatch {
        UpdatePatch { patch_type: kind.to_owned(), patch: STANDARD.encode(patch.to_string()) }
    }

    fn template(spec: &Value) -> Value {
        json!({"kind": "T", "metadata": {"name": "t"}, "spec": {"template": {"spec": spec}}})
    }

    fn uncovered(current: &Value, desired: &Value, patch: &UpdatePatch) -> Result<Vec<String>, String> {
        let (current, desired) = (template(current), template(desired));
        let change = Change { title: "T t", current: &current, desired: &desired, patch };
        change.uncovered("spec.template.spec", &["clusterName"])
    }

    #[test]
    fn what_the_patch_of_a_server_does_not_make_equal_is_named() {
        let old = json!({"a": 1, "files": [1], "clusterName": "x"});
        let new = json!({"a": 2, "files": [1, 2]});
        let none = UpdatePatch::default();
        let both = ["T t spec.template.spec.a", "T t spec.template.spec.files"];
        assert_eq!(uncovered(&old, &new, &none).unwrap(), both);
        let fields = patch("JSONMergePatch", &template(&json!({"a": 2})));
        assert_eq!(uncovered(&old, &new, &fields).unwrap(), both[1..]);
        let at = |path: &str| format!("/spec/template/spec/{path}");
        let operations = json!([
            {"op": "replace", "path": at("a"), "value": 2}, {"op": "add", "path": at("files/-"), "value": 2},
        ]);
        assert_eq!(uncovered(&old, &new, &patch("JSONPatch", &operations)).unwrap(), [""; 0]);
        let absent = uncovered(&json!({}), &Value::Null, &none).unwrap();
        assert_eq!(absent, [""; 0], "absent and empty are equal");
    }

    #[test]
    fn a_patch_outside_the_path_makes_nothing_equal() {
        let fields = json!({"spec": {"a": 2}, "metadata": {"labels": {"a": "2"}}});
        let elsewhere = patch("JSONMergePatch", &fields);
        let found = uncovered(&json!({"a": 1}), &json!({"a": 2}), &elsewhere).unwrap();
        assert_eq!(found, ["T t spec.template.spec.a"]);
    }

    #[test]
    fn a_patch_that_cannot_be_used_is_an_error_that_names_the_object() {
        let missing = json!([{"op": "remove", "path": "/spec/none"}]);
        for (patch, expected) in [
            (patch("JSONPatch", &missing), "the patch of T t cannot be used: operation 0"),
            (patch("Text", &json!({})), "patchType is \"Text\""),
        ] {
            let error = uncovered(&json!({}), &json!({}), &patch).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
