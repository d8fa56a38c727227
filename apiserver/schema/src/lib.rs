//! Structural schemas: what a kind's fields are, and the walks over an object: prune what is
//! unknown, fill in defaults, validate fields, then lists and embedded objects, then rules.
//!
//! All of it does what kube-apiserver does for a CustomResourceDefinition, texts included.

mod cel;
mod combined;
mod compile;
pub mod completeness;
mod default;
mod embedded;
pub mod field_errors;
mod format;
pub mod go_text;
mod location;
mod prune;
mod published;
mod scalar;
mod unique;
mod validate;

use std::sync::Arc;

use indexmap::IndexMap;
use regex::Regex;
use rustc_hash::FxBuildHasher;
use serde_json::Value;

pub use compile::InvalidSchema;
pub use embedded::MetadataRules;
pub use published::KindSchema;

use cel::Rule;
pub use cel::RuleAnalysis;
use combined::Combined;
use format::Format;

/// A compiled structural schema of one value.
#[derive(Debug, Clone, Default)]
pub struct Schema {
    pub(crate) kind: Kind,
    pub(crate) default: Option<Value>,
    pub(crate) allowed: Vec<Value>,
    pub(crate) nullable: bool,
    /// A property that the object around it has to have.
    pub(crate) required: bool,
    /// Unknown fields are kept and not reported.
    pub(crate) preserve: bool,
    /// A whole object with its own `apiVersion`, `kind` and `metadata`, which are not pruned.
    pub(crate) embedded: bool,
    /// Checks of the `metadata` of an embedded object. `None` accepts any metadata.
    pub(crate) metadata_rules: Option<&'static dyn MetadataRules>,
    /// The type is that of the schema around this one: values of another type are judged there.
    pub(crate) inherited: bool,
    /// `allOf`, `anyOf`, `oneOf` and `not`.
    pub(crate) combined: Option<Box<Combined>>,
    /// What must hold of the value beyond its fields' own bounds.
    pub(crate) rules: Vec<Arc<Rule>>,
    /// Whether there are rules here or anywhere below.
    pub(crate) has_rules: bool,
    /// Whether there are lists whose entries have to differ, here or anywhere below.
    pub(crate) has_keys: bool,
    /// Whether there are objects in objects, here or anywhere below.
    pub(crate) has_embedded: bool,
}

/// The type, with what is particular to it.
#[derive(Debug, Clone, Default)]
pub(crate) enum Kind {
    /// Anything goes.
    #[default]
    Any,
    Object(Box<ObjectSchema>),
    List(Box<ListSchema>),
    Text(Box<TextSchema>),
    Integer(NumberSchema),
    Number(NumberSchema),
    Boolean,
    IntegerOrText(Box<TextSchema>, NumberSchema),
}

#[derive(Debug, Clone, Default)]
pub(crate) struct ObjectSchema {
    /// In the order of their names. Each walk over an object looks up each of its fields: by hash, since a tree compares
    /// several names for each. Whose names could collide is who wrote the schema.
    pub(crate) properties: IndexMap<String, Schema, FxBuildHasher>,
    /// The properties that have defaults.
    pub(crate) defaulted: Vec<String>,
    /// The schema of values of a map with free keys.
    pub(crate) additional: Option<Schema>,
    pub(crate) required: Vec<String>,
    pub(crate) least: Option<u64>,
    pub(crate) most: Option<u64>,
    /// What rules ask of it again and again, made when first asked for.
    pub(crate) in_rules: cel::InRules,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct ListSchema {
    pub(crate) items: Schema,
    pub(crate) least: Option<u64>,
    pub(crate) most: Option<u64>,
    pub(crate) uniqueness: Uniqueness,
    /// `uniqueItems`, which kinds' own schemas may not have, and those of variables may.
    pub(crate) unique: bool,
}

/// What makes two list entries the same.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Uniqueness {
    #[default]
    Atomic,
    /// `x-kubernetes-list-type: set`
    Set,
    /// `x-kubernetes-list-type: map`, by these keys.
    Map(Vec<String>),
}

#[derive(Debug, Clone, Default)]
pub(crate) struct TextSchema {
    pub(crate) least: Option<u64>,
    pub(crate) most: Option<u64>,
    pub(crate) pattern: Option<Regex>,
    pub(crate) format: Option<Format>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct NumberSchema {
    pub(crate) least: Option<f64>,
    pub(crate) most: Option<f64>,
    /// `least` itself is too small.
    pub(crate) above_least: bool,
    /// `most` itself is too large.
    pub(crate) below_most: bool,
    pub(crate) multiple_of: Option<f64>,
    /// How wide, one of [`format::WIDTHS`].
    pub(crate) format: Option<&'static str>,
}

impl Schema {
    /// Compiles a published structural schema.
    ///
    /// # Errors
    /// [`InvalidSchema`] names the place and what is not understood there.
    pub fn compile(schema: &Value) -> Result<Self, InvalidSchema> {
        compile::compile(schema, "")
    }

    /// What no object is valid by, saying why.
    fn refusing(error: &InvalidSchema) -> Self {
        let why = format!("nothing, because this kind's {error}");
        Self { preserve: true, allowed: vec![Value::String(why)], ..Self::default() }
    }
}

impl ObjectSchema {
    /// The schema of a field: its own, or that of free keys.
    pub(crate) fn field(&self, name: &str) -> Option<&Schema> {
        self.properties.get(name).or(self.additional.as_ref())
    }
}

#[cfg(test)]
mod tests;
