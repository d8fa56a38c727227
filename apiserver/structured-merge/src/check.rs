//! Check of an applied configuration against its schema.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value};

use crate::element::{Element, Path};
use crate::go_values;
use crate::list_order::identify;
use crate::schema::{ListType, MapType, Relation, Scalar, Type};

/// Errors of a configuration that does not match its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch(pub Vec<String>);

impl fmt::Display for Mismatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [one] => write!(formatter, "{one}"),
            several => {
                write!(formatter, "errors:")?;
                several.iter().try_for_each(|error| write!(formatter, "\n  {error}"))
            }
        }
    }
}

impl std::error::Error for Mismatch {}

/// Checks a configuration before it is merged: no undeclared field, no duplicate, no value of another type. A null is
/// valid everywhere; validation decides whether it may stay.
///
/// # Errors
/// [`Mismatch`] with every error, in the order of the walk.
pub(crate) fn check(of: &Type, value: &Value) -> Result<(), Mismatch> {
    let mut walk = Walk { path: Path::default(), errors: Vec::new() };
    walk.value(of, value);
    if walk.errors.is_empty() { Ok(()) } else { Err(Mismatch(walk.errors)) }
}

struct Walk {
    path: Path,
    errors: Vec<String>,
}

impl Walk {
    fn error(&mut self, text: &str) {
        self.errors.push(format!("{}: {text}", self.path));
    }

    fn step(&mut self, element: Element, then: impl FnOnce(&mut Self)) {
        self.path.0.push(element);
        then(self);
        self.path.0.pop();
    }

    fn value(&mut self, of: &Type, value: &Value) {
        match (of, value) {
            (_, Value::Null) => {}
            (Type::Scalar(scalar), value) => self.scalar(*scalar, value),
            (Type::Map(map), Value::Object(fields)) => self.map(map, fields),
            (Type::Map(_), other) => {
                self.error(&format!("expected map, got &{{{}}}", go_values::plain(other)))
            }
            (Type::List(list), Value::Array(items)) => self.list(list, items),
            (Type::List(_), other) => {
                self.error(&format!("expected list, got &{{{}}}", go_values::plain(other)))
            }
            (Type::Deduced, _) => {}
        }
    }

    fn scalar(&mut self, scalar: Scalar, value: &Value) {
        // Upstream formats the wrong value differently for each type.
        let shown = || format!("&{{{}}}", go_values::plain(value));
        let error = match scalar {
            Scalar::Text if !value.is_string() => {
                format!("string, got &value.valueUnstructured{{Value:{}}}", go_values::literal(value))
            }
            Scalar::Number if !value.is_number() => {
                format!("numeric (int or float), got {}", go_values::type_name(value))
            }
            Scalar::Boolean if !value.is_boolean() => format!("boolean, got {}", shown()),
            Scalar::Any if value.is_object() || value.is_array() => format!("any scalar, got {}", shown()),
            _ => return,
        };
        self.error(&format!("expected {error}"));
    }

    fn map(&mut self, map: &MapType, fields: &Map<String, Value>) {
        let mut is_declared = true;
        for (name, value) in fields {
            let of = map.fields.get(name).or(map.element.as_ref());
            self.step(Element::field(name), |walk| match of {
                Some(of) => walk.value(of, value),
                // Upstream, too, reports one undeclared field of each map.
                None if is_declared => walk.error("field not declared in schema"),
                None => {}
            });
            is_declared &= of.is_some();
        }
    }

    fn list(&mut self, list: &ListType, items: &[Value]) {
        let mut names = BTreeSet::new();
        for (at, item) in items.iter().enumerate() {
            let name = if list.relation == Relation::Atomic {
                Element::Index(at)
            } else {
                match identify(list, item) {
                    Ok(name) => name,
                    Err(problem) => return self.error(&format!("element {at}: {problem}")),
                }
            };
            if !names.insert(name.clone()) {
                self.error(&format!("duplicate entries for key {name}"));
            }
            self.step(name, |walk| walk.value(&list.element, item));
        }
    }
}
