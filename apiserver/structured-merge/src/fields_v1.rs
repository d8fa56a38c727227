//! Encoding of sets in `fieldsV1`.

use serde_json::{Map, Value};

use crate::element::{Element, InvalidElement};
use crate::set::{Node, Set};

/// Error of a `fieldsV1` that is no set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidFields {
    /// A key cannot be read.
    #[error(transparent)]
    Element(#[from] InvalidElement),
    /// A node is no JSON object.
    #[error("a node of fieldsV1 is not a JSON object")]
    NotAnObject,
}

/// Reads a set. Elements of unknown kinds, which a newer server may have written, are left out.
///
/// # Errors
/// When a key or a node cannot be read.
pub fn read(value: &Value) -> Result<Set, InvalidFields> {
    Ok(read_node(value)?.below.when_read())
}

fn read_node(value: &Value) -> Result<Node, InvalidFields> {
    let empty = Map::new();
    let map = match value {
        Value::Object(map) => map,
        Value::Null => &empty,
        _ => return Err(InvalidFields::NotAnObject),
    };
    let mut node = Node { member: map.contains_key("."), below: Set::default() };
    for (key, below) in map.iter().filter(|(key, _)| *key != ".") {
        if let Some(element) = Element::parse(key)? {
            node.below.put(element, read_node(below)?);
        }
    }
    // With nothing below, the node itself is the member.
    node.member |= node.below.is_empty();
    Ok(node)
}

/// Writes a set. The keys of every node are sorted by their bytes, as those of a JSON object are here, so that equal
/// sets are equal text.
pub fn write(set: &Set) -> Value {
    set.nodes.iter().map(|(element, node)| (element.wire(), write_node(node))).collect()
}

/// Initial capacity, in bytes, for most sets, so that few are moved while they grow: a Machine's status has 1.5 KB.
const TYPICAL: usize = 2 * 1024;

/// Writes a set as text.
pub fn text(set: &Set) -> String {
    let mut text = Vec::with_capacity(TYPICAL);
    write_text(set, false, &mut text);
    // All bytes written here are UTF-8.
    String::from_utf8(text).unwrap_or_default()
}

fn write_text(set: &Set, is_member: bool, text: &mut Vec<u8>) {
    text.push(b'{');
    let mut is_first = true;
    let mut write = |name: &dyn Fn(&mut Vec<u8>), node: &Node| {
        if !std::mem::take(&mut is_first) {
            text.push(b',');
        }
        name(text);
        text.push(b':');
        write_text(&node.below, node.member, text);
    };
    // `.` sorts before all names.
    if is_member && !set.is_empty() {
        write(&|text| text.extend_from_slice(br#"".""#), &Node::default());
    }
    // Fields come before all other elements, and their names before all other names, in the same order.
    let mut others = Vec::new();
    for (element, node) in &set.nodes {
        match element {
            Element::Field(field) => write(&|text| write_field(field, text), node),
            other => others.push((other.wire(), node)),
        }
    }
    others.sort_by(|(left, _), (right, _)| left.cmp(right));
    for (name, node) in others {
        write(&|text| write_name(&name, text), node);
    }
    text.push(b'}');
}

fn write_field(field: &str, text: &mut Vec<u8>) {
    let is_plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
    if !field.bytes().all(is_plain) {
        return write_name(&["f:", field].concat(), text);
    }
    text.extend_from_slice(b"\"f:");
    text.extend_from_slice(field.as_bytes());
    text.push(b'"');
}

fn write_name(name: &str, text: &mut Vec<u8>) {
    // Writing to memory does not fail.
    let _ = serde_json::to_writer(text, name);
}

fn write_node(node: &Node) -> Value {
    let is_both = node.member && !node.below.is_empty();
    let own = is_both.then(|| (".".to_owned(), Value::Object(Map::new())));
    let below = node.below.nodes.iter().map(|(element, node)| (element.wire(), write_node(node)));
    own.into_iter().chain(below).collect()
}
