//! Nodes on one level of a set.

use std::collections::{BTreeMap, btree_map};
use std::hash::{Hash, Hasher};
use std::{slice, vec};

use crate::element::Element;
use crate::set::Node;

/// Most nodes of a list. A set may have as many as a body has room for, and its sender chooses their order: in one
/// list, each could have to move all others.
const MAX_LIST: usize = 32;

/// Nodes by their elements, in order. Most levels have a handful: a list has less to allocate, to walk and to drop
/// than a tree.
#[derive(Debug, Clone)]
pub(crate) enum Nodes {
    Few(Vec<(Element, Node)>),
    Many(BTreeMap<Element, Node>),
}

impl Default for Nodes {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

/// Compares the nodes, not their representation.
impl PartialEq for Nodes {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl Eq for Nodes {}

impl Hash for Nodes {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.len().hash(state);
        self.iter().for_each(|node| node.hash(state));
    }
}

impl Nodes {
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Few(list) => list.len(),
            Self::Many(tree) => tree.len(),
        }
    }

    pub(crate) fn iter(&self) -> Iter<'_> {
        match self {
            Self::Few(list) => Iter::Few(list.iter()),
            Self::Many(tree) => Iter::Many(tree.iter()),
        }
    }

    pub(crate) fn contains_key(&self, element: &Element) -> bool {
        self.get(element).is_some()
    }

    pub(crate) fn get(&self, element: &Element) -> Option<&Node> {
        match self {
            Self::Few(list) => list.get(position(list, element).ok()?).map(|(_, node)| node),
            Self::Many(tree) => tree.get(element),
        }
    }

    pub(crate) fn get_mut(&mut self, element: &Element) -> Option<&mut Node> {
        match self {
            Self::Few(list) => {
                let at = position(list, element).ok()?;
                list.get_mut(at).map(|(_, node)| node)
            }
            Self::Many(tree) => tree.get_mut(element),
        }
    }

    /// Returns the node of an element, creating it when there is none.
    pub(crate) fn get_or_insert(&mut self, element: Element) -> &mut Node {
        self.convert_if_full();
        match self {
            Self::Few(list) => {
                let at = position(list, &element).unwrap_or_else(|at| {
                    list.insert(at, (element, Node::default()));
                    at
                });
                &mut list[at].1
            }
            Self::Many(tree) => tree.entry(element).or_default(),
        }
    }

    pub(crate) fn insert(&mut self, element: Element, node: Node) {
        *self.get_or_insert(element) = node;
    }

    pub(crate) fn remove(&mut self, element: &Element) {
        match self {
            Self::Few(list) => {
                if let Ok(at) = position(list, element) {
                    list.remove(at);
                }
            }
            Self::Many(tree) => drop(tree.remove(element)),
        }
    }

    /// Converts a list of the largest length into a tree.
    fn convert_if_full(&mut self) {
        if let Self::Few(list) = self
            && list.len() >= MAX_LIST
        {
            *self = Self::Many(std::mem::take(list).into_iter().collect());
        }
    }
}

/// Returns the index of an element, or the index to insert it at.
fn position(list: &[(Element, Node)], element: &Element) -> Result<usize, usize> {
    // Sets are created and read in order: mostly it belongs at the end.
    if list.last().is_none_or(|(last, _)| last < element) {
        return Err(list.len());
    }
    list.binary_search_by(|(other, _)| other.cmp(element))
}

/// Nodes with their elements, in order.
#[derive(Debug)]
pub(crate) enum Iter<'a> {
    Few(slice::Iter<'a, (Element, Node)>),
    Many(btree_map::Iter<'a, Element, Node>),
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a Element, &'a Node);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Few(list) => list.next().map(|(element, node)| (element, node)),
            Self::Many(tree) => tree.next(),
        }
    }
}

impl<'a> IntoIterator for &'a Nodes {
    type Item = (&'a Element, &'a Node);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Owned nodes with their elements, in order.
#[derive(Debug)]
pub(crate) enum IntoIter {
    Few(vec::IntoIter<(Element, Node)>),
    Many(btree_map::IntoIter<Element, Node>),
}

impl Iterator for IntoIter {
    type Item = (Element, Node);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Few(list) => list.next(),
            Self::Many(tree) => tree.next(),
        }
    }
}

impl IntoIterator for Nodes {
    type Item = (Element, Node);
    type IntoIter = IntoIter;

    fn into_iter(self) -> Self::IntoIter {
        match self {
            Self::Few(list) => IntoIter::Few(list.into_iter()),
            Self::Many(tree) => IntoIter::Many(tree.into_iter()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn node(member: bool) -> Node {
        Node { member, ..Node::default() }
    }

    proptest! {
        /// After any inserts and removals, few or many, the nodes equal those of a tree.
        #[test]
        fn nodes_equal_a_tree(steps in prop::collection::vec((0..120_u8, any::<bool>(), any::<bool>()), 0..300)) {
            let (mut nodes, mut tree) = (Nodes::default(), BTreeMap::new());
            for (name, member, stays) in steps {
                let element = Element::field(name.to_string());
                if stays {
                    nodes.insert(element.clone(), node(member));
                    tree.insert(element.clone(), node(member));
                } else {
                    nodes.remove(&element);
                    tree.remove(&element);
                }
                prop_assert_eq!(nodes.get(&element), tree.get(&element));
                prop_assert_eq!(nodes.len(), tree.len());
            }
            prop_assert!(nodes.iter().eq(tree.iter()));
            let anew = tree.clone().into_iter().fold(Nodes::default(), |mut nodes, (element, node)| {
                nodes.insert(element, node);
                nodes
            });
            prop_assert_eq!(&anew, &nodes);
            prop_assert!(nodes.into_iter().eq(tree));
        }
    }

    #[test]
    fn many_inserts_in_reverse_order_stay_fast() {
        let mut nodes = Nodes::default();
        // In one list there would be twenty thousand million moves.
        (0..200_000_u32)
            .rev()
            .for_each(|number| nodes.insert(Element::field(format!("{number:06}")), node(true)));
        assert_eq!(nodes.len(), 200_000);
    }
}
