//! Removal of parts from an object.

use serde_json::Value;

use crate::element::Element;
use crate::list_order::Items;
use crate::schema::{Type, View};
use crate::set::{Node, Set};

/// Removes the parts in `set` from `value`. A map or list that becomes empty is removed too, unless it is a member of
/// `kept`: then a field manager has applied it as such.
pub(crate) fn remove(of: &Type, value: &mut Value, set: &Set, kept: &Set) {
    remove_from(of, value, set, kept);
}

/// Removes the parts, and returns true if that left `value` empty.
fn remove_from(of: &Type, value: &mut Value, set: &Set, kept: &Set) -> bool {
    let view = match of {
        // The parts of a value that is owned whole have no field manager, but a set may be older than its schema.
        Type::Map(map) if value.is_object() => View::Map(map),
        other => other.view(value),
    };
    let goes = |element: &Element, of: &Type, value: &mut Value| {
        let Some(node) = set.nodes.get(element).filter(|node| !node.member) else {
            return set.nodes.contains_key(element);
        };
        let none = Node::default();
        let kept = kept.nodes.get(element).unwrap_or(&none);
        remove_from(of, value, &node.below, &kept.below) && !kept.member
    };
    match (view, value) {
        (View::Map(map), Value::Object(fields)) if !fields.is_empty() => {
            fields.retain(|name, field| !goes(&Element::field(name), map.field(name), field));
            fields.is_empty()
        }
        (View::List(list), Value::Array(items)) if !items.is_empty() => {
            let names = Items::of(list, items).names;
            let mut names = names.iter();
            items.retain_mut(|item| !names.next().is_some_and(|name| goes(name, &list.element, item)));
            items.is_empty()
        }
        _ => false,
    }
}
