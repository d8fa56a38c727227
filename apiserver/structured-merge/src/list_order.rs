//! Items of lists: their names, and the order of a merged list.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::element::Element;
use crate::schema::{ListType, Relation};

/// Returns the name of `item` within its list.
///
/// # Errors
/// When it has no name; in upstream's words.
pub(crate) fn identify(list: &ListType, item: &Value) -> Result<Element, String> {
    match &list.relation {
        Relation::Keyed(keys) => identify_by_keys(keys, item),
        Relation::Set => match item {
            Value::Object(_) => {
                Err("associative list without keys has an element that's a map type".to_owned())
            }
            Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
            Value::Null => {
                Err("associative list without keys has an element that's an explicit null".to_owned())
            }
            scalar => Ok(Element::value(scalar.clone())),
        },
        Relation::Atomic => Err("an item of an atomic list has no name".to_owned()),
    }
}

fn identify_by_keys(keys: &[(String, Option<Value>)], item: &Value) -> Result<Element, String> {
    let fields = match item {
        Value::Object(fields) => fields,
        Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
        _ => return Err("associative list with keys may not have non-map elements".to_owned()),
    };
    let present: Vec<(String, Value)> = keys
        .iter()
        .filter_map(|(name, default)| Some((name.clone(), fields.get(name).or(default.as_ref())?.clone())))
        .collect();
    if present.is_empty() {
        let names: Vec<String> = keys.iter().map(|(name, _)| format!("{name:?}")).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default \
             values for any key fields)",
            names.join(" ")
        ));
    }
    Ok(Element::key(present))
}

/// Returns the name of the item at an index: the index itself, if it has no other.
pub(crate) fn name(list: &ListType, at: usize, item: &Value) -> Element {
    identify(list, item).unwrap_or(Element::Index(at))
}

/// Items of a list by name, in the order in which each name first occurs; each name has its items.
pub(crate) struct Items<'a> {
    pub(crate) order: Vec<Element>,
    pub(crate) by_name: BTreeMap<Element, Vec<&'a Value>>,
    /// The name of every item, in order.
    pub(crate) names: Vec<Element>,
}

impl<'a> Items<'a> {
    pub(crate) fn of(list: &ListType, values: &'a [Value]) -> Self {
        let mut items =
            Self { order: Vec::new(), by_name: BTreeMap::new(), names: Vec::with_capacity(values.len()) };
        for (at, value) in values.iter().enumerate() {
            let name = name(list, at, value);
            let same = items.by_name.entry(name.clone()).or_default();
            if same.is_empty() {
                items.order.push(name.clone());
            }
            same.push(value);
            items.names.push(name);
        }
        items
    }

    /// Returns the only item of this name; `None` when there are several.
    pub(crate) fn single(&self, name: &Element) -> Option<&'a Value> {
        match self.by_name.get(name).map(Vec::as_slice) {
            Some([one]) => Some(one),
            _ => None,
        }
    }
}

/// Returns the items of a list, or none if there is no list.
pub(crate) fn values(list: Option<&Vec<Value>>) -> &[Value] {
    list.map_or(&[], Vec::as_slice)
}

/// Origin of an item of a merged list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// The live list alone, at this index.
    Live(usize),
    /// The applied list, at this index; merged with the live item of the same name.
    Applied(usize),
}

/// Returns the order of a merged list. Items of the live list alone stay before the items that follow them there.
/// Items of both lists are in applied order. New items come as soon as the live list has reached an item of both.
pub(crate) fn merged_order(live: &[Element], applied: &[Element]) -> Vec<Source> {
    let in_live: BTreeSet<&Element> = live.iter().collect();
    let in_applied: BTreeSet<&Element> = applied.iter().collect();
    let mut shared = applied.iter().filter(|name| in_live.contains(name)).peekable();
    let mut emitted: BTreeSet<&Element> = BTreeSet::new();
    let mut order = Vec::with_capacity(live.len().max(applied.len()));
    let (mut at_live, mut at_applied) = (0, 0);
    loop {
        match (live.get(at_live), applied.get(at_applied)) {
            (None, None) => return order,
            (Some(name), _) if !in_applied.contains(name) => {
                order.push(Source::Live(at_live));
                at_live += 1;
            }
            (Some(_), None) => at_live += 1,
            // Both lists have it, and it follows later.
            (Some(name), Some(desired))
                if name != desired && shared.peek().is_some_and(|next| *next != name) =>
            {
                at_live += 1;
            }
            (name, Some(desired)) => {
                // The duplicates of a live item were covered by the first of them.
                at_live += usize::from(name.is_some_and(|name| name == desired || emitted.contains(name)));
                if shared.peek() == Some(&desired) {
                    shared.next();
                }
                order.push(Source::Applied(at_applied));
                emitted.insert(desired);
                at_applied += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_merged_in_the_order_that_clients_expect() {
        let cases = [
            ("a b c d", "d x b", "a c d x b"),
            ("a b c", "c new a", "b c new a"),
            ("x y", "y z", "x y z"),
            ("1 2 3", "4 2", "1 4 2 3"),
            ("a b", "b a", "b a"),
            ("a b", "x", "a b x"),
            ("a b c", "x b y", "a x b c y"),
            ("a b c d e", "e c", "a b d e c"),
            ("a b c", "c a b", "c a b"),
            ("", "x y", "x y"),
            ("x y", "", "x y"),
        ];
        let names = |text: &str| text.split_whitespace().map(Element::field).collect::<Vec<_>>();
        for (live, applied, desired) in cases {
            let (live, applied) = (names(live), names(applied));
            let order = merged_order(&live, &applied).into_iter().map(|source| match source {
                Source::Live(at) => live[at].clone(),
                Source::Applied(at) => applied[at].clone(),
            });
            assert_eq!(order.collect::<Vec<_>>(), names(desired), "{live:?} and {applied:?}");
        }
    }

    #[test]
    fn an_applied_element_replaces_all_its_live_duplicates() {
        let names = |text: &str| text.split_whitespace().map(Element::field).collect::<Vec<_>>();
        assert_eq!(merged_order(&names("a a b"), &names("a")), [Source::Applied(0), Source::Live(2)]);
        let kept = [Source::Live(0), Source::Live(1), Source::Applied(0)];
        assert_eq!(merged_order(&names("a a"), &names("b")), kept);
    }
}
