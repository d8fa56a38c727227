//! Reconciliation of sets that are older than the schema.

use crate::schema::{Relation, Type};
use crate::set::{Node, Set};

/// Returns true if the schema structures the set differently than when it was written.
pub(crate) fn is_outdated(of: &Type, set: &Set) -> bool {
    // Most nodes have nothing below: their types need not be looked up.
    set.nodes.iter().filter(|(_, node)| !node.below.is_empty()).any(|(element, node)| {
        let below = of.below(element);
        is_whole(below) || is_outdated(below, &node.below)
    })
}

/// Returns `set` by the current schema: the field manager of a part of a value that is now owned whole owns the whole
/// value.
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
