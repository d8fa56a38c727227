//! Compiler of published schemas.

use std::sync::Arc;

use regex::Regex;
use serde_json::Value;

use super::cel::Rule;
use super::combined::{self, INHERITED};
use super::format::{Format, WIDTHS};
use super::{Kind, ListSchema, NumberSchema, ObjectSchema, Schema, TextSchema, Uniqueness};

/// Error of a schema that is not structural: a mistake in the definition of a kind.
#[derive(Debug, thiserror::Error)]
#[error("schema at {path:?}: {problem}")]
pub struct InvalidSchema {
    path: String,
    problem: String,
}

impl InvalidSchema {
    /// Returns the problem without its location.
    pub fn problem(&self) -> &str {
        &self.problem
    }
}

pub(super) fn compile(schema: &Value, path: &str) -> Result<Schema, InvalidSchema> {
    let flag = |name: &str| schema.get(name).and_then(Value::as_bool).unwrap_or(false);
    let kind = if flag("x-kubernetes-int-or-string") {
        Kind::IntegerOrText(Box::new(text(schema, path)?), number(schema))
    } else {
        match schema.get("type").and_then(Value::as_str) {
            Some("object") => Kind::Object(Box::new(object(schema, path)?)),
            Some("array") => Kind::List(Box::new(list(schema, path)?)),
            Some("string") => Kind::Text(Box::new(text(schema, path)?)),
            Some("integer") => Kind::Integer(number(schema)),
            Some("number") => Kind::Number(number(schema)),
            Some("boolean") => Kind::Boolean,
            None => Kind::Any,
            Some(other) => return Err(error(path, format!("unknown type {other:?}"))),
        }
    };
    let rules = rules(schema, path)?;
    let embedded = flag("x-kubernetes-embedded-resource");
    let compiled = Schema {
        has_rules: !rules.is_empty() || below(&kind).any(|inner| inner.has_rules),
        has_keys: has_keys(&kind) || below(&kind).any(|inner| inner.has_keys),
        has_embedded: embedded || below(&kind).any(|inner| inner.has_embedded),
        kind,
        default: schema.get("default").cloned(),
        allowed: schema.get("enum").and_then(Value::as_array).cloned().unwrap_or_default(),
        required: false,
        nullable: flag("nullable"),
        preserve: flag("x-kubernetes-preserve-unknown-fields"),
        embedded,
        metadata_rules: None,
        inherited: flag(INHERITED),
        combined: combined::compile(schema, path)?,
        rules,
    };
    for rule in &compiled.rules {
        rule.check(&compiled).map_err(|problem| error(path, problem))?;
    }
    Ok(compiled)
}

/// Reports whether a type is a list with unique entries.
fn has_keys(kind: &Kind) -> bool {
    matches!(kind, Kind::List(list) if list.uniqueness != Uniqueness::Atomic)
}

/// Returns the schemas directly below a type.
fn below(kind: &Kind) -> impl Iterator<Item = &Schema> {
    let (fields, free, items) = match kind {
        Kind::Object(object) => (Some(object.properties.values()), object.additional.as_ref(), None),
        Kind::List(list) => (None, None, Some(&list.items)),
        _ => (None, None, None),
    };
    fields.into_iter().flatten().chain(free).chain(items)
}

fn rules(schema: &Value, path: &str) -> Result<Vec<Arc<Rule>>, InvalidSchema> {
    let list = schema.get("x-kubernetes-validations").and_then(Value::as_array);
    let compiled = list.into_iter().flatten().map(|rule| Rule::compile(rule, schema));
    let named = compiled.map(|rule| rule.map(Arc::new).map_err(|problem| error(path, problem)));
    named.collect()
}

fn object(schema: &Value, path: &str) -> Result<ObjectSchema, InvalidSchema> {
    let mut object = ObjectSchema {
        least: count(schema, "minProperties"),
        most: count(schema, "maxProperties"),
        ..Default::default()
    };
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let compiled = compile(property, &format!("{path}.{name}"))?;
        if compiled.default.is_some() {
            object.defaulted.push(name.clone());
        }
        object.properties.insert(name.clone(), compiled);
    }
    if let Some(additional) = schema.get("additionalProperties").filter(|value| value.is_object()) {
        object.additional = Some(compile(additional, &format!("{path}[*]"))?);
    }
    object.required = strings(schema.get("required"));
    for name in &object.required {
        object.properties.get_mut(name).into_iter().for_each(|property| property.required = true);
    }
    Ok(object)
}

fn list(schema: &Value, path: &str) -> Result<ListSchema, InvalidSchema> {
    let items = schema.get("items").ok_or_else(|| error(path, "a list without items".to_owned()))?;
    let uniqueness = match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => Uniqueness::Set,
        Some("map") => Uniqueness::Map(strings(schema.get("x-kubernetes-list-map-keys"))),
        _ => Uniqueness::Atomic,
    };
    Ok(ListSchema {
        items: compile(items, &format!("{path}[]"))?,
        least: count(schema, "minItems"),
        most: count(schema, "maxItems"),
        uniqueness,
        unique: schema.get("uniqueItems") == Some(&Value::Bool(true)),
    })
}

fn text(schema: &Value, path: &str) -> Result<TextSchema, InvalidSchema> {
    let pattern = match schema.get("pattern").and_then(Value::as_str) {
        None => None,
        Some(pattern) => Some(Regex::new(pattern).map_err(|e| error(path, e.to_string()))?),
    };
    let format = schema.get("format").and_then(Value::as_str).and_then(Format::named);
    Ok(TextSchema { least: count(schema, "minLength"), most: count(schema, "maxLength"), pattern, format })
}

fn number(schema: &Value) -> NumberSchema {
    let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
    let flag = |name: &str| schema.get(name).and_then(Value::as_bool).unwrap_or(false);
    NumberSchema {
        least: bound("minimum"),
        most: bound("maximum"),
        above_least: flag("exclusiveMinimum"),
        below_most: flag("exclusiveMaximum"),
        multiple_of: bound("multipleOf"),
        format: WIDTHS.into_iter().find(|width| schema.get("format").and_then(Value::as_str) == Some(width)),
    }
}

fn count(schema: &Value, name: &str) -> Option<u64> {
    schema.get(name).and_then(Value::as_u64)
}

fn strings(value: Option<&Value>) -> Vec<String> {
    value
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

fn error(path: &str, problem: String) -> InvalidSchema {
    InvalidSchema { path: path.to_owned(), problem }
}
