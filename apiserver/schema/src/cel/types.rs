//! Types of expressions, and their assignability.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::value::escaped;
use crate::{Kind, ObjectSchema, Schema};

/// Type of an expression.
#[derive(Debug, Clone)]
pub(super) enum Type<'a> {
    /// Dynamic type, known only at run time.
    Dyn,
    /// Type of the items of an empty list, which fits every type.
    Free,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Timestamp,
    Duration,
    List(Box<Self>),
    Map(Box<Self>, Box<Self>),
    Optional(Box<Self>),
    /// Object with named fields.
    Object(&'a ObjectSchema),
    /// Object whose fields are the variables of a policy.
    Variables(Arc<BTreeMap<String, Self>>),
    /// Type of a library, such as an address or a quantity, or the type of a type.
    Named(String),
    /// Type parameter, the same wherever a signature names it.
    Parameter(char),
}

/// Values of the type parameters of a signature in one call.
pub(super) type Bindings<'a> = BTreeMap<char, Type<'a>>;

impl<'a> Type<'a> {
    /// Returns the type of the values of a schema.
    pub(super) fn of(schema: &'a Schema) -> Self {
        match &schema.kind {
            Kind::Any | Kind::IntegerOrText(..) => Self::Dyn,
            Kind::Boolean => Self::Bool,
            Kind::Integer(_) => Self::Int,
            Kind::Number(_) => Self::Double,
            Kind::Text(text) => match text.format.map(|format| format.name()) {
                Some("date" | "date-time" | "datetime") => Self::Timestamp,
                Some("duration") => Self::Duration,
                Some("byte") => Self::Bytes,
                _ => Self::Text,
            },
            Kind::List(list) => Self::List(Box::new(Self::of(&list.items))),
            Kind::Object(object) => match &object.additional {
                Some(free) => Self::Map(Box::new(Self::Text), Box::new(Self::of(free))),
                None if schema.embedded => Self::Dyn,
                None => Self::Object(object),
            },
        }
    }

    /// Reports whether a value of this type fits `wanted`, and binds type parameters.
    pub(super) fn fits(&self, wanted: &Self, bindings: &mut Bindings<'a>) -> bool {
        match (wanted, self) {
            (Self::Parameter(name), _) => match bindings.get(name).cloned() {
                None => {
                    bindings.insert(*name, self.clone());
                    true
                }
                Some(Self::Dyn) => true,
                Some(Self::Free) => {
                    bindings.insert(*name, self.clone());
                    true
                }
                Some(bound) if self.fits(&bound, bindings) => true,
                Some(bound) if bound.fits(self, bindings) => {
                    bindings.insert(*name, self.clone());
                    true
                }
                Some(_) => false,
            },
            (Self::Dyn | Self::Free, _) | (_, Self::Dyn | Self::Free) => true,
            (Self::Null, Self::Null)
            | (Self::Bool, Self::Bool)
            | (Self::Int, Self::Int)
            | (Self::Uint, Self::Uint)
            | (Self::Double, Self::Double)
            | (Self::Text, Self::Text)
            | (Self::Bytes, Self::Bytes)
            | (Self::Timestamp | Self::Object(_) | Self::Named(_) | Self::Optional(_), Self::Null)
            | (Self::Variables(_), Self::Null)
            | (Self::Duration, Self::Null | Self::Duration)
            | (Self::Timestamp, Self::Timestamp) => true,
            (Self::List(wanted), Self::List(given)) | (Self::Optional(wanted), Self::Optional(given)) => {
                given.fits(wanted, bindings)
            }
            (Self::Map(wanted, inner), Self::Map(given, value)) => {
                given.fits(wanted, bindings) && value.fits(inner, bindings)
            }
            (Self::Object(wanted), Self::Object(given)) => std::ptr::eq(*wanted, *given),
            (Self::Variables(wanted), Self::Variables(given)) => Arc::ptr_eq(wanted, given),
            (Self::Named(wanted), Self::Named(given)) => wanted == given,
            _ => false,
        }
    }

    /// Returns the type with its parameters replaced.
    pub(super) fn with(&self, bindings: &Bindings<'a>) -> Self {
        let inner = |one: &Self| Box::new(one.with(bindings));
        match self {
            Self::Parameter(name) => bindings.get(name).cloned().unwrap_or(Self::Dyn),
            Self::List(item) => Self::List(inner(item)),
            Self::Optional(value) => Self::Optional(inner(value)),
            Self::Map(key, value) => Self::Map(inner(key), inner(value)),
            other => other.clone(),
        }
    }

    /// Returns the type of a variable that has a value of this type. As in upstream, a variable keeps simple types, and
    /// lists and maps of them; everything else is dynamic.
    pub(super) fn of_variable(&self) -> Self {
        let inner = |one: &Self| Box::new(one.of_variable());
        match self {
            Self::List(item) => Self::List(inner(item)),
            Self::Map(key, value) => Self::Map(inner(key), inner(value)),
            Self::Free
            | Self::Optional(_)
            | Self::Object(_)
            | Self::Variables(_)
            | Self::Named(_)
            | Self::Parameter(_) => Self::Dyn,
            simple => simple.clone(),
        }
    }

    /// Returns the common result type of two overloads.
    pub(super) fn or(self, other: &Self) -> Self {
        if self.is(other) { self } else { Self::Dyn }
    }

    /// Returns the more general of two types if one fits the other.
    pub(super) fn joined(self, other: &Self) -> Option<Self> {
        let bindings = &mut Bindings::new();
        match (&self, other) {
            (Self::Free, _) => Some(other.clone()),
            (_, Self::Dyn) => Some(Self::Dyn),
            // For example the items of an empty list or map beside one that is not empty.
            (Self::List(item), Self::List(_)) if matches!(**item, Self::Free) => Some(other.clone()),
            (Self::Map(key, _), Self::Map(..)) if matches!(**key, Self::Free) => Some(other.clone()),
            _ if other.fits(&self, bindings) => Some(self),
            _ => self.fits(other, bindings).then(|| other.clone()),
        }
    }

    /// Reports whether both types are equal.
    pub(super) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::List(one), Self::List(other)) | (Self::Optional(one), Self::Optional(other)) => {
                one.is(other)
            }
            (Self::Map(key, value), Self::Map(other_key, other)) => key.is(other_key) && value.is(other),
            (Self::Object(one), Self::Object(other)) => std::ptr::eq(*one, *other),
            (Self::Variables(one), Self::Variables(other)) => Arc::ptr_eq(one, other),
            (Self::Named(one), Self::Named(other)) => one == other,
            (Self::Parameter(one), Self::Parameter(other)) => one == other,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }

    /// Reports whether all values of the type have the same size.
    pub(super) fn is_scalar(&self) -> bool {
        match self {
            Self::Bool | Self::Double | Self::Duration | Self::Int | Self::Timestamp | Self::Uint => true,
            Self::Optional(inner) => inner.is_scalar(),
            _ => false,
        }
    }
}

impl fmt::Display for Type<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dyn | Self::Free => "dyn",
            Self::Null => "null",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::Text => "string",
            Self::Bytes => "bytes",
            Self::Timestamp => "timestamp",
            Self::Duration => "duration",
            Self::Object(_) => "object",
            Self::Variables(_) => "kubernetes.variables",
            Self::Named(name) => name,
            Self::List(item) => return write!(f, "list({item})"),
            Self::Map(key, value) => return write!(f, "map({key}, {value})"),
            Self::Optional(value) => return write!(f, "optional_type({value})"),
            Self::Parameter(name) => return write!(f, "{name}"),
        })
    }
}

/// Returns the field of an object by its name in expressions.
pub(super) fn field<'a>(object: &'a ObjectSchema, name: &str) -> Option<&'a Schema> {
    let plain = object.properties.get(name).filter(|_| escaped(name) == name);
    let found = plain.or_else(|| object.properties.get(object.escaped_property(name)?));
    found.filter(|schema| is_seen(schema))
}

/// Reports whether expressions can see values of a schema. They cannot see values without a declared type.
pub(super) fn is_seen(schema: &Schema) -> bool {
    match &schema.kind {
        Kind::Any => false,
        Kind::List(list) => is_seen(&list.items),
        Kind::Object(object) => object.additional.as_ref().is_none_or(is_seen),
        _ => true,
    }
}
