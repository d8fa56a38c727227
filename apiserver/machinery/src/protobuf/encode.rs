//! Encoder from JSON to protobuf, byte for byte like Go's generated encoders: fields in the order of their numbers,
//! fields that are no pointers even if they are empty, maps sorted by key.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::Value;

use super::messages::{
    DISCOVERED, GROUP, GROUPS, METADATA, OLDER_PARTIAL_LIST, PARTIAL, PARTIAL_LIST, RESOURCES, STATUS,
    VERSIONS,
};
use super::wire::Writer;
use super::{ENVELOPE, Field, Shape};

/// Encodes an object in its envelope; returns `None` if its kind has no protobuf form here.
pub fn encode(object: &Value) -> Option<Vec<u8>> {
    let part = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let fields = match part("kind") {
        "Status" => STATUS,
        "PartialObjectMetadata" => PARTIAL,
        "PartialObjectMetadataList" => partial_list(part("apiVersion")),
        "APIGroupList" => GROUPS,
        "APIGroup" => GROUP,
        "APIResourceList" => RESOURCES,
        "APIVersions" => VERSIONS,
        "APIGroupDiscoveryList" => DISCOVERED,
        _ => return None,
    };
    Some(envelope(part("apiVersion"), part("kind"), &message(object, fields)))
}

fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let mut envelope = opened(api_version, kind);
    envelope.bytes(2, raw);
    envelope.bytes(3, &[]);
    envelope.bytes(4, &[]);
    envelope.finish()
}

/// Returns the start of an envelope, with the type of its content.
fn opened(api_version: &str, kind: &str) -> Writer {
    let mut what = Writer::default();
    what.bytes(1, api_version.as_bytes());
    what.bytes(2, kind.as_bytes());
    let mut envelope = Writer::starting_with(&ENVELOPE);
    envelope.bytes(1, &what.finish());
    envelope
}

/// Encodes a `PartialObjectMetadata` with this `metadata`.
pub fn partial(api_version: &str, metadata: &Value) -> Vec<u8> {
    envelope(api_version, "PartialObjectMetadata", &partial_message(metadata))
}

fn partial_message(metadata: &Value) -> Vec<u8> {
    let mut out = Writer::default();
    write(&mut out, &METADATA, metadata);
    out.finish()
}

/// Returns the fields of a `PartialObjectMetadataList` in this version.
fn partial_list(api_version: &str) -> &'static [Field] {
    if api_version == "meta.k8s.io/v1beta1" { OLDER_PARTIAL_LIST } else { PARTIAL_LIST }
}

/// A `PartialObjectMetadataList` that is written one item at a time. Its length is at its start, so each item is
/// counted before the first one is written.
#[derive(Debug)]
pub struct PartialList {
    api_version: String,
    /// Length of all items.
    length: usize,
    /// The bytes of the message before its items, and after them.
    around: [Vec<u8>; 2],
    /// Field number of the items.
    number: u64,
}

impl PartialList {
    /// The bytes after the message: the encoding and the type of the content are empty.
    const TAIL: &'static [u8] = &[3 << 3 | 2, 0, 4 << 3 | 2, 0];

    /// Creates a list with this `metadata` and no items.
    pub fn new(api_version: &str, metadata: &Value) -> Self {
        let fields = partial_list(api_version);
        let mut parts = fields.split(|field| field.repeated).map(|fields| {
            let mut part = Writer::default();
            fields.iter().for_each(|field| write(&mut part, field, metadata));
            part.finish()
        });
        let around = [parts.next().unwrap_or_default(), parts.next().unwrap_or_default()];
        let number = fields.iter().find(|field| field.repeated).map_or(0, |field| field.number);
        Self { api_version: api_version.to_owned(), length: 0, around, number }
    }

    /// Counts an item with this `metadata`.
    pub fn count(&mut self, metadata: &Value) {
        self.length += self.item(metadata).len();
    }

    /// Returns the length of the counted items, in bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Returns the bytes before the first item.
    pub fn head(&self) -> Vec<u8> {
        let [before, after] = &self.around;
        let mut head = opened(&self.api_version, "PartialObjectMetadataList");
        head.begin(2, before.len() + self.length + after.len(), before);
        head.finish()
    }

    /// Encodes an item with this `metadata`.
    pub fn item(&self, metadata: &Value) -> Vec<u8> {
        let mut item = Writer::default();
        item.bytes(self.number, &partial_message(metadata));
        item.finish()
    }

    /// Returns the bytes after the last item.
    pub fn tail(&self) -> Vec<u8> {
        [self.around[1].as_slice(), Self::TAIL].concat()
    }
}

/// Encodes one event of a watch with an encoded object: `WatchEvent`, after its length.
pub fn event(kind: &str, object: &[u8]) -> Vec<u8> {
    let mut raw = Writer::default();
    raw.bytes(1, object);
    let mut event = Writer::default();
    event.bytes(1, kind.as_bytes());
    event.bytes(2, &raw.finish());
    let event = event.finish();
    // No object is that long. A frame with a wrong length would be worse than one that ends.
    let length = u32::try_from(event.len()).unwrap_or(u32::MAX);
    [length.to_be_bytes().as_slice(), &event].concat()
}

fn message(object: &Value, fields: &[Field]) -> Vec<u8> {
    let mut out = Writer::default();
    for field in fields {
        let value = object.get(field.name).filter(|value| !value.is_null());
        match value {
            Some(Value::Array(items)) if field.repeated => {
                items.iter().for_each(|item| write(&mut out, field, item));
            }
            Some(Value::Object(map))
                if matches!(field.shape, Shape::Texts | Shape::Blobs | Shape::Quantities) =>
            {
                for (key, value) in sorted(map) {
                    out.bytes(field.number, &entry(key, value, field.shape));
                }
            }
            Some(value) if !field.repeated => write(&mut out, field, value),
            None if is_always_written(field) => write(&mut out, field, &Value::Null),
            _ => {}
        }
    }
    out.finish()
}

/// Returns true for fields that Go writes even if they are empty: all but pointers, lists and maps.
fn is_always_written(field: &Field) -> bool {
    !field.pointer
        && !field.repeated
        && !matches!(
            field.shape,
            Shape::Texts | Shape::Blobs | Shape::Quantities | Shape::TextLists | Shape::Json
        )
}

fn sorted(map: &serde_json::Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_by_key(|(key, _)| *key);
    entries
}

fn entry(key: &str, value: &Value, shape: Shape) -> Vec<u8> {
    let text = value.as_str().unwrap_or_default();
    let mut entry = Writer::default();
    entry.bytes(1, key.as_bytes());
    match shape {
        Shape::Blobs => entry.bytes(2, &STANDARD.decode(text).unwrap_or_default()),
        Shape::Quantities => {
            let mut quantity = Writer::default();
            quantity.bytes(1, text.as_bytes());
            entry.bytes(2, &quantity.finish());
        }
        _ => entry.bytes(2, text.as_bytes()),
    }
    entry.finish()
}

fn write(out: &mut Writer, field: &Field, value: &Value) {
    let number = field.number;
    match field.shape {
        Shape::Text => out.bytes(number, value.as_str().unwrap_or_default().as_bytes()),
        Shape::Bytes => {
            out.bytes(number, &STANDARD.decode(value.as_str().unwrap_or_default()).unwrap_or_default());
        }
        Shape::Integer => out.number(number, value.as_i64().unwrap_or_default().cast_unsigned()),
        Shape::Boolean => out.number(number, u64::from(value.as_bool().unwrap_or_default())),
        Shape::Time | Shape::MicroTime => out.bytes(number, &time(value, field.shape)),
        Shape::Json => {
            let mut inner = Writer::default();
            match value {
                // The cache has it as text; no such field is a text otherwise.
                Value::String(text) => inner.bytes(1, text.as_bytes()),
                other => inner.bytes(1, other.to_string().as_bytes()),
            }
            out.bytes(number, &inner.finish());
        }
        Shape::Items => {
            let mut inner = Writer::default();
            let texts = value.as_array().into_iter().flatten().filter_map(Value::as_str);
            texts.for_each(|text| inner.bytes(1, text.as_bytes()));
            out.bytes(number, &inner.finish());
        }
        Shape::Message(fields) => out.bytes(number, &message(value, fields)),
        // Maps are written entry by entry, and lists of texts in maps are only read.
        Shape::Texts | Shape::Blobs | Shape::Quantities | Shape::TextLists => {}
    }
}

/// Encodes `Timestamp{seconds, nanos}`; no time is an empty message.
fn time(value: &Value, shape: Shape) -> Vec<u8> {
    let mut out = Writer::default();
    if let Some(moment) = value.as_str().and_then(|text| text.parse::<Timestamp>().ok()) {
        let nanos = if matches!(shape, Shape::MicroTime) { moment.subsec_nanosecond() } else { 0 };
        out.number(1, moment.as_second().cast_unsigned());
        out.number(2, i64::from(nanos).cast_unsigned());
    }
    out.finish()
}
