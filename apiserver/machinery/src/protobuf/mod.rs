//! Protobuf form of bodies, and their conversion to and from JSON.
//!
//! Tables, one per kind, define the fields of each message. One decoder and one encoder read the tables. So a dozen
//! kinds need no generated code, and the code between the two does not depend on the form of a body.

mod check;
mod encode;
mod messages;
mod wire;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

pub use check::{WrongType, prune};
pub use encode::{PartialList, encode, event, partial};
pub use messages::{DELETE_OPTIONS, METADATA, OLDER_PARTIAL_LIST, PARTIAL_LIST};
pub(crate) use wire::Writer;
use wire::{Datum, Reader};

/// Error of bytes that are not the expected message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("proto: {0}")]
pub struct Malformed(String);

/// One field of a message.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    number: u64,
    name: &'static str,
    shape: Shape,
    /// True for a pointer in Go: it is sent only if it is set, possibly to zero. Other fields are always sent, and zero
    /// means unset.
    pointer: bool,
    repeated: bool,
}

/// Type of a field.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// `string`.
    Text,
    /// `int32` or `int64`.
    Integer,
    /// `bool`.
    Boolean,
    /// `metav1.Time`: whole seconds.
    Time,
    /// `metav1.MicroTime`.
    MicroTime,
    /// `bytes`: base64 in JSON.
    Bytes,
    /// `map<string, string>`.
    Texts,
    /// `map<string, bytes>`: base64 in JSON.
    Blobs,
    /// `map<string, Quantity>`: texts in JSON.
    Quantities,
    /// `map<string, ExtraValue>`: lists of texts.
    TextLists,
    /// A message that contains texts only: a list in JSON.
    Items,
    /// `metav1.FieldsV1`: JSON in bytes.
    Json,
    /// Another message.
    Message(&'static [Field]),
}

impl Field {
    /// Defines a field whose zero value means that it is unset.
    pub const fn new(number: u64, name: &'static str, shape: Shape) -> Self {
        Self { number, name, shape, pointer: false, repeated: false }
    }

    /// Defines a field that may be set to its zero value.
    pub const fn pointer(number: u64, name: &'static str, shape: Shape) -> Self {
        Self { number, name, shape, pointer: true, repeated: false }
    }

    /// Defines a list.
    pub const fn list(number: u64, name: &'static str, shape: Shape) -> Self {
        Self { number, name, shape, pointer: false, repeated: true }
    }
}

/// Prefix of `runtime.Unknown`, which names the type of its content and contains it.
const ENVELOPE: [u8; 4] = *b"k8s\0";

/// Decodes a body: the envelope, and in it a `kind` with these `fields`. If the envelope names another kind, the object
/// has only that kind and its version, and the check of kinds refuses it.
///
/// # Errors
/// [`Malformed`] names the position at which the bytes stop to be a message.
pub fn decode(body: &[u8], kind: &str, fields: &[Field]) -> Result<Value, Malformed> {
    let Some(rest) = body.strip_prefix(&ENVELOPE) else {
        return Err(Malformed("the body does not begin with the prefix \"k8s\\x00\"".to_owned()));
    };
    let mut object = Map::new();
    let mut raw: &[u8] = &[];
    let mut reader = Reader::new(rest);
    while let Some((number, datum)) = reader.next()? {
        match number {
            1 => read_message(&mut object, datum.bytes()?, TYPE)?,
            2 => raw = datum.bytes()?,
            3 if !datum.bytes()?.is_empty() => return Err(Malformed("the body is encoded twice".to_owned())),
            _ => {}
        }
    }
    if object.get("kind").and_then(Value::as_str) == Some(kind) {
        read_message(&mut object, raw, fields)?;
    }
    Ok(Value::Object(object))
}

const TYPE: &[Field] = &[Field::new(1, "apiVersion", Shape::Text), Field::new(2, "kind", Shape::Text)];

/// Reads a message into `object`. Fields that are not in the table are skipped, as in protobuf.
fn read_message(object: &mut Map<String, Value>, bytes: &[u8], fields: &[Field]) -> Result<(), Malformed> {
    let mut reader = Reader::new(bytes);
    while let Some((number, datum)) = reader.next()? {
        if let Some(field) = fields.iter().find(|field| field.number == number) {
            read_field(object, field, datum)
                .map_err(|Malformed(why)| Malformed(format!("{}: {why}", field.name)))?;
        }
    }
    Ok(())
}

fn read_field(object: &mut Map<String, Value>, field: &Field, datum: Datum<'_>) -> Result<(), Malformed> {
    let name = field.name.to_owned();
    match field.shape {
        Shape::Message(fields) if field.repeated => {
            let mut item = Map::new();
            read_message(&mut item, datum.bytes()?, fields)?;
            push(object, name, Value::Object(item));
        }
        // A message that is sent in parts is one message.
        Shape::Message(fields) => {
            if let Value::Object(inner) = object.entry(name).or_insert_with(|| json!({})) {
                read_message(inner, datum.bytes()?, fields)?;
            }
        }
        Shape::Texts | Shape::Blobs | Shape::Quantities | Shape::TextLists => {
            let (key, value) = read_entry(datum.bytes()?, field.shape)?;
            if let Value::Object(map) = object.entry(name).or_insert_with(|| json!({})) {
                map.insert(key, value);
            }
        }
        Shape::Text
        | Shape::Bytes
        | Shape::Integer
        | Shape::Boolean
        | Shape::Time
        | Shape::MicroTime
        | Shape::Json
        | Shape::Items => {
            let value = read_scalar(field.shape, datum)?;
            if field.repeated {
                push(object, name, value);
            } else if (field.pointer && !value.is_null()) || !is_zero(&value) {
                object.insert(name, value);
            }
        }
    }
    Ok(())
}

fn push(object: &mut Map<String, Value>, name: String, item: Value) {
    if let Value::Array(list) = object.entry(name).or_insert_with(|| json!([])) {
        list.push(item);
    }
}

fn read_scalar(shape: Shape, datum: Datum<'_>) -> Result<Value, Malformed> {
    match shape {
        Shape::Integer => Ok(json!(datum.number()?.cast_signed())),
        Shape::Boolean => Ok(json!(datum.number()? != 0)),
        Shape::Time => time(datum.bytes()?, "%Y-%m-%dT%H:%M:%SZ"),
        Shape::MicroTime => time(datum.bytes()?, "%Y-%m-%dT%H:%M:%S%.6fZ"),
        Shape::Json => json_of(datum.bytes()?),
        Shape::Items => texts(datum.bytes()?),
        Shape::Bytes => Ok(json!(STANDARD.encode(datum.bytes()?))),
        _ => Ok(json!(datum.text()?)),
    }
}

/// Reads `Timestamp{seconds, nanos}`; an empty message is no time.
fn time(bytes: &[u8], format: &str) -> Result<Value, Malformed> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanos) = (0, 0);
    let mut reader = Reader::new(bytes);
    while let Some((number, datum)) = reader.next()? {
        match number {
            1 => seconds = datum.number()?.cast_signed(),
            2 => nanos = i32::try_from(datum.number()?.cast_signed()).unwrap_or(-1),
            _ => {}
        }
    }
    let moment = Timestamp::new(seconds, nanos).map_err(|error| Malformed(error.to_string()))?;
    Ok(json!(moment.strftime(format).to_string()))
}

/// Reads the JSON in a message whose one field contains it.
fn json_of(bytes: &[u8]) -> Result<Value, Malformed> {
    let mut reader = Reader::new(bytes);
    let mut value = Value::Null;
    while let Some((number, datum)) = reader.next()? {
        if number == 1 {
            value = serde_json::from_slice(datum.bytes()?).map_err(|error| Malformed(error.to_string()))?;
        }
    }
    Ok(value)
}

/// Reads one entry of a map. An omitted part is empty.
fn read_entry(bytes: &[u8], shape: Shape) -> Result<(String, Value), Malformed> {
    let empty = if matches!(shape, Shape::TextLists) { json!([]) } else { json!("") };
    let (mut key, mut value) = (String::new(), empty);
    let mut reader = Reader::new(bytes);
    while let Some((number, datum)) = reader.next()? {
        match (number, shape) {
            (1, _) => key = datum.text()?.to_owned(),
            (2, Shape::Blobs) => value = json!(STANDARD.encode(datum.bytes()?)),
            (2, Shape::TextLists) => value = texts(datum.bytes()?)?,
            (2, Shape::Quantities) => value = quantity(datum.bytes()?)?,
            (2, _) => value = json!(datum.text()?),
            _ => {}
        }
    }
    Ok((key, value))
}

/// Reads `Quantity{string}`.
fn quantity(bytes: &[u8]) -> Result<Value, Malformed> {
    let mut reader = Reader::new(bytes);
    let mut text = "";
    while let Some((number, datum)) = reader.next()? {
        if number == 1 {
            text = datum.text()?;
        }
    }
    Ok(json!(if text.is_empty() { "0" } else { text }))
}

/// Reads `ExtraValue{items}`.
fn texts(bytes: &[u8]) -> Result<Value, Malformed> {
    let mut reader = Reader::new(bytes);
    let mut list = Vec::new();
    while let Some((number, datum)) = reader.next()? {
        if number == 1 {
            list.push(json!(datum.text()?));
        }
    }
    Ok(Value::Array(list))
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Bool(set) => !set,
        Value::Array(_) | Value::Object(_) => false,
    }
}

#[cfg(test)]
mod tests;
