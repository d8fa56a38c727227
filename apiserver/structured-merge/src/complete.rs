//! Completion of sets: adds the structs on the paths to their members.

use crate::element::Element;
use crate::schema::Type;
use crate::set::{Node, Set};

/// Returns `set` with every declared struct field on the path to a member. List items and keys that no schema
/// declares are not added: they exist by themselves.
pub(crate) fn complete(of: &Type, set: &Set) -> Set {
    let mut completed = Set::default();
    for (element, node) in &set.nodes {
        let below = complete(of.below(element), &node.below);
        let member = node.member || (!below.is_empty() && is_declared(of, element));
        completed.put(element.clone(), Node { member, below });
    }
    completed
}

fn is_declared(of: &Type, element: &Element) -> bool {
    match (of, element) {
        (Type::Map(map), Element::Field(name)) => map.fields.contains_key(name.as_str()),
        _ => false,
    }
}
