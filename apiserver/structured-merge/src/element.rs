//! Path elements, and paths to the parts of an object.

use std::fmt;

use compact_str::CompactString;
use serde_json::Value;

use crate::json_order::Item;

/// Path element: a step into a field, or to an item of a list.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Element {
    /// A field of a struct or a key of a map. Up to 24 bytes are stored inline: sets are created and dropped with
    /// every write, and nearly all names are that short.
    Field(CompactString),
    /// The item with these key fields, sorted by name.
    Key(Vec<(String, Item)>),
    /// The item that is this value.
    Value(Item),
    /// The item at this index. It is read, and never created by a merge: indexes shift.
    Index(usize),
}

/// Error of a key of `fieldsV1` that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("path element {text:?}: {problem}")]
pub struct InvalidElement {
    text: String,
    problem: String,
}

impl Element {
    /// Creates the element of a field.
    pub fn field(name: impl Into<CompactString>) -> Self {
        Self::Field(name.into())
    }

    /// Creates the element of the item that is `value`.
    pub fn value(value: Value) -> Self {
        Self::Value(Item::new(value))
    }

    /// Creates the element of the item with these key fields, in any order.
    pub fn key(fields: impl IntoIterator<Item = (String, Value)>) -> Self {
        let mut fields: Vec<_> = fields.into_iter().map(|(name, value)| (name, Item::new(value))).collect();
        fields.sort();
        Self::Key(fields)
    }

    /// Reads a key of `fieldsV1`; `None` for a kind of element that is not known.
    ///
    /// # Errors
    /// When the prefix or the text after it cannot be read.
    pub fn parse(text: &str) -> Result<Option<Self>, InvalidElement> {
        if let Some(name) = text.strip_prefix("f:") {
            return Ok(Some(Self::field(name)));
        }
        let invalid = |problem: String| InvalidElement { text: text.to_owned(), problem };
        let Some((prefix, rest)) = text.split_once(':').filter(|(prefix, _)| prefix.len() == 1) else {
            return Err(invalid("it must begin with a letter and a colon".to_owned()));
        };
        let json = || serde_json::from_str::<Value>(rest).map_err(|error| invalid(error.to_string()));
        match prefix {
            "v" => Ok(Some(Self::value(json()?))),
            "i" => {
                rest.parse().map(|at| Some(Self::Index(at))).map_err(|_| invalid("not an index".to_owned()))
            }
            "k" => match json()? {
                Value::Object(fields) => Ok(Some(Self::key(fields))),
                _ => Err(invalid("a key must be a JSON object".to_owned())),
            },
            _ => Ok(None),
        }
    }

    /// Returns the key of `fieldsV1` for this element.
    pub fn wire(&self) -> String {
        match self {
            Self::Field(name) => ["f:", name].concat(),
            Self::Value(item) => ["v:", &json_of_go(item.value())].concat(),
            Self::Index(at) => format!("i:{at}"),
            Self::Key(fields) => {
                let field = |(name, item): &(String, Item)| {
                    [&Value::from(name.as_str()), item.value()].map(json_of_go).join(":")
                };
                ["k:{", &fields.iter().map(field).collect::<Vec<_>>().join(","), "}"].concat()
            }
        }
    }
}

/// Formats JSON as Go does, with escapes for the characters that are unsafe in HTML. They occur only in strings.
fn json_of_go(value: &Value) -> String {
    let text = value.to_string();
    let escaped = |letter: char| matches!(letter, '<' | '>' | '&' | '\u{2028}' | '\u{2029}');
    if !text.contains(escaped) {
        return text;
    }
    text.chars().fold(String::with_capacity(text.len() + 5), |mut written, letter| {
        if escaped(letter) {
            written.push_str(&format!("\\u{:04x}", u32::from(letter)));
        } else {
            written.push(letter);
        }
        written
    })
}

impl fmt::Display for Element {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(formatter, ".{name}"),
            Self::Value(item) => write!(formatter, "[={}]", item.value()),
            Self::Index(at) => write!(formatter, "[{at}]"),
            Self::Key(fields) => {
                let fields: Vec<String> =
                    fields.iter().map(|(name, item)| format!("{name}={}", item.value())).collect();
                write!(formatter, "[{}]", fields.join(","))
            }
        }
    }
}

/// Path to one part of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(pub Vec<Element>);

impl Path {
    /// Creates a path through these fields.
    pub fn of_fields<'a>(fields: impl IntoIterator<Item = &'a str>) -> Self {
        Self(fields.into_iter().map(Element::field).collect())
    }
}

impl fmt::Display for Path {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| write!(formatter, "{element}"))
    }
}
