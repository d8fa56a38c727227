//! Schema of a kind in its published form, compiled on first use.
//!
//! A server with eighty kinds and versions uses only a few of them. Compiling all schemas took most of the start time,
//! and half of the memory of an idle server.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::{InvalidSchema, MetadataRules, Schema};

/// Schema of a kind in one version. Clones share the compiled form.
#[derive(Clone)]
pub struct KindSchema(Arc<Inner>);

struct Inner {
    metadata: Option<&'static dyn MetadataRules>,
    publish: Box<dyn Fn() -> Value + Send + Sync>,
    of_typed: bool,
    compiled: OnceLock<Schema>,
}

impl KindSchema {
    /// Creates the schema of a kind from `publish`, which returns the same structural schema at every call. In that
    /// schema, `metadata` is an object without properties.
    ///
    /// A schema that is not structural is a mistake in the kind, which [`KindSchema::check`] reports in its tests. If
    /// such a schema is used, it rejects every object with this error.
    pub fn new(
        metadata: &'static dyn MetadataRules,
        publish: impl Fn() -> Value + Send + Sync + 'static,
    ) -> Self {
        Self::build(Some(metadata), Box::new(publish), false)
    }

    /// Creates the schema of an action's request body, which is a kind without `metadata`.
    pub fn of_body(publish: impl Fn() -> Value + Send + Sync + 'static) -> Self {
        Self::build(None, Box::new(publish), false)
    }

    /// Creates the schema of a kind that clients decode into Go types, where an int-or-string has 32 bits. The
    /// published schema does not contain this limit. A larger number would make the clients fail on every list with the
    /// object.
    pub fn of_typed(
        metadata: &'static dyn MetadataRules,
        publish: impl Fn() -> Value + Send + Sync + 'static,
    ) -> Self {
        Self::build(Some(metadata), Box::new(publish), true)
    }

    fn build(
        metadata: Option<&'static dyn MetadataRules>,
        publish: Box<dyn Fn() -> Value + Send + Sync>,
        of_typed: bool,
    ) -> Self {
        Self(Arc::new(Inner { metadata, publish, of_typed, compiled: OnceLock::new() }))
    }

    /// Compiles the schema now.
    ///
    /// # Errors
    /// [`InvalidSchema`] names the location and the problem.
    pub fn check(&self) -> Result<(), InvalidSchema> {
        let compiled = self.0.compile()?;
        self.0.compiled.get_or_init(|| compiled);
        Ok(())
    }

    /// Returns the published form, which is built at each call.
    pub fn published(&self) -> Value {
        (self.0.publish)()
    }
}

impl Inner {
    /// Compiles the schema, with the fields of `metadata` if the kind has metadata.
    fn compile(&self) -> Result<Schema, InvalidSchema> {
        let mut whole = (self.publish)();
        if self.of_typed {
            narrow(&mut whole);
        }
        let Some(metadata) = self.metadata else { return Schema::compile(&whole) };
        whole["properties"]["metadata"] = metadata.schema();
        Ok(Schema::compile(&whole)?.with_metadata_rules(metadata))
    }
}

/// Limits every int-or-string to 32 bits.
fn narrow(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            map.values_mut().for_each(narrow);
            if map.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
                map.entry("minimum").or_insert(i32::MIN.into());
                map.entry("maximum").or_insert(i32::MAX.into());
            }
        }
        Value::Array(items) => items.iter_mut().for_each(narrow),
        _ => {}
    }
}

/// Dereferences to the compiled schema.
impl Deref for KindSchema {
    type Target = Schema;

    fn deref(&self) -> &Schema {
        let compile = || self.0.compile().unwrap_or_else(|error| Schema::rejecting(&error));
        self.0.compiled.get_or_init(compile)
    }
}

impl fmt::Debug for KindSchema {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_compiled = self.0.compiled.get().is_some();
        formatter.debug_struct("KindSchema").field("is_compiled", &is_compiled).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::field_errors::FieldPath;
    use crate::tests::TestMetadata;

    #[test]
    fn an_invalid_schema_refuses_every_object_with_the_compilation_error() {
        let schema = KindSchema::new(
            &TestMetadata,
            || json!({"type": "object", "properties": {"spec": {"type": "text"}}}),
        );
        let why = schema.check().unwrap_err().to_string();
        let errors = schema.validate(&json!({"spec": "a"}), None, &FieldPath::default());
        let found: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert!(why.contains("unknown type \"text\"") && found.len() == 1, "{found:?}");
        assert!(
            found.iter().all(|error| error.contains(".spec") && error.contains("unknown type")),
            "{found:?}"
        );
    }

    #[test]
    fn copies_share_the_compiled_schema_and_know_metadata() {
        let schema = KindSchema::new(&TestMetadata, || json!({"type": "object", "properties": {}}));
        let copy = schema.clone();
        copy.check().unwrap();
        assert!(std::ptr::eq(&raw const *schema, &raw const *copy));
        let mut object = json!({"metadata": {"name": "a", "labels": {"a": "b"}}, "unknown": 1});
        assert_eq!(schema.prune(&mut object, &FieldPath::default()), ["unknown"]);
    }

    #[test]
    fn a_body_has_no_metadata_unless_declared() {
        let schema =
            KindSchema::of_body(|| json!({"type": "object", "properties": {"kind": {"type": "string"}}}));
        let mut body = json!({"kind": "Reboot", "metadata": {"name": "a"}});
        assert_eq!(schema.prune(&mut body, &FieldPath::default()), ["metadata"]);
    }
}
