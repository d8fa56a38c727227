//! Structural schemas: what a kind's fields are, and the three walks over an object: prune what is
//! unknown, fill in defaults, validate.

mod compile;
mod default;
mod prune;
mod validate;

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

pub use compile::InvalidSchema;

/// A compiled structural schema of one value.
#[derive(Debug, Clone, Default)]
pub struct Schema {
    pub(crate) kind: Kind,
    pub(crate) default: Option<Value>,
    pub(crate) allowed: Vec<Value>,
    pub(crate) nullable: bool,
    /// Unknown fields are kept and not reported.
    pub(crate) preserve: bool,
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
    IntegerOrText,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct ObjectSchema {
    pub(crate) properties: BTreeMap<String, Schema>,
    /// The schema of values of a map with free keys.
    pub(crate) additional: Option<Schema>,
    pub(crate) required: Vec<String>,
    pub(crate) least: Option<u64>,
    pub(crate) most: Option<u64>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct ListSchema {
    pub(crate) items: Schema,
    pub(crate) least: Option<u64>,
    pub(crate) most: Option<u64>,
    pub(crate) uniqueness: Uniqueness,
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
    pub(crate) format: Option<String>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct NumberSchema {
    pub(crate) least: Option<f64>,
    pub(crate) most: Option<f64>,
    /// `int32`, or something wider.
    pub(crate) narrow: bool,
}

impl Schema {
    /// Compiles a published structural schema.
    ///
    /// # Errors
    /// [`InvalidSchema`] names the place and what is not understood there.
    pub fn compile(schema: &Value) -> Result<Self, InvalidSchema> {
        compile::compile(schema, "")
    }
}

#[cfg(test)]
mod tests;
