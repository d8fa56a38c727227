//! Rules of `metadata` for each kind of write. Upstream validates metadata in several layers, and each layer adds its
//! own cause for the same error.

use std::collections::{BTreeSet, HashSet};

use serde_json::{Value, json};

use crate::metadata::{
    path_segment_errors, refuse, validate_annotations, validate_finalizers, validate_labels,
    validate_managed_fields, validate_owners,
};
use crate::object;
use crate::resource::Resource;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use apiserver_schema::go_text::quoted;

/// Stored object of an update, and facts about the update.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Previous<'a> {
    /// The stored object.
    pub(crate) object: &'a Value,
    /// Errors of the immutable fields that the update would change.
    pub(crate) immutable: &'a [FieldError],
    /// True if the update does not change `spec`. Then errors that the stored object has, too, do not count: a client
    /// that writes a status or a label, or removes a finalizer, need not repair the object first.
    pub(crate) keeps_spec: bool,
}

/// Returns every error of `new`'s metadata. `old` is the stored object, absent on create.
pub fn validate_metadata(resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    match old {
        None => validate_new(resource, new),
        Some(object) => validate_update(new, Previous { object, immutable: &[], keeps_spec: false }),
    }
}

/// Returns every error of a new object's metadata.
pub(crate) fn validate_new(resource: &Resource, new: &Value) -> Vec<FieldError> {
    let path = FieldPath::new("metadata");
    let mut errors = Vec::new();
    validate_name(resource, new, &path, &mut errors);
    validate_namespace(resource, new, &path, &mut errors);
    Written::of(new, &path).add_with_finalizers(new, &path, &mut errors);
    errors
}

/// Returns every error of an updated object's metadata, each as often as upstream reports it.
pub(crate) fn validate_update(new: &Value, before: Previous<'_>) -> Vec<FieldError> {
    let path = FieldPath::new("metadata");
    let written = Written::of(new, &path);
    let mut errors = validate_version(new, before, &path, &written);
    add_change_errors(new, before, &path, &written, &mut errors);
    errors
}

/// Returns the same errors with one layer of validation fewer: without that of the kind itself.
pub(crate) fn validate_update_once(new: &Value, before: Previous<'_>) -> Vec<FieldError> {
    let path = FieldPath::new("metadata");
    validate_version(new, before, &path, &Written::of(new, &path))
}

fn validate_version(
    new: &Value,
    before: Previous<'_>,
    path: &FieldPath,
    written: &Written,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let prefix = object::meta(new, "generateName");
    // It was the prefix of a name. No name is generated from it any more.
    refuse(&path.child("generateName"), &json!(prefix), path_segment_errors(prefix), &mut errors);
    written.add_with_finalizers(new, path, &mut errors);
    add_change_errors(new, before, path, written, &mut errors);
    errors
}

/// Errors of the metadata that clients write, which each of upstream's layers repeats.
struct Written {
    /// Errors of labels, annotations and owner references.
    errors: Vec<FieldError>,
    /// Errors of field managers, which some layers report after the finalizers.
    managers: Vec<FieldError>,
}

impl Written {
    fn of(new: &Value, path: &FieldPath) -> Self {
        let (mut errors, mut managers) = (Vec::new(), Vec::new());
        validate_labels(new, path, &mut errors);
        validate_annotations(new, path, &mut errors);
        validate_owners(new, path, &mut errors);
        validate_managers(new, path, &mut managers);
        Self { errors, managers }
    }

    fn add_with_finalizers(&self, new: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
        errors.extend(self.errors.iter().cloned());
        validate_finalizers(new, path, errors);
        errors.extend(self.managers.iter().cloned());
    }
}

/// Adds the errors of one layer for a change.
fn add_change_errors(
    new: &Value,
    before: Previous<'_>,
    path: &FieldPath,
    written: &Written,
    errors: &mut Vec<FieldError>,
) {
    if object::is_deleting(before.object) {
        refuse_more_finalizers(new, before.object, path, errors);
    }
    errors.extend(before.immutable.iter().cloned());
    errors.extend(written.errors.iter().chain(&written.managers).cloned());
}

fn validate_name(resource: &Resource, new: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let prefix = object::meta(new, "generateName");
    if !prefix.is_empty() {
        let begun = without_hyphen(prefix);
        refuse(&path.child("generateName"), &json!(prefix), resource.strategy.name_errors(&begun), errors);
    }
    let name = object::name(new);
    if name.is_empty() {
        errors.push(FieldError::required(path.child("name"), "name or generateName is required"));
    } else {
        refuse(&path.child("name"), &json!(name), resource.strategy.name_errors(name), errors);
    }
}

/// Converts a prefix for the validation of names: a final hyphen is followed by a suffix. Upstream replaces it and the
/// byte before it by a letter.
fn without_hyphen(prefix: &str) -> String {
    match prefix.strip_suffix('-') {
        None | Some("") => prefix.to_owned(),
        Some(begun) => {
            let kept = begun.as_bytes().split_last().map_or(&[][..], |(_, kept)| kept);
            format!("{}a", String::from_utf8_lossy(kept))
        }
    }
}

fn validate_namespace(resource: &Resource, new: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let namespace = object::namespace(new);
    if resource.namespaced && namespace.is_empty() {
        errors.push(FieldError::required(path.child("namespace"), ""));
    }
    if !resource.namespaced && !namespace.is_empty() {
        errors.push(FieldError::forbidden(path.child("namespace"), "not allowed on this type"));
    }
}

fn validate_managers(new: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    if let Some(entries) = object::at(new, "metadata.managedFields").and_then(Value::as_array) {
        validate_managed_fields(entries, &path.child("managedFields"), errors);
    }
}

/// Refuses additional finalizers on an object that is being deleted.
fn refuse_more_finalizers(new: &Value, old: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let before: HashSet<&str> = object::finalizers(old).into_iter().collect();
    let added: BTreeSet<&str> =
        object::finalizers(new).into_iter().filter(|finalizer| !before.contains(finalizer)).collect();
    if !added.is_empty() {
        let detail = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            added.into_iter().map(quoted).collect::<Vec<_>>().join(", ")
        );
        errors.push(FieldError::forbidden(path.child("finalizers"), &detail));
    }
}
