//! Items of lists: what each is called, and in which order two lists come together.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::element::Element;
use crate::schema::{ListType, Relation};

/// What `item` is called within its list.
///
/// # Errors
/// When it has nothing it could be called by; in the words clients know.
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

/// The name of the item at a place: the place itself, if it has no other.
pub(crate) fn name(list: &ListType, at: usize, item: &Value) -> Element {
    identify(list, item).unwrap_or(Element::Index(at))
}

/// The items of a list by name, in the order in which each name first occurs; under each name its
/// items.
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

    /// The one item of this name; none when there are several.
    pub(crate) fn single(&self, name: &Element) -> Option<&'a Value> {
        match self.by_name.get(name).map(Vec::as_slice) {
            Some([one]) => Some(one),
            _ => None,
        }
    }
}

/// The items of a list that may not be there.
pub(crate) fn values(list: Option<&Vec<Value>>) -> &[Value] {
    list.map_or(&[], Vec::as_slice)
}

/// Where an item of a merged list comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// The live list alone, at this place.
    Live(usize),
    /// The applied list, at this place; merged with the live item of the same name.
    Applied(usize),
}

/// The order of a merged list. What only the live list has keeps its place before what follows it
/// there; what both have comes in applied order; what is new comes as soon as the live list has
/// reached something that both have.
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
            // Both have it, and it will have its turn later.
            (Some(name), Some(wanted))
                if name != wanted && shared.peek().is_some_and(|next| *next != name) =>
            {
                at_live += 1;
            }
            (name, Some(wanted)) => {
                // What the live list has several times has had its turn with the first of them.
                at_live += usize::from(name.is_some_and(|name| name == wanted || emitted.contains(name)));
                if shared.peek() == Some(&wanted) {
                    shared.next();
                }
                order.push(Source::Applied(at_applied));
                emitted.insert(wanted);
                at_applied += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_come_together_in_the_order_clients_see() {
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
        for (live, applied, wanted) in cases {
            let (live, applied) = (names(live), names(applied));
            let order = merged_order(&live, &applied).into_iter().map(|source| match source {
                Source::Live(at) => live[at].clone(),
                Source::Applied(at) => applied[at].clone(),
            });
            assert_eq!(order.collect::<Vec<_>>(), names(wanted), "{live:?} and {applied:?}");
        }
    }

    #[test]
    fn a_duplicate_in_the_live_list_comes_once_when_it_is_applied() {
        let names = |text: &str| text.split_whitespace().map(Element::field).collect::<Vec<_>>();
        assert_eq!(merged_order(&names("a a b"), &names("a")), [Source::Applied(0), Source::Live(2)]);
        let kept = [Source::Live(0), Source::Live(1), Source::Applied(0)];
        assert_eq!(merged_order(&names("a a"), &names("b")), kept);
    }
}
