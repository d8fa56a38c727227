//! Structural schemas: pruning, defaulting and validation of objects, and validation rules in CEL.
//!
//! A schema describes the fields of a kind. Validation checks fields first, then lists and embedded objects, then
//! validation rules. All of it behaves like kube-apiserver with a CustomResourceDefinition, including the error texts.

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
pub mod merge_patch;
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
pub use cel::{
    AdmissionExpression, AdmissionInputs, AuthorizationAnswer, AuthorizationOracle, AuthorizationQuestion,
    CheckedParams, Declared, DeclaredVariables, Evaluated, Evaluation, EvaluationError, Expression,
    PolicyVariable, RESERVED_WORDS, RuleAnalysis, TypeCheck, Wanted,
};
use combined::Combined;
use format::Format;

/// A compiled structural schema of one value.
#[derive(Debug, Clone, Default)]
pub struct Schema {
    pub(crate) kind: Kind,
    pub(crate) default: Option<Value>,
    pub(crate) allowed: Vec<Value>,
    pub(crate) nullable: bool,
    /// Property that the enclosing object requires.
    pub(crate) required: bool,
    /// Unknown fields are kept and not reported.
    pub(crate) preserve: bool,
    /// Embedded object: its `apiVersion`, `kind` and `metadata` are not pruned.
    pub(crate) embedded: bool,
    /// Checks of the `metadata` of an embedded object. `None` accepts any metadata.
    pub(crate) metadata_rules: Option<&'static dyn MetadataRules>,
    /// Type that comes from the enclosing schema, which reports values of another type.
    pub(crate) inherited: bool,
    /// `allOf`, `anyOf`, `oneOf` and `not`.
    pub(crate) combined: Option<Box<Combined>>,
    /// Validation rules of the value itself.
    pub(crate) rules: Vec<Arc<Rule>>,
    /// Set if this schema or one below it has validation rules.
    pub(crate) has_rules: bool,
    /// Set if this schema or one below it has lists with unique entries.
    pub(crate) has_keys: bool,
    /// Set if this schema or one below it has embedded objects.
    pub(crate) has_embedded: bool,
}

/// Type of a value, with the constraints of that type.
#[derive(Debug, Clone, Default)]
pub(crate) enum Kind {
    /// Any value.
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
    /// Properties by name, in the order of names. Each walk looks up each field, and hashing is faster than the
    /// comparisons of a tree. Only the author of a schema could provoke collisions.
    pub(crate) properties: IndexMap<String, Schema, FxBuildHasher>,
    /// Names of the properties that have defaults.
    pub(crate) defaulted: Vec<String>,
    /// Schema of the values of a map with free keys.
    pub(crate) additional: Option<Schema>,
    pub(crate) required: Vec<String>,
    pub(crate) least: Option<u64>,
    pub(crate) most: Option<u64>,
    /// Facts that validation rules need repeatedly, computed on first use.
    pub(crate) in_rules: cel::InRules,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct ListSchema {
    pub(crate) items: Schema,
    pub(crate) least: Option<u64>,
    pub(crate) most: Option<u64>,
    pub(crate) uniqueness: Uniqueness,
    /// `uniqueItems`. Only schemas of variables may have it.
    pub(crate) unique: bool,
}

/// Identity of list entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Uniqueness {
    #[default]
    Atomic,
    /// `x-kubernetes-list-type: set`.
    Set,
    /// `x-kubernetes-list-type: map`, with these keys.
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
    /// Set if `least` itself is too small.
    pub(crate) above_least: bool,
    /// Set if `most` itself is too large.
    pub(crate) below_most: bool,
    pub(crate) multiple_of: Option<f64>,
    /// Width of the number, one of [`format::WIDTHS`].
    pub(crate) format: Option<&'static str>,
}

impl Schema {
    /// Compiles a published structural schema.
    ///
    /// # Errors
    /// [`InvalidSchema`] names the location and the problem.
    pub fn compile(schema: &Value) -> Result<Self, InvalidSchema> {
        compile::compile(schema, "")
    }

    /// Returns a schema that rejects every object with this error.
    fn rejecting(error: &InvalidSchema) -> Self {
        let why = format!("nothing, because this kind's {error}");
        Self { preserve: true, allowed: vec![Value::String(why)], ..Self::default() }
    }
}

impl ObjectSchema {
    /// Returns the schema of a field: its property, or the schema of free keys.
    pub(crate) fn field(&self, name: &str) -> Option<&Schema> {
        self.properties.get(name).or(self.additional.as_ref())
    }
}

#[cfg(test)]
mod tests;
