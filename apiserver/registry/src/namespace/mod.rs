//! Namespace.

use apiserver_machinery::field_errors::{FieldError, FieldPath};
use apiserver_machinery::object;
use apiserver_machinery::protobuf::{Field, METADATA, Shape};
use apiserver_machinery::strategy::Strategy;
use serde_json::{Value, json};

/// Longest name: a namespace is a DNS label.
const LONGEST_NAME: usize = 63;

/// Namespace's own rules.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NamespaceStrategy;

impl Strategy for NamespaceStrategy {
    fn prepare(&self, new: &mut Value, _old: Option<&Value>) {
        let name = object::name(new).to_owned();
        let phase = if object::is_deleting(new) { "Terminating" } else { "Active" };
        if let Some(metadata) = object::metadata_mut(new) {
            let labels = metadata.entry("labels").or_insert_with(|| json!({}));
            if let Some(labels) = labels.as_object_mut() {
                labels.insert("kubernetes.io/metadata.name".to_owned(), json!(name));
            }
        }
        if let Some(root) = new.as_object_mut() {
            root.insert("status".to_owned(), json!({"phase": phase}));
        }
    }

    /// Names are narrower than other kinds': they are part of other names. Only on create, as they
    /// never change.
    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let name = object::name(new);
        if old.is_some() || (name.len() <= LONGEST_NAME && !name.contains('.')) {
            return Vec::new();
        }
        let detail = "a lowercase RFC 1123 label must consist of at most 63 lower case alphanumeric characters or \
                      '-', and must start and end with an alphanumeric character";
        vec![FieldError::invalid(FieldPath::new("metadata.name"), &json!(name), detail)]
    }

    fn protobuf(&self) -> Option<&'static [Field]> {
        Some(MESSAGE)
    }
}

/// The protobuf message, as far as clients may say anything of a namespace.
const MESSAGE: &[Field] = &[
    METADATA,
    Field::new(2, "spec", Shape::Message(&[Field::list(1, "finalizers", Shape::Text)])),
    Field::new(3, "status", Shape::Message(&[Field::new(1, "phase", Shape::Text)])),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_has_its_name_as_a_label_and_a_phase() {
        let mut namespace =
            json!({"metadata": {"name": "a", "labels": {"kubernetes.io/metadata.name": "b"}}});
        NamespaceStrategy.prepare(&mut namespace, None);
        assert_eq!(namespace["metadata"]["labels"], json!({"kubernetes.io/metadata.name": "a"}));
        assert_eq!(namespace["status"], json!({"phase": "Active"}));
        namespace["metadata"]["deletionTimestamp"] = json!("2026-11-21T06:00:00Z");
        NamespaceStrategy.prepare(&mut namespace, None);
        assert_eq!(namespace["status"], json!({"phase": "Terminating"}));
    }

    #[test]
    fn a_namespace_is_a_label_and_not_a_subdomain() {
        for (name, good) in
            [("team-1", true), ("a.b", false), (&"a".repeat(63), true), (&"a".repeat(64), false)]
        {
            let namespace = json!({"metadata": {"name": name}});
            assert_eq!(NamespaceStrategy.validate(&namespace, None).is_empty(), good, "{name}");
            assert_eq!(NamespaceStrategy.validate(&namespace, Some(&namespace)), [], "{name}");
        }
    }
}
