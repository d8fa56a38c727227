//! Tables for `kubectl get`: `meta.k8s.io/v1 Table`.

use std::sync::LazyLock;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::age::age;
use crate::excerpt::Excerpt;
use crate::json_path::JsonPath;
use crate::object;
use crate::resource::{Column, Resource};
use crate::status::{ApiError, ApiResult};
use crate::store::CachedObject;

pub use crate::strategy::{OwnColumn, OwnTable};

/// Description of the column of names: upstream's text about `metadata.name`.
pub const NAME_DESCRIPTION: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a \
     client to request the generation of an appropriate name automatically. Name is primarily intended for creation \
     idempotence and configuration definition. Cannot be updated. More info: \
     https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";

/// Description of the column of ages: upstream's text about `metadata.creationTimestamp`.
pub const AGE_DESCRIPTION: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to \
     be set in happens-before order across separate operations. Clients may not set this value. It is represented in \
     RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: \
     https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// The part of each object that a row contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// Its metadata.
    #[default]
    Metadata,
    /// All of it.
    Object,
}

/// Returns the column definitions. A kind without columns has its age.
pub fn columns(resource: &Resource) -> Value {
    if let Some(own) = resource.strategy.table() {
        let shown = own.columns.iter().map(|column| {
            json!({"name": column.name, "type": "string", "format": column.format, "priority": column.priority,
                "description": column.description})
        });
        return shown.collect();
    }
    let name = json!({"name": "Name", "type": "string", "format": "name", "priority": 0,
        "description": NAME_DESCRIPTION});
    let others = declared(resource).iter().map(|column| {
        let description = if column.description.is_empty() {
            format!("Custom resource definition column (in JSONPath format): {}", column.json_path)
        } else {
            column.description.clone()
        };
        json!({"name": column.name, "type": column.kind, "format": "", "priority": column.priority,
            "description": description})
    });
    std::iter::once(name).chain(others).collect()
}

/// Columns of a kind that declares none.
static AGE: LazyLock<[Column; 1]> = LazyLock::new(|| {
    [Column {
        name: "Age".to_owned(),
        kind: "date".to_owned(),
        json_path: ".metadata.creationTimestamp".to_owned(),
        priority: 0,
        description: AGE_DESCRIPTION.to_owned(),
    }]
});

fn declared(resource: &Resource) -> &[Column] {
    if resource.columns.is_empty() { AGE.as_slice() } else { &resource.columns }
}

/// Writer of the rows for objects of one kind.
#[derive(Debug)]
pub struct Rows {
    cells: Cells,
    include: IncludeObject,
    now: Timestamp,
    /// The fields that the cells need; none if they are unknown, or if the row contains the whole object.
    looked_at: Option<Excerpt>,
}

impl Rows {
    /// Creates a writer for `resource`, with ages as of `now`.
    pub fn new(resource: &Resource, include: IncludeObject, now: Timestamp) -> Self {
        let cells = match resource.strategy.table() {
            Some(own) => Cells::Own(own.cells),
            None => Cells::Declared(
                declared(resource)
                    .iter()
                    .map(|column| (column.kind.clone(), JsonPath::parse(&column.json_path)))
                    .collect(),
            ),
        };
        let is_brief = |excerpt: &Excerpt| !excerpt.reads(["metadata", "managedFields"].into_iter());
        let looked_at = cells.looked_at().filter(|_| include != IncludeObject::Object).filter(is_brief);
        Self { cells, include, now, looked_at }
    }

    /// Writes the row of an object as JSON.
    ///
    /// # Errors
    /// 500 if the object cannot be decoded.
    pub fn write(&self, item: &CachedObject, version: &str, to: &mut Vec<u8>) -> ApiResult<()> {
        let json = item.json.as_ref().map_err(ApiError::from)?;
        let internal = |error: serde_json::Error| ApiError::internal(error.to_string());
        let Some(looked_at) = &self.looked_at else {
            let object = item.to_value()?;
            return serde_json::to_writer(to, &self.row(&object, version)).map_err(internal);
        };
        let cells = self.cells.of(&looked_at.of(json.brief()).map_err(internal)?, self.now);
        to.extend_from_slice(b"{\"cells\":");
        serde_json::to_writer(&mut *to, &cells).map_err(internal)?;
        to.extend_from_slice(b",\"object\":");
        if self.include == IncludeObject::None {
            to.extend_from_slice(b"null}");
            return Ok(());
        }
        let head = format!(
            "{{\"apiVersion\":\"meta.k8s.io/{version}\",\"kind\":\"PartialObjectMetadata\",\"metadata\":"
        );
        to.extend_from_slice(head.as_bytes());
        json.write_metadata(to);
        to.extend_from_slice(b"}}");
        Ok(())
    }

    /// Returns the row of one object. Its metadata is shown in this `version` of `meta.k8s.io`.
    pub fn row(&self, object: &Value, version: &str) -> Value {
        let cells = self.cells.of(object, self.now);
        // An annotation marks the end of the initial events, so the metadata is always shown then.
        let is_mark = object.pointer("/metadata/annotations/k8s.io~1initial-events-end").is_some();
        let shown = match self.include {
            IncludeObject::None if !is_mark => Value::Null,
            IncludeObject::None | IncludeObject::Metadata => partial_in(object, version),
            IncludeObject::Object => object.clone(),
        };
        json!({"cells": cells, "object": shown})
    }
}

/// Source of the cells.
#[derive(Debug)]
enum Cells {
    /// The name, and then the values at these paths, by the columns' types.
    Declared(Vec<(String, Option<JsonPath>)>),
    Own(fn(&Value, Timestamp) -> Vec<Value>),
}

impl Cells {
    fn looked_at(&self) -> Option<Excerpt> {
        let Self::Declared(columns) = self else { return None };
        let mut excerpt = Excerpt::default();
        excerpt.add(["metadata", "name"].into_iter());
        columns.iter().filter_map(|(_, path)| path.as_ref()).for_each(|path| excerpt.add(path.fields()));
        Some(excerpt)
    }

    fn of(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let columns = match self {
            Self::Declared(columns) => columns,
            Self::Own(cells) => return cells(object, now),
        };
        let cells = columns.iter().map(|(kind, path)| {
            let found = path.as_ref().and_then(|path| path.first(object));
            found.map_or(Value::Null, |value| cell(kind, value, now))
        });
        std::iter::once(json!(object::name(object))).chain(cells).collect()
    }
}

/// Returns the object as `PartialObjectMetadata`.
pub fn partial(object: &Value) -> Value {
    partial_in(object, "v1")
}

fn partial_in(object: &Value, version: &str) -> Value {
    let metadata = object.get("metadata").cloned().unwrap_or_default();
    json!({"kind": "PartialObjectMetadata", "apiVersion": format!("meta.k8s.io/{version}"), "metadata": metadata})
}

fn cell(kind: &str, value: &Value, now: Timestamp) -> Value {
    match kind {
        "date" => value.as_str().map_or(Value::Null, |text| json!(age(text, now))),
        "integer" => match (value.as_i64(), value.as_f64()) {
            (Some(whole), _) => json!(whole),
            (None, Some(number)) => whole(number).map_or(Value::Null, |whole| json!(whole)),
            (None, None) => Value::Null,
        },
        "number" if value.is_number() => value.clone(),
        "boolean" if value.is_boolean() => value.clone(),
        "string" => match value {
            Value::String(_) => value.clone(),
            Value::Null => json!("<no value>"),
            other => json!(other.to_string()),
        },
        _ => Value::Null,
    }
}

/// Returns the number as an integer, without its fraction, if there is such an integer.
fn whole(number: f64) -> Option<i64> {
    format!("{:.0}", number.trunc()).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_match_kube_apiserver() {
        let now = Timestamp::from_second(2_000_000_000).unwrap();
        let table = [
            ("integer", json!(1), json!(1)),
            ("integer", json!(1.5), json!(1)),
            ("integer", json!("1"), Value::Null),
            ("number", json!(1.5), json!(1.5)),
            ("number", json!(2), json!(2)),
            ("boolean", json!(true), json!(true)),
            ("boolean", json!("true"), Value::Null),
            ("string", json!(1), json!("1")),
            ("string", json!(true), json!("true")),
            ("string", json!(["x", "y"]), json!("[\"x\",\"y\"]")),
            ("string", json!({"k": "v"}), json!("{\"k\":\"v\"}")),
            ("date", json!("yesterday"), json!("<invalid>")),
            ("date", json!(""), json!("<unknown>")),
            ("date", json!(5), Value::Null),
        ];
        for (kind, value, expected) in table {
            assert_eq!(cell(kind, &value, now), expected, "{kind} {value}");
        }
    }
}
