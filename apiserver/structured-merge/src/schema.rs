//! Ownership by schema: which parts are owned whole, and which part by part.

use std::collections::HashMap;
use std::sync::LazyLock;

use rustc_hash::FxBuildHasher;
use serde_json::{Value, json};

use crate::element::Element;

/// Type of a value, which determines its ownership and its merge.
#[derive(Debug, Clone, PartialEq)]
pub enum Type {
    /// One value.
    Scalar(Scalar),
    /// A struct or a map.
    Map(Box<MapType>),
    /// A list.
    List(Box<ListType>),
    /// Deduced from the value: maps by their keys, lists and all else as a whole.
    Deduced,
}

/// Type of a scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scalar {
    /// A text.
    Text,
    /// An integer or a float.
    Number,
    /// A boolean.
    Boolean,
    /// Any of the three.
    Any,
}

/// A struct or a map.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MapType {
    /// Declared fields. Lookups are frequent, and they are never iterated.
    pub(crate) fields: HashMap<String, Type, FxBuildHasher>,
    /// Type of undeclared fields, if they are allowed.
    pub(crate) element: Option<Type>,
    pub(crate) atomic: bool,
}

/// A list.
#[derive(Debug, Clone, PartialEq)]
pub struct ListType {
    pub(crate) element: Type,
    pub(crate) relation: Relation,
}

/// Identity of list items.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Relation {
    /// Nothing: the list is owned as a whole.
    Atomic,
    /// By value.
    Set,
    /// By key fields, each with its default.
    Keyed(Vec<(String, Option<Value>)>),
}

/// Error of a schema that does not define how its values are merged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("schema at {path:?}: {problem}")]
pub struct InvalidSchema {
    path: String,
    problem: String,
}

/// Type of `metadata` of every object; the schemas of the kinds do not define its merge.
static METADATA: LazyLock<Type> = LazyLock::new(metadata);

/// Type of a value that no schema declares.
static DEDUCED: Type = Type::Deduced;

impl Type {
    /// Compiles the type of the objects with this structural OpenAPI schema.
    ///
    /// # Errors
    /// [`InvalidSchema`] names the path that is not supported.
    pub fn of_object(schema: &Value) -> Result<Self, InvalidSchema> {
        let mut compiled = compile(schema, "")?;
        if let Self::Map(root) = &mut compiled {
            let text = || Self::Scalar(Scalar::Text);
            root.fields.insert("apiVersion".to_owned(), text());
            root.fields.insert("kind".to_owned(), text());
            root.fields.insert("metadata".to_owned(), METADATA.clone());
        }
        Ok(compiled)
    }

    /// Returns the type below an element; an undeclared one is deduced from its value.
    pub(crate) fn below(&self, element: &Element) -> &Self {
        match (self, element) {
            (Self::Map(map), Element::Field(name)) => map.field(name),
            (Self::List(list), Element::Key(_) | Element::Value(_) | Element::Index(_)) => &list.element,
            _ => &DEDUCED,
        }
    }
}

impl MapType {
    /// Returns the type of a field or a key.
    pub(crate) fn field(&self, name: &str) -> &Type {
        self.fields.get(name).or(self.element.as_ref()).unwrap_or(&DEDUCED)
    }
}

fn compile(schema: &Value, path: &str) -> Result<Type, InvalidSchema> {
    let flag = |name: &str| schema.get(name).and_then(Value::as_bool).unwrap_or(false);
    if flag("x-kubernetes-int-or-string") {
        // Validation checks that it is one of the two.
        return Ok(Type::Deduced);
    }
    Ok(match schema.get("type").and_then(Value::as_str) {
        Some("object") => Type::Map(Box::new(map(schema, path)?)),
        Some("array") => Type::List(Box::new(list(schema, path)?)),
        Some("string") => Type::Scalar(Scalar::Text),
        Some("integer" | "number") => Type::Scalar(Scalar::Number),
        Some("boolean") => Type::Scalar(Scalar::Boolean),
        Some(other) => return Err(error(path, format!("unknown type {other:?}"))),
        None if schema.get("properties").is_some() => Type::Map(Box::new(map(schema, path)?)),
        None => Type::Deduced,
    })
}

fn map(schema: &Value, path: &str) -> Result<MapType, InvalidSchema> {
    let flag = |name: &str| schema.get(name).and_then(Value::as_bool).unwrap_or(false);
    let mut compiled = MapType::default();
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        compiled.fields.insert(name.clone(), compile(property, &format!("{path}.{name}"))?);
    }
    let free = flag("x-kubernetes-preserve-unknown-fields") || flag("x-kubernetes-embedded-resource");
    compiled.element = match schema.get("additionalProperties") {
        Some(element) if element.is_object() => Some(compile(element, &format!("{path}[*]"))?),
        Some(Value::Bool(true)) => Some(Type::Deduced),
        None if compiled.fields.is_empty() => Some(Type::Deduced),
        _ => free.then_some(Type::Deduced),
    };
    compiled.atomic = schema.get("x-kubernetes-map-type").and_then(Value::as_str) == Some("atomic");
    Ok(compiled)
}

fn list(schema: &Value, path: &str) -> Result<ListType, InvalidSchema> {
    let items = schema.get("items").ok_or_else(|| error(path, "a list without items".to_owned()))?;
    let relation = match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => Relation::Set,
        Some("map") => Relation::Keyed(keys(schema, items)),
        _ => Relation::Atomic,
    };
    Ok(ListType { element: compile(items, &format!("{path}[]"))?, relation })
}

/// Returns the key fields, each with its default.
fn keys(schema: &Value, items: &Value) -> Vec<(String, Option<Value>)> {
    let names = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array).into_iter().flatten();
    names
        .filter_map(Value::as_str)
        .map(|name| {
            let property = items.get("properties").and_then(|properties| properties.get(name));
            let default = property.and_then(|property| property.get("default")).cloned();
            (name.to_owned(), default)
        })
        .collect()
}

fn metadata() -> Type {
    let text = json!({"type": "string"});
    let number = json!({"type": "integer"});
    let map = json!({"type": "object", "additionalProperties": text});
    let owner = json!({"type": "object", "x-kubernetes-map-type": "atomic", "properties": {
        "apiVersion": text, "kind": text, "name": text, "uid": {"type": "string", "default": ""},
        "controller": {"type": "boolean"}, "blockOwnerDeletion": {"type": "boolean"}}});
    let entry = json!({"type": "object"});
    let schema = json!({"type": "object", "properties": {
        "name": text, "generateName": text, "namespace": text, "uid": text, "selfLink": text,
        "resourceVersion": text, "generation": number, "deletionGracePeriodSeconds": number,
        "creationTimestamp": text, "deletionTimestamp": text, "labels": map, "annotations": map,
        "finalizers": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
        "ownerReferences": {"type": "array", "items": owner, "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["uid"]},
        "managedFields": {"type": "array", "items": entry},
    }});
    // The schema above is constant; if it were invalid, metadata would be deduced.
    let mut compiled = compile(&schema, ".metadata").unwrap_or(Type::Deduced);
    if let Type::Map(map) = &mut compiled {
        // Decoding checks that they are times.
        for time in ["creationTimestamp", "deletionTimestamp"] {
            map.fields.insert(time.to_owned(), Type::Scalar(Scalar::Any));
        }
    }
    compiled
}

fn error(path: &str, problem: String) -> InvalidSchema {
    InvalidSchema { path: path.to_owned(), problem }
}

/// View of a value: as a whole, or by its parts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum View<'a> {
    /// As a whole.
    Leaf,
    /// By its fields or keys.
    Map(&'a MapType),
    /// By its items.
    List(&'a ListType),
}

impl View<'_> {
    /// Returns true if both are the same view. Two views of one type are compared by the address of their
    /// declaration: to compare the declarations would be to compare all below them.
    pub(crate) fn is(self, other: View<'_>) -> bool {
        match (self, other) {
            (Self::Leaf, View::Leaf) => true,
            (Self::Map(map), View::Map(other)) => std::ptr::eq(map, other),
            (Self::List(list), View::List(other)) => std::ptr::eq(list, other),
            _ => false,
        }
    }
}

/// Map type whose values are deduced.
static FREE: LazyLock<MapType> =
    LazyLock::new(|| MapType { element: Some(Type::Deduced), ..MapType::default() });

impl Type {
    /// Returns the view of `value`. A value of another type is viewed as a whole: the check refuses it elsewhere. A
    /// null stands for an empty map or list where those are declared or possible.
    pub(crate) fn view(&self, value: &Value) -> View<'_> {
        match (self, value) {
            (Self::Map(map), Value::Object(_) | Value::Null) if !map.atomic => View::Map(map),
            (Self::List(list), Value::Array(_) | Value::Null) if list.relation != Relation::Atomic => {
                View::List(list)
            }
            (Self::Deduced, Value::Object(_) | Value::Null) => View::Map(&FREE),
            _ => View::Leaf,
        }
    }
}
