//! Embedded objects: objects within an object, with an `apiVersion`, a `kind` and `metadata` of their own.

use serde_json::Value;

use super::location::Location;
use super::{Kind, Schema};
use crate::field_errors::{FieldError, FieldPath};

/// Rules of `metadata` that all kinds share.
///
/// This crate knows schemas and not objects, so its user supplies them.
pub trait MetadataRules: Send + Sync + std::fmt::Debug {
    /// Returns the schema of `metadata` in an object that is being written.
    fn schema(&self) -> Value;

    /// Returns the decoding error of `metadata`, or `None` if each field has the right type.
    fn wrong_type(&self, metadata: &Value) -> Option<String>;

    /// Adds every error of the `metadata` of an embedded object, which does not need a name.
    fn validate_embedded(&self, metadata: &Value, path: &FieldPath, errors: &mut Vec<FieldError>);
}

impl Schema {
    /// Returns the same schema with rules for the `metadata` of its embedded objects.
    #[must_use]
    pub fn with_metadata_rules(mut self, rules: &'static dyn MetadataRules) -> Self {
        self.set_metadata_rules(rules);
        self
    }

    fn set_metadata_rules(&mut self, rules: &'static dyn MetadataRules) {
        if !self.has_embedded {
            return;
        }
        self.metadata_rules = Some(rules);
        match &mut self.kind {
            Kind::Object(object) => {
                let fields = object.properties.values_mut().chain(&mut object.additional);
                fields.for_each(|field| field.set_metadata_rules(rules));
            }
            Kind::List(list) => list.items.set_metadata_rules(rules),
            _ => {}
        }
    }

    /// Adds the errors of the `apiVersion`, `kind` and `metadata` of embedded objects.
    pub(super) fn check_embedded(&self, value: &Value, path: &Location<'_>, errors: &mut Vec<FieldError>) {
        if !self.has_embedded {
            return;
        }
        if let (true, Some(map)) = (self.embedded, value.as_object()) {
            for field in ["apiVersion", "kind"] {
                check_word(field, map.get(field), &path.child(field).path(), errors);
            }
            if let Some(metadata) = map.get("metadata") {
                self.check_metadata(metadata, &path.child("metadata").path(), errors);
            }
        }
        match (&self.kind, value) {
            (Kind::Object(object), Value::Object(map)) => {
                for (name, field) in map {
                    match object.properties.get(name) {
                        Some(schema) => schema.check_embedded(field, &path.child(name), errors),
                        None => {
                            if let Some(schema) = &object.additional {
                                schema.check_embedded(field, &path.key(name), errors);
                            }
                        }
                    }
                }
            }
            (Kind::List(list), Value::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    list.items.check_embedded(item, &path.index(index), errors);
                }
            }
            _ => {}
        }
    }

    fn check_metadata(&self, metadata: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
        let Some(rules) = self.metadata_rules else { return };
        if let Some(why) = rules.wrong_type(metadata) {
            return errors.push(FieldError::invalid(path.clone(), metadata, &why));
        }
        rules.validate_embedded(metadata, path, errors);
    }
}

/// Validates `apiVersion` or `kind`.
fn check_word(field: &str, found: Option<&Value>, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let Some(found) = found else { return errors.push(FieldError::required(path.clone(), "")) };
    let error = match (found.as_str(), field) {
        (None, _) => "must be a string".to_owned(),
        (Some(""), _) => "must not be empty".to_owned(),
        (Some(version), "apiVersion") if version.matches('/').count() > 1 => {
            format!("unexpected GroupVersion string: {version}")
        }
        (Some(kind), "kind") if !is_label_in_some_case(kind) => {
            format!("may have mixed case, but should otherwise match: {DNS_1035}")
        }
        _ => return,
    };
    errors.push(FieldError::invalid(path.clone(), found, &error));
}

fn is_label_in_some_case(kind: &str) -> bool {
    kind.len() <= 63
        && kind.starts_with(|c: char| c.is_ascii_alphabetic())
        && !kind.ends_with('-')
        && kind.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Upstream's error text for an invalid kind.
const DNS_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
    alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
    validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
