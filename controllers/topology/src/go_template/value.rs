//! Values of Go templates, with the types that Go's functions distinguish.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::Value as Json;

use super::certificate::Certificate;
use super::times::Time;
use super::versions::Version;

/// Most work of one rendering: evaluated nodes, and bytes that functions read or create, in units of 64 bytes.
const MOST_WORK: usize = 1_000_000;

/// Longest text that a template or a function creates. Unit: bytes.
pub(super) const LONGEST: usize = 1024 * 1024;

/// Deepest nesting of values. Functions that walk through values use the stack.
pub(super) const DEEPEST: usize = 64;

pub(super) type Outcome<T> = Result<T, String>;

/// Value of a template.
#[derive(Debug, Clone)]
pub(super) enum Value {
    /// No value at all: a missing key, or the nil that a pipeline returned.
    Missing,
    /// Nil in a list or a map.
    Null,
    Bool(bool),
    Integer(i64, Width),
    Float(f64),
    Text(Rc<str>),
    List(Rc<List>),
    Map(MapId),
    Version(Rc<Version>),
    Time(Rc<Time>),
    Certificate(Rc<Certificate>),
}

/// Go's type of an integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    Int,
    Int64,
    Uint8,
    Uint32,
    Uint64,
}

/// Go's type of a list's items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Items {
    Any,
    Text,
    Integer,
    List,
}

/// Immutable list.
#[derive(Debug)]
pub(super) struct List {
    pub(super) items: Vec<Value>,
    pub(super) kind: Items,
    depth: usize,
}

/// Position of a map in the [`Context`]. Maps can be changed, so all values share one map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MapId(usize);

#[derive(Debug)]
struct Entries {
    entries: BTreeMap<String, Value>,
    /// Set if Go's type is `map[string]string`.
    is_of_texts: bool,
}

impl Value {
    pub(super) fn text(text: &str) -> Self {
        Self::Text(text.into())
    }

    pub(super) fn int(value: usize) -> Self {
        Self::Integer(i64::try_from(value).unwrap_or(i64::MAX), Width::Int)
    }

    /// Returns whether the value is nil.
    pub(super) fn is_nil(&self) -> bool {
        matches!(self, Self::Missing | Self::Null)
    }

    /// Depth of the lists within the value, without maps.
    fn depth(&self) -> usize {
        if let Self::List(list) = self { list.depth } else { 0 }
    }

    /// Number of bytes or items.
    fn size(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::List(list) => list.items.len().saturating_mul(32),
            _ => 0,
        }
    }
}

/// Maps of one rendering, and its bounds.
#[derive(Debug, Default)]
pub(super) struct Context {
    maps: RefCell<Vec<Entries>>,
    work: Cell<usize>,
}

impl Context {
    /// Counts work of `bytes`.
    pub(super) fn charge(&self, bytes: usize) -> Outcome<()> {
        let work = self.work.get().saturating_add(1 + bytes / 64);
        self.work.set(work);
        if work > MOST_WORK {
            Err("the template takes too much work: it must have fewer steps, or shorter texts".to_owned())
        } else {
            Ok(())
        }
    }

    /// Counts the work for a value.
    pub(super) fn charge_value(&self, value: &Value) -> Outcome<()> {
        self.charge(value.size())
    }

    /// Refuses a length that exceeds the bound of texts.
    pub(super) fn check_length(&self, length: usize) -> Outcome<()> {
        if length > LONGEST {
            return Err(format!("the result is longer than {LONGEST} bytes"));
        }
        self.charge(length)
    }

    pub(super) fn list(&self, items: Vec<Value>, kind: Items) -> Outcome<Value> {
        let depth = 1 + items.iter().map(Value::depth).max().unwrap_or_default();
        if depth > DEEPEST {
            return Err(format!("lists are nested deeper than {DEEPEST} levels"));
        }
        self.charge(items.len().saturating_mul(32))?;
        Ok(Value::List(Rc::new(List { items, kind, depth })))
    }

    pub(super) fn texts<S: AsRef<str>>(&self, items: impl IntoIterator<Item = S>) -> Outcome<Value> {
        self.list(items.into_iter().map(|item| Value::text(item.as_ref())).collect(), Items::Text)
    }

    pub(super) fn map(&self, entries: BTreeMap<String, Value>, is_of_texts: bool) -> Outcome<Value> {
        self.charge(entries.len().saturating_mul(64))?;
        let mut maps = self.maps.borrow_mut();
        maps.push(Entries { entries, is_of_texts });
        Ok(Value::Map(MapId(maps.len() - 1)))
    }

    pub(super) fn get(&self, map: MapId, key: &str) -> Option<Value> {
        self.maps.borrow().get(map.0)?.entries.get(key).cloned()
    }

    pub(super) fn is_of_texts(&self, map: MapId) -> bool {
        self.maps.borrow().get(map.0).is_some_and(|map| map.is_of_texts)
    }

    pub(super) fn len(&self, map: MapId) -> usize {
        self.maps.borrow().get(map.0).map_or(0, |map| map.entries.len())
    }

    /// Returns a copy of the entries.
    pub(super) fn entries(&self, map: MapId) -> Outcome<BTreeMap<String, Value>> {
        self.charge(self.len(map).saturating_mul(64))?;
        Ok(self.maps.borrow().get(map.0).map(|map| map.entries.clone()).unwrap_or_default())
    }

    pub(super) fn set(&self, map: MapId, key: String, value: Option<Value>) {
        if let Some(map) = self.maps.borrow_mut().get_mut(map.0) {
            match value {
                Some(value) => map.entries.insert(key, value),
                None => map.entries.remove(&key),
            };
        }
    }

    /// Converts JSON, with all numbers as floats. Go decodes them so.
    pub(super) fn decoded(&self, json: &Json) -> Outcome<Value> {
        self.converted(json, false)
    }

    /// Converts the data of a program in Go, in which whole numbers are of the type `int`.
    pub(super) fn given(&self, data: &Json) -> Outcome<Value> {
        self.converted(data, true)
    }

    fn converted(&self, json: &Json, has_integers: bool) -> Outcome<Value> {
        Ok(match json {
            Json::Null => Value::Null,
            Json::Bool(value) => Value::Bool(*value),
            Json::Number(number) => match number.as_i64().filter(|_| has_integers) {
                Some(integer) => Value::Integer(integer, Width::Int),
                None => Value::Float(number.as_f64().unwrap_or_default()),
            },
            Json::String(text) => Value::text(text),
            Json::Array(items) => {
                let item = |item| self.converted(item, has_integers);
                self.list(items.iter().map(item).collect::<Outcome<_>>()?, Items::Any)?
            }
            Json::Object(fields) => {
                let field = |(name, value): (&String, &Json)| {
                    Ok((name.clone(), self.converted(value, has_integers)?))
                };
                self.map(fields.iter().map(field).collect::<Outcome<_>>()?, false)?
            }
        })
    }
}

/// Reports whether a value counts as true.
pub(super) fn is_true(value: &Value, context: &Context) -> bool {
    match value {
        Value::Missing | Value::Null => false,
        Value::Bool(value) => *value,
        Value::Integer(value, _) => *value != 0,
        Value::Float(value) => *value != 0.0,
        Value::Text(text) => !text.is_empty(),
        Value::List(list) => !list.items.is_empty(),
        Value::Map(map) => context.len(*map) > 0,
        Value::Version(_) | Value::Time(_) | Value::Certificate(_) => true,
    }
}

/// Returns the name of Go's type.
pub(super) fn type_name(value: &Value, context: &Context) -> &'static str {
    match value {
        Value::Missing | Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Integer(_, Width::Int) => "int",
        Value::Integer(_, Width::Int64) => "int64",
        Value::Integer(_, Width::Uint8) => "uint8",
        Value::Integer(_, Width::Uint32) => "uint32",
        Value::Integer(_, Width::Uint64) => "uint64",
        Value::Float(_) => "float64",
        Value::Text(_) => "string",
        Value::List(list) => match list.kind {
            Items::Any => "[]interface {}",
            Items::Text => "[]string",
            Items::Integer => "[]int",
            Items::List => "[][]interface {}",
        },
        Value::Map(map) if context.is_of_texts(*map) => "map[string]string",
        Value::Map(_) => "map[string]interface {}",
        Value::Version(_) => "*semver.Version",
        Value::Time(_) => "time.Time",
        Value::Certificate(_) => "sprig.certificate",
    }
}

/// Returns the name of Go's kind.
pub(super) fn kind_name(value: &Value, context: &Context) -> &'static str {
    match value {
        Value::Missing | Value::Null => "invalid",
        Value::List(_) => "slice",
        Value::Map(_) => "map",
        Value::Version(_) => "ptr",
        Value::Time(_) | Value::Certificate(_) => "struct",
        other => type_name(other, context),
    }
}
