//! A kind for tests alone: `Widget` of `lab.example.io`, with a field for every way in which fields
//! can be owned. The vectors of the specification of server-side apply are about it.

use std::sync::Arc;

use apiserver_machinery::conversion::{Conversion, ConversionError};
use apiserver_machinery::resource::{Resource, Scale};
use apiserver_machinery::strategy::Strategy;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use apiserver_schema::{InvalidSchema, KindSchema};
use serde_json::{Value, json};

/// The schema of both versions.
const SCHEMA: &str = include_str!("../schema.json");

/// What a real server answered to a hundred and fifty requests about widgets, as JSON.
pub const VECTORS: &str = include_str!("../ssa-vectors.json");

/// What the bodies of those requests that are said in words change in the live object: by their
/// words, merge patches, as JSON.
pub const CHANGES: &str = include_str!("../changes.json");

/// What a kube-apiserver 1.36.3 answered to sequences of random requests about widgets, as JSON: after
/// each request the code and the object or the error, without what differs from server to server. In
/// owners, `time` says whether there is one.
pub const RECORDED: &str = include_str!("../recorded.json");

const GROUP: &str = "lab.example.io";

/// `Widget` in `v1`, which is stored, and in `v1beta1`, which clients should leave.
///
/// # Errors
/// When the schema is not structural.
pub fn resources() -> Result<Vec<Resource>, InvalidSchema> {
    let older = Resource {
        deprecation: Some(format!("{GROUP}/v1beta1 Widget is deprecated; use {GROUP}/v1 Widget")),
        conversion: Some(Arc::new(OtherName)),
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
        strategy: Arc::new(OnceSet),
        verbs: Vec::new(),
    })
}

/// The versions differ in name alone.
#[derive(Debug)]
struct OtherName;

impl OtherName {
    fn named(mut object: Value, version: &str) -> Value {
        if let Some(root) = object.as_object_mut() {
            root.insert("apiVersion".to_owned(), Value::from(format!("{GROUP}/{version}")));
        }
        object
    }
}

impl Conversion for OtherName {
    fn stored(&self, object: Value) -> Result<Value, ConversionError> {
        Ok(Self::named(object, "v1"))
    }

    fn served(&self, object: Value) -> Result<Value, ConversionError> {
        Ok(Self::named(object, "v1beta1"))
    }
}

/// `spec.immut` stays what it was when it was first set.
#[derive(Debug)]
struct OnceSet;

impl Strategy for OnceSet {
    fn ignores_status(&self) -> bool {
        true
    }

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
