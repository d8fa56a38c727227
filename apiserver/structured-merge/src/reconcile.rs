//! Sets that are older than the schema.

use crate::schema::{Relation, Type};
use crate::set::{Node, Set};

/// Whether the schema reads the set otherwise than it was written.
pub(crate) fn is_outdated(of: &Type, set: &Set) -> bool {
    // Of most nodes there is nothing below: what they are need not be looked up.
    set.nodes.iter().filter(|(_, node)| !node.below.is_empty()).any(|(element, node)| {
        let below = of.below(element);
        is_whole(below) || is_outdated(below, &node.below)
    })
}

/// `set` as the schema reads it now: who owned a part of what is now owned whole, owns the whole.
pub(crate) fn reconcile(of: &Type, set: Set) -> Set {
    let mut reconciled = Set::default();
    for (element, node) in set.nodes {
        let below = of.below(&element);
        let node = if is_whole(below) && !node.below.is_empty() {
            Node { member: true, below: Set::default() }
        } else {
            Node { member: node.member, below: reconcile(below, node.below) }
        };
        reconciled.put(element, node);
    }
    reconciled
}

fn is_whole(of: &Type) -> bool {
    match of {
        Type::Map(map) => map.atomic,
        Type::List(list) => list.relation == Relation::Atomic,
        Type::Scalar(_) | Type::Deduced => false,
    }
}
