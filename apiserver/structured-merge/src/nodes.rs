//! The nodes on one level of a set.

use std::slice;

use crate::element::Element;
use crate::set::Node;

/// Nodes by their elements, in order. Most levels have a handful: a list has less to allocate, to walk and to drop
/// than a tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Nodes(Vec<(Element, Node)>);

impl Nodes {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Element, &Node)> {
        self.into_iter()
    }

    pub(crate) fn contains_key(&self, element: &Element) -> bool {
        self.place(element).is_ok()
    }

    pub(crate) fn get(&self, element: &Element) -> Option<&Node> {
        let at = self.place(element).ok()?;
        self.0.get(at).map(|(_, node)| node)
    }

    pub(crate) fn get_mut(&mut self, element: &Element) -> Option<&mut Node> {
        let at = self.place(element).ok()?;
        self.0.get_mut(at).map(|(_, node)| node)
    }

    /// The node of an element, made when there is none.
    pub(crate) fn get_or_make(&mut self, element: Element) -> &mut Node {
        let at = match self.place(&element) {
            Ok(at) => at,
            Err(at) => {
                self.0.insert(at, (element, Node::default()));
                at
            }
        };
        let (_, node) = &mut self.0[at];
        node
    }

    pub(crate) fn insert(&mut self, element: Element, node: Node) {
        match self.place(&element) {
            Ok(at) => self.0[at] = (element, node),
            Err(at) => self.0.insert(at, (element, node)),
        }
    }

    pub(crate) fn remove(&mut self, element: &Element) {
        if let Ok(at) = self.place(element) {
            self.0.remove(at);
        }
    }

    /// Where an element is, or belongs.
    fn place(&self, element: &Element) -> Result<usize, usize> {
        // Sets are made and read in order: mostly it belongs at the end.
        if self.0.last().is_none_or(|(last, _)| last < element) {
            return Err(self.0.len());
        }
        self.0.binary_search_by(|(other, _)| other.cmp(element))
    }
}

impl<'a> IntoIterator for &'a Nodes {
    type Item = (&'a Element, &'a Node);
    type IntoIter =
        std::iter::Map<slice::Iter<'a, (Element, Node)>, fn(&(Element, Node)) -> (&Element, &Node)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter().map(|(element, node)| (element, node))
    }
}

impl IntoIterator for Nodes {
    type Item = (Element, Node);
    type IntoIter = std::vec::IntoIter<(Element, Node)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
