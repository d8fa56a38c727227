//! Namespace.

use apiserver_machinery::object;
use apiserver_machinery::strategy::Strategy;
use serde_json::{Value, json};

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
}
