//! Test kind `Widget` of `lab.example.io`, with a field for every way in which field managers can own fields.
//! The test vectors of server-side apply use it.

use std::sync::Arc;

use apiserver_machinery::conversion::{Conversion, ConversionError};
use apiserver_machinery::resource::{Resource, Scale};
use apiserver_machinery::strategy::Strategy;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use apiserver_schema::{InvalidSchema, KindSchema};
use serde_json::{Value, json};

/// The schema of both versions.
const SCHEMA: &str = include_str!("../schema.json");

/// Responses of a real server to 150 requests for widgets, as JSON.
pub const VECTORS: &str = include_str!("../ssa-vectors.json");

/// Merge patches with the effect of those request bodies that the vectors only describe in prose, as JSON.
/// The key is the description.
pub const CHANGES: &str = include_str!("../changes.json");

/// Responses of a kube-apiserver 1.36.3 to sequences of random requests for widgets, as JSON. Each has the
/// code and the object or the error, without the parts that differ between servers. In managedFields, `time`
/// says whether there is a time.
pub const RECORDED: &str = include_str!("../recorded.json");

const GROUP: &str = "lab.example.io";

/// Returns `Widget` in `v1`, which is stored, and in `v1beta1`, which is deprecated.
///
/// # Errors
/// Returns an error if the schema is not structural.
pub fn resources() -> Result<Vec<Resource>, InvalidSchema> {
    let older = Resource {
        deprecation: Some(format!("{GROUP}/v1beta1 Widget is deprecated; use {GROUP}/v1 Widget")),
        conversion: Some(Arc::new(RenameOnlyConversion)),
        ..resource("v1beta1")?
    };
    Ok(vec![resource("v1")?, older])
}

fn resource(version: &str) -> Result<Resource, InvalidSchema> {
    let mut open_api: Value = serde_json::from_str(SCHEMA).unwrap_or_default();
    open_api["properties"]["metadata"] = json!({"type": "object"});
    let schema = KindSchema::new(apiserver_machinery::metadata::RULES, move || open_api.clone());
    schema.check()?;
    Ok(Resource {
        group: GROUP.to_owned(),
        version: version.to_owned(),
        kind: "Widget".to_owned(),
        plural: "widgets".to_owned(),
        singular: "widget".to_owned(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        status_subresource: true,
        scale: Some(Scale {
            spec_replicas: ".spec.replicas".to_owned(),
            status_replicas: ".status.replicas".to_owned(),
            selector: Some(".status.selector".to_owned()),
        }),
        deprecation: None,
        conversion: None,
        generation: true,
        hosted: true,
        columns: Vec::new(),
        selectable: Vec::new(),
        schema,
        strategy: Arc::new(WidgetStrategy),
        verbs: Vec::new(),
        preview: None,
    })
}

/// Conversion between two versions that differ in their name only.
#[derive(Debug)]
struct RenameOnlyConversion;

impl RenameOnlyConversion {
    fn with_version(mut object: Value, version: &str) -> Value {
        if let Some(root) = object.as_object_mut() {
            root.insert("apiVersion".to_owned(), Value::from(format!("{GROUP}/{version}")));
        }
        object
    }
}

impl Conversion for RenameOnlyConversion {
    fn stored(&self, object: Value) -> Result<Value, ConversionError> {
        Ok(Self::with_version(object, "v1"))
    }

    fn served(&self, object: Value) -> Result<Value, ConversionError> {
        Ok(Self::with_version(object, "v1beta1"))
    }
}

/// Strategy with one rule: `spec.immut` cannot change once it is set.
#[derive(Debug)]
struct WidgetStrategy;

impl Strategy for WidgetStrategy {
    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let field =
            |object: &'_ Value| object.pointer("/spec/immut").filter(|value| !value.is_null()).cloned();
        match (field(new), old.and_then(field)) {
            (Some(new), Some(old)) if new != old => {
                vec![FieldError::invalid(FieldPath::new("spec.immut"), &new, "failed rule: self == oldSelf")]
            }
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_stored_version_comes_first() {
        let versions: Vec<String> =
            super::resources().unwrap().into_iter().map(|resource| resource.api_version()).collect();
        assert_eq!(versions, ["lab.example.io/v1", "lab.example.io/v1beta1"]);
    }
}
