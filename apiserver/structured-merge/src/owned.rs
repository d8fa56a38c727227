//! Ownership of an applied configuration: the parts that its field manager owns.

use serde_json::Value;

use crate::element::Element;
use crate::list_order::Items;
use crate::schema::{MapType, Type, View};
use crate::set::{Node, Set};

/// Returns the set of an applied configuration: its leaves, the items of its lists, and the keys that no schema
/// declares.
pub fn owned(of: &Type, value: &Value) -> Set {
    let mut node = Node::default();
    walk(of, value, &mut node);
    node.below
}

fn walk(of: &Type, value: &Value, node: &mut Node) {
    match of.view(value) {
        View::Leaf => node.member = true,
        View::Map(map) => walk_map(map, value, node),
        View::List(list) => {
            let items = Items::of(list, value.as_array().map_or(&[], Vec::as_slice));
            for name in &items.order {
                let mut item = Node { member: true, ..Node::default() };
                // Items that are called the same are one value, and owned as one.
                if let Some(single) = items.single(name) {
                    walk(&list.element, single, &mut item);
                }
                node.below.put(name.clone(), item);
            }
        }
    }
}

fn walk_map(map: &MapType, value: &Value, node: &mut Node) {
    for (name, value) in value.as_object().into_iter().flatten() {
        let mut field = Node::default();
        walk(map.field(name), value, &mut field);
        let empty = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
        field.member |= empty || !map.fields.contains_key(name);
        node.below.put(Element::field(name), field);
    }
}
