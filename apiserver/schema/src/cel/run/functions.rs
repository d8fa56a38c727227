//! Functions of CEL. Frequent ones, and those that the engine lacks or implements differently, are here. The engine
//! evaluates the others.

use std::sync::Arc;

use kube_cel::cel::Value as Cel;
use kube_cel::cel::common::ast::{CallExpr, Expr, IdedExpr};
use kube_cel::cel::objects::Opaque;
use regex::Regex;

use super::operators::{self, failure, none, optional, some};
use super::{Failure, Outcome, Run, authorizer, conversions, formats, lists};
use crate::cel::macros::{MAP_INSERT, SORT_BY_KEYS};

/// Names of the arguments for the engine.
const GIVEN: [&str; 5] = ["@0", "@1", "@2", "@3", "@4"];

/// Type as a value.
#[derive(Debug, PartialEq, Eq)]
struct TypeName(String);

impl Opaque for TypeName {
    fn runtime_type_name(&self) -> &str {
        "type"
    }
}

/// Returns a type as a value.
pub(super) fn type_named(name: &str) -> Cel {
    Cel::Opaque(Arc::new(TypeName(name.to_owned())))
}

pub(super) fn type_of(value: &Cel) -> Cel {
    type_named(match value {
        Cel::List(_) => "list",
        Cel::Map(_) => "map",
        Cel::Int(_) => "int",
        Cel::UInt(_) => "uint",
        Cel::Float(_) => "double",
        Cel::String(_) => "string",
        Cel::Bytes(_) => "bytes",
        Cel::Bool(_) => "bool",
        Cel::Null => "null_type",
        Cel::Duration(_) => "google.protobuf.Duration",
        Cel::Timestamp(_) => "google.protobuf.Timestamp",
        Cel::Opaque(inner) => inner.runtime_type_name(),
        Cel::Function(..) => "function",
    })
}

impl Run<'_> {
    pub(super) fn result(&mut self, name: &str, is_method: bool, mut given: Vec<Cel>) -> Outcome {
        if let Some(result) = operators::result(name, &mut given) {
            return result;
        }
        if let Some(result) = authorizer::result(name, &given) {
            return result;
        }
        if let [only] = given.as_slice()
            && let Some(converted) = conversions::converted(name, only)
        {
            return converted;
        }
        if let [Cel::List(items), others @ ..] = given.as_slice()
            && let Some(result) = lists::result(name, items, others)
        {
            return result;
        }
        match (name, given.as_slice()) {
            ("dyn", [value]) => Ok(value.clone()),
            ("type", [value]) => Ok(type_of(value)),
            ("size", [value]) => size(value),
            ("jsonpatch.escapeKey", [Cel::String(text)]) => {
                Ok(Cel::String(Arc::new(text.replace('~', "~0").replace('/', "~1"))))
            }
            ("startsWith", [Cel::String(on), Cel::String(part)]) => {
                Ok(Cel::Bool(on.starts_with(part.as_str())))
            }
            ("endsWith", [Cel::String(on), Cel::String(part)]) => Ok(Cel::Bool(on.ends_with(part.as_str()))),
            ("contains", [Cel::String(on), Cel::String(part)]) => Ok(Cel::Bool(on.contains(part.as_str()))),
            ("charAt", [Cel::String(on), Cel::Int(index)]) => letter(on, *index),
            ("matches", [Cel::String(on), Cel::String(pattern)]) => self.matches(on, pattern),
            ("optional.of", [value]) => Ok(some(value.clone())),
            ("optional.none", []) => Ok(none()),
            ("optional.ofNonZeroValue", [value]) if value.is_zero() => Ok(none()),
            ("optional.ofNonZeroValue", [value]) => Ok(some(value.clone())),
            ("hasValue" | "value", [on]) => of_optional(name, on),
            ("unwrapOpt" | "optional.unwrap", [Cel::List(items)]) => {
                let values = items.iter().filter_map(|item| optional(item).flatten().cloned());
                Ok(Cel::List(Arc::new(values.collect())))
            }
            (MAP_INSERT, [_, ..]) => {
                let map = given.remove(0);
                Self::inserted(map, given)
            }
            (SORT_BY_KEYS, [Cel::List(items), Cel::List(keys)]) => lists::sorted(items, keys),
            ("split", [Cel::String(on), Cel::String(by)]) if by.is_empty() => Ok(lists::letters(on)),
            ("validate", [format, _]) => {
                let words = formats::words(format);
                self.by_engine(name, is_method, given).map(|found| match (words, optional(&found)) {
                    (Some(words), Some(Some(_))) => some(Cel::from(vec![words])),
                    _ => found,
                })
            }
            ("format.named", [_]) => self.by_engine(name, is_method, given).map(|format| match format {
                Cel::Null => none(),
                format => some(format),
            }),
            (_, [Cel::Timestamp(time), zone @ ..]) if conversions::is_part(name) => {
                let zone = match zone {
                    [Cel::String(zone)] => Some(zone.as_str()),
                    _ => None,
                };
                let time = conversions::in_zone(time, zone)?;
                self.by_engine(name, is_method, vec![time])
            }
            _ => self.by_engine(name, is_method, given),
        }
    }

    fn matches(&mut self, text: &str, pattern: &str) -> Outcome {
        if let Some(known) = self.patterns.get(pattern) {
            return Ok(Cel::Bool(known.is_match(text)));
        }
        let read = Regex::new(pattern).map_err(|error| Failure::Error(error.to_string()))?;
        let found = read.is_match(text);
        self.patterns.insert(pattern.to_owned(), read);
        Ok(Cel::Bool(found))
    }

    /// Evaluates a function in the engine, as an expression with names for the arguments.
    pub(super) fn by_engine(&self, name: &str, is_method: bool, given: Vec<Cel>) -> Outcome {
        let named = |name: &str| IdedExpr { id: 0, expr: Expr::Ident(name.to_owned()) };
        let mut scope = self.functions.new_inner_scope();
        let mut arguments = Vec::with_capacity(given.len());
        for (name, value) in GIVEN.iter().zip(given) {
            scope.add_variable_from_value(*name, value);
            arguments.push(named(name));
        }
        let target = (is_method && !arguments.is_empty()).then(|| Box::new(arguments.remove(0)));
        let call = CallExpr { func_name: name.to_owned(), target, args: arguments };
        Cel::resolve(&IdedExpr { id: 0, expr: Expr::Call(call) }, &scope).map_err(failure)
    }
}

/// Returns the letter at an index. The text is empty directly after the last letter.
fn letter(text: &str, index: i64) -> Outcome {
    let out_of_range = || Failure::Error(format!("index out of range: {index}"));
    let index = usize::try_from(index).map_err(|_| out_of_range())?;
    let found = match text.chars().nth(index) {
        Some(letter) => letter.to_string(),
        None if text.chars().count() == index => String::new(),
        None => return Err(out_of_range()),
    };
    Ok(Cel::String(Arc::new(found)))
}

/// Returns the size of a value. A text has the number of its letters; the engine counts bytes.
fn size(value: &Cel) -> Outcome {
    let size = match value {
        Cel::String(text) => text.chars().count(),
        Cel::Bytes(bytes) => bytes.len(),
        Cel::List(items) => items.len(),
        Cel::Map(map) => map.map.len(),
        _ => return Err(Failure::no_overload()),
    };
    Ok(Cel::Int(i64::try_from(size).unwrap_or(i64::MAX)))
}

fn of_optional(name: &str, on: &Cel) -> Outcome {
    match (optional(on), name) {
        (Some(inner), "hasValue") => Ok(Cel::Bool(inner.is_some())),
        (Some(Some(value)), _) => Ok(value.clone()),
        (Some(None), _) => Err(Failure::Error("optional.none() dereference".to_owned())),
        (None, _) => Err(Failure::no_overload()),
    }
}
