//! Sets as they stand in `fieldsV1`.

use serde_json::{Map, Value};

use crate::element::{Element, InvalidElement};
use crate::set::{Node, Set};

/// What stands in `fieldsV1` is no set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidFields {
    /// A key cannot be read.
    #[error(transparent)]
    Element(#[from] InvalidElement),
    /// A node is no JSON object.
    #[error("a node of fieldsV1 is not a JSON object")]
    NotAnObject,
}

/// Reads a set. What a newer server may have written and is not known here is left out.
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
    // With nothing below, the node itself must be what is meant.
    node.member |= node.below.is_empty();
    Ok(node)
}

/// Writes a set. The keys of every node are sorted by their bytes, as a JSON object here is, so that the same set is
/// always the same text.
pub fn write(set: &Set) -> Value {
    set.nodes.iter().map(|(element, node)| (element.wire(), write_node(node))).collect()
}

/// The same as text.
pub fn text(set: &Set) -> String {
    let mut text = Vec::new();
    write_text(set, false, &mut text);
    // Of what is written here nothing is not UTF-8.
    String::from_utf8(text).unwrap_or_default()
}

fn write_text(set: &Set, is_member: bool, text: &mut Vec<u8>) {
    let mut names: Vec<(String, &Node)> =
        set.nodes.iter().map(|(element, node)| (element.wire(), node)).collect();
    if !names.is_sorted_by(|(left, _), (right, _)| left <= right) {
        names.sort_by(|(left, _), (right, _)| left.cmp(right));
    }
    text.push(b'{');
    // Of all names this is the first.
    if is_member && !names.is_empty() {
        text.extend_from_slice(br#"".":{},"#);
    }
    for (index, (name, node)) in names.into_iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        // Writing to memory does not fail.
        let _ = serde_json::to_writer(&mut *text, &name);
        text.push(b':');
        write_text(&node.below, node.member, text);
    }
    text.push(b'}');
}

fn write_node(node: &Node) -> Value {
    let is_both = node.member && !node.below.is_empty();
    let own = is_both.then(|| (".".to_owned(), Value::Object(Map::new())));
    let below = node.below.nodes.iter().map(|(element, node)| (element.wire(), write_node(node)));
    own.into_iter().chain(below).collect()
}
