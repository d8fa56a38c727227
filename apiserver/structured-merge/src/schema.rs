//! What a schema says of ownership: which parts are owned whole, and which part by part.

use std::collections::HashMap;
use std::sync::LazyLock;

use rustc_hash::FxBuildHasher;
use serde_json::{Value, json};

use crate::element::Element;

/// How a value is owned and merged.
#[derive(Debug, Clone, PartialEq)]
pub enum Type {
    /// One value.
    Scalar(Scalar),
    /// A struct or a map.
    Map(Box<MapType>),
    /// A list.
    List(Box<ListType>),
    /// As the value itself suggests: maps by their keys, lists and all else as a whole.
    Deduced,
}

/// What one value may be.
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
    /// Looked up more often than anything else, and never walked.
    pub(crate) fields: HashMap<String, Type, FxBuildHasher>,
    /// The type of what is not declared, when that is allowed.
    pub(crate) element: Option<Type>,
    pub(crate) atomic: bool,
}

/// A list.
#[derive(Debug, Clone, PartialEq)]
pub struct ListType {
    pub(crate) element: Type,
    pub(crate) relation: Relation,
}

/// What makes two items the same.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Relation {
    /// Nothing: the list is owned as a whole.
    Atomic,
    /// Being the same value.
    Set,
    /// Having the same key fields. With each its default.
    Keyed(Vec<(String, Option<Value>)>),
}

/// A schema that does not say how its values are merged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("schema at {path:?}: {problem}")]
pub struct InvalidSchema {
    path: String,
    problem: String,
}

/// `metadata` of every object; the schemas of the kinds do not say how it is merged.
static METADATA: LazyLock<Type> = LazyLock::new(metadata);

/// What stands in for the type of a value that no schema declares.
static DEDUCED: Type = Type::Deduced;

impl Type {
    /// The type of the objects with this structural OpenAPI schema.
    ///
    /// # Errors
    /// [`InvalidSchema`] names the place that is not understood.
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

    /// The type one step further, and what is not declared as its value suggests.
    pub(crate) fn below(&self, element: &Element) -> &Self {
        match (self, element) {
            (Self::Map(map), Element::Field(name)) => map.field(name),
            (Self::List(list), Element::Key(_) | Element::Value(_) | Element::Index(_)) => &list.element,
            _ => &DEDUCED,
        }
    }
}

impl MapType {
    /// The type of a field or a key.
    pub(crate) fn field(&self, name: &str) -> &Type {
        self.fields.get(name).or(self.element.as_ref()).unwrap_or(&DEDUCED)
    }
}

fn compile(schema: &Value, path: &str) -> Result<Type, InvalidSchema> {
    let flag = |name: &str| schema.get(name).and_then(Value::as_bool).unwrap_or(false);
    if flag("x-kubernetes-int-or-string") {
        // Whether it is one of the two is for the schema to say.
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

/// The key fields, with what each is when an item does not say.
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
    // The schema above is ours; were it wrong, metadata would be taken as it comes.
    let mut compiled = compile(&schema, ".metadata").unwrap_or(Type::Deduced);
    if let Type::Map(map) = &mut compiled {
        // Whether they are times is seen when they are read.
        for time in ["creationTimestamp", "deletionTimestamp"] {
            map.fields.insert(time.to_owned(), Type::Scalar(Scalar::Any));
        }
    }
    compiled
}

fn error(path: &str, problem: String) -> InvalidSchema {
    InvalidSchema { path: path.to_owned(), problem }
}

/// How a value is walked: as a whole, or into its parts.
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
    /// Whether it is the very same way. Two views of one type are told apart by where it declares them: to compare what
    /// is declared there would be to compare all that lies below.
    pub(crate) fn is(self, other: View<'_>) -> bool {
        match (self, other) {
            (Self::Leaf, View::Leaf) => true,
            (Self::Map(map), View::Map(other)) => std::ptr::eq(map, other),
            (Self::List(list), View::List(other)) => std::ptr::eq(list, other),
            _ => false,
        }
    }
}

/// A map whose keys and values are taken as they come.
static FREE: LazyLock<MapType> =
    LazyLock::new(|| MapType { element: Some(Type::Deduced), ..MapType::default() });

impl Type {
    /// How `value` is walked. What is not of its type is walked as a whole: to refuse it is for
    /// others. A null stands for an empty map or list where those are declared or possible.
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
