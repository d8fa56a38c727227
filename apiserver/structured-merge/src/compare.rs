//! Comparison of two states of an object.

use serde_json::{Map, Value};

use crate::element::Element;
use crate::json_order::same;
use crate::list_order::{self, Items, values};
use crate::schema::{ListType, MapType, Type, View};
use crate::set::{Node, Set};

/// Parts that were added, removed or modified.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Parts that only the new state has.
    pub added: Set,
    /// Parts that both have with different values.
    pub modified: Set,
    /// Parts that only the old state has.
    pub removed: Set,
}

impl Comparison {
    /// Returns true if the two states have the same parts and values.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    fn of(difference: Difference) -> Self {
        Self {
            added: difference.added.below,
            modified: difference.modified.below,
            removed: difference.removed.below,
        }
    }

    /// Returns the added and modified parts.
    pub(crate) fn gained(self) -> Set {
        let mut gained = self.modified;
        gained.add(self.added);
        gained
    }

    /// Returns the added and modified parts that are in `set`.
    pub(crate) fn gained_of(&self, set: &Set) -> Set {
        let mut gained = set.intersection(&self.modified);
        gained.add(set.intersection(&self.added));
        gained
    }
}

/// Difference at one node: the same three sets.
#[derive(Default)]
struct Difference {
    added: Node,
    modified: Node,
    removed: Node,
}

impl Difference {
    fn put(self, element: Element, into: &mut Self) {
        if !self.added.is_empty() {
            into.added.below.put(element.clone(), self.added);
        }
        if !self.modified.is_empty() {
            into.modified.below.put(element.clone(), self.modified);
        }
        if !self.removed.is_empty() {
            into.removed.below.put(element, self.removed);
        }
    }

    fn is_empty(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }
}

/// Compares `old` with `new`. The order of items is no difference.
pub fn compare(of: &Type, old: &Value, new: &Value) -> Comparison {
    let mut difference = Difference::default();
    walk(of, Some(old), Some(new), &mut difference);
    Comparison::of(difference)
}

/// Compares `old` with `new`, without these parts and all below them. Fields of the object itself among them are
/// skipped.
pub(crate) fn compare_without(of: &Type, old: &Value, new: &Value, parts: &Set) -> Comparison {
    let mut comparison = match (of.view(old), old.as_object(), new.as_object()) {
        // Two objects have the same view.
        (View::Map(map), Some(old), Some(new)) => {
            let mut difference = Difference::default();
            let is_kept = |name: &str| !parts.has(&[Element::field(name)]);
            maps(map, [Some(old), Some(new)], is_kept, &mut difference);
            Comparison::of(difference)
        }
        _ => compare(of, old, new),
    };
    for set in [&mut comparison.added, &mut comparison.modified, &mut comparison.removed] {
        set.subtract_trees(parts);
    }
    comparison
}

fn walk(of: &Type, old: Option<&Value>, new: Option<&Value>, to: &mut Difference) {
    // Most of an object is unchanged: this check costs less than to find the view for its comparison.
    if old.is_some() && old == new {
        return;
    }
    match (old, new) {
        (None, None) => {}
        (Some(old), None) => to.removed = one_sided(of, old),
        (None, Some(new)) => to.added = one_sided(of, new),
        (Some(old), Some(new)) => {
            let (before, after) = (of.view(old), of.view(new));
            if !before.is(after) {
                visit(before, old, new, to);
            }
            visit(after, old, new, to);
        }
    }
}

/// Returns the node of a part that only one state has, with all below it.
fn one_sided(of: &Type, value: &Value) -> Node {
    let mut node = Node { member: true, ..Node::default() };
    match of.view(value) {
        View::Leaf => {}
        View::Map(map) => {
            for (name, value) in value.as_object().into_iter().flatten() {
                node.below.put(Element::field(name), one_sided(map.field(name), value));
            }
        }
        View::List(list) => {
            for (at, item) in values(value.as_array()).iter().enumerate() {
                let name = list_order::name(list, at, item);
                // Items called the same are one value, which comes or goes as a whole.
                let item = match node.below.nodes.contains_key(&name) {
                    true => Node { member: true, ..Node::default() },
                    false => one_sided(&list.element, item),
                };
                node.below.put(name, item);
            }
        }
    }
    node
}

/// Compares two values in one view.
fn visit(view: View<'_>, old: &Value, new: &Value, to: &mut Difference) {
    match view {
        View::Leaf => {}
        View::Map(map) => {
            let (before, after) = (old.as_object(), new.as_object());
            if before.is_some_and(|map| !map.is_empty()) || after.is_some_and(|map| !map.is_empty()) {
                return maps(map, [before, after], |_| true, to);
            }
        }
        View::List(list) => {
            let (before, after) = (old.as_array(), new.as_array());
            if before.is_some_and(|list| !list.is_empty()) || after.is_some_and(|list| !list.is_empty()) {
                if before != after {
                    lists(list, values(before), values(after), to);
                }
                return;
            }
        }
    }
    to.modified.member |= !same(old, new);
}

/// Compares the fields that `is_compared` accepts.
fn maps(
    map: &MapType,
    [old, new]: [Option<&Map<String, Value>>; 2],
    is_compared: impl Fn(&str) -> bool,
    to: &mut Difference,
) {
    let mut field = |name: &String, old: Option<&Value>, new: Option<&Value>| {
        let mut below = Difference::default();
        walk(map.field(name), old, new, &mut below);
        if !below.is_empty() {
            below.put(Element::field(name), to);
        }
    };
    for (name, value) in old.into_iter().flatten().filter(|(name, _)| is_compared(name)) {
        field(name, Some(value), new.and_then(|new| new.get(name)));
    }
    for (name, value) in new.into_iter().flatten().filter(|(name, _)| is_compared(name)) {
        if old.is_none_or(|old| !old.contains_key(name)) {
            field(name, None, Some(value));
        }
    }
}

fn lists(list: &ListType, old: &[Value], new: &[Value], to: &mut Difference) {
    let (before, after) = (Items::of(list, old), Items::of(list, new));
    let fresh = after.order.iter().filter(|name| !before.by_name.contains_key(name));
    for name in before.order.iter().chain(fresh) {
        let items = |side: &Items<'_>| side.by_name.get(name).map_or(0, Vec::len);
        let mut below = Difference::default();
        let mut single = |old, new| walk(&list.element, old, new, &mut below);
        match (items(&before), items(&after)) {
            (0 | 1, 0 | 1) => single(before.single(name), after.single(name)),
            // Items called the same are compared as one value, which comes or goes as a whole.
            (0 | 1, _) => {
                if let Some(old) = before.single(name) {
                    single(Some(old), None);
                }
                below.added.member = true;
            }
            (_, 0 | 1) => {
                if let Some(new) = after.single(name) {
                    single(None, Some(new));
                }
                below.removed.member = true;
            }
            _ => {
                let (old, new) = (before.by_name.get(name), after.by_name.get(name));
                let pairs = || old.into_iter().flatten().zip(new.into_iter().flatten());
                let equal =
                    old.map(Vec::len) == new.map(Vec::len) && pairs().all(|(old, new)| same(old, new));
                below.modified.member = !equal;
            }
        }
        if !below.is_empty() {
            below.put(name.clone(), to);
        }
    }
}
