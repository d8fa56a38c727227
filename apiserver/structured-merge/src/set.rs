//! Sets of parts of an object, as a tree.

use std::hash::{Hash, Hasher};

use crate::element::{Element, Path};
use crate::nodes::Nodes;

/// A set of ways through an object. No node of the tree is there for nothing: it is a member
/// itself, or has members below.
#[derive(Debug, Clone, Default)]
pub struct Set {
    pub(crate) nodes: Nodes,
    /// Whether it was read, and has not been changed since: then it need not be written anew.
    is_as_read: bool,
}

impl PartialEq for Set {
    fn eq(&self, other: &Self) -> bool {
        self.nodes == other.nodes
    }
}

impl Eq for Set {}

impl Hash for Set {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.nodes.hash(state);
    }
}

/// One node: whether the way to here is a member, and the members beyond.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    pub(crate) member: bool,
    pub(crate) below: Set,
}

impl Node {
    pub(crate) fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }
}

impl Set {
    /// A set of these.
    pub fn of(paths: impl IntoIterator<Item = Path>) -> Self {
        let mut set = Self::default();
        paths.into_iter().for_each(|path| set.insert(path));
        set
    }

    /// A set that was read.
    pub(crate) fn when_read(self) -> Self {
        Self { is_as_read: true, ..self }
    }

    /// The same, to be written as if it had not been read.
    pub(crate) fn anew(self) -> Self {
        Self { is_as_read: false, ..self }
    }

    /// Whether it is one that was read, and has not been changed since.
    pub(crate) fn is_as_read(&self) -> bool {
        self.is_as_read
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Puts a path in. The empty path, which is the whole object, is nobody's.
    pub fn insert(&mut self, path: Path) {
        self.is_as_read = false;
        let mut elements = path.0.into_iter().peekable();
        let mut set = self;
        while let Some(element) = elements.next() {
            let node = set.nodes.get_or_make(element);
            if elements.peek().is_none() {
                node.member = true;
                return;
            }
            set = &mut node.below;
        }
    }

    /// Whether this very path is in it.
    pub fn has(&self, path: &[Element]) -> bool {
        match path {
            [] => false,
            [last] => self.nodes.get(last).is_some_and(|node| node.member),
            [first, rest @ ..] => self.nodes.get(first).is_some_and(|node| node.below.has(rest)),
        }
    }

    /// Whether all that the other has is in it.
    pub fn contains(&self, other: &Self) -> bool {
        other.nodes.iter().all(|(element, node)| {
            let mine = self.nodes.get(element);
            mine.is_some_and(|mine| (mine.member || !node.member) && mine.below.contains(&node.below))
        })
    }

    /// Puts a node in, when there is something in the node.
    pub(crate) fn put(&mut self, element: Element, node: Node) {
        if !node.is_empty() {
            self.is_as_read = false;
            self.nodes.insert(element, node);
        }
    }

    /// Puts in all that the other has.
    pub fn add(&mut self, other: Self) {
        if self.is_as_read && self.contains(&other) {
            return;
        }
        self.is_as_read = false;
        for (element, node) in other.nodes {
            match self.nodes.get_mut(&element) {
                Some(mine) => {
                    mine.member |= node.member;
                    mine.below.add(node.below);
                }
                None => self.nodes.insert(element, node),
            }
        }
    }

    /// Takes out all that the other has.
    pub fn subtract(&mut self, other: &Self) {
        if self.take_out(other) {
            self.is_as_read = false;
        }
    }

    /// Whether anything is in both.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        other.nodes.iter().any(|(element, node)| {
            let mine = self.nodes.get(element);
            mine.is_some_and(|mine| (mine.member && node.member) || mine.below.meets(&node.below))
        })
    }

    /// Whether anything was there to be taken out.
    fn take_out(&mut self, other: &Self) -> bool {
        let mut taken = false;
        for (element, node) in &other.nodes {
            let Some(mine) = self.nodes.get_mut(element) else { continue };
            taken |= mine.member && node.member;
            mine.member &= !node.member;
            taken |= mine.below.take_out(&node.below);
            if mine.is_empty() {
                self.nodes.remove(element);
            }
        }
        taken
    }

    /// Takes out what the other has, with all that lies below it.
    pub fn subtract_trees(&mut self, other: &Self) {
        self.is_as_read = false;
        for (element, node) in &other.nodes {
            let Some(mine) = self.nodes.get_mut(element) else { continue };
            mine.below.subtract_trees(&node.below);
            if node.member || mine.is_empty() {
                self.nodes.remove(element);
            }
        }
    }

    /// What is in both.
    pub fn intersection(&self, other: &Self) -> Self {
        let (few, many) = if self.nodes.len() <= other.nodes.len() { (self, other) } else { (other, self) };
        let mut both = Self::default();
        for (element, node) in &few.nodes {
            let Some(theirs) = many.nodes.get(element) else { continue };
            let member = node.member && theirs.member;
            both.put(element.clone(), Node { member, below: node.below.intersection(&theirs.below) });
        }
        both
    }

    /// All paths: at every node first its members, then what lies below each.
    pub fn paths(&self) -> Vec<Path> {
        let mut all = Vec::new();
        self.collect(&mut Vec::new(), &mut all);
        all
    }

    fn collect(&self, way: &mut Vec<Element>, all: &mut Vec<Path>) {
        for (element, _) in self.nodes.iter().filter(|(_, node)| node.member) {
            let mut path = way.clone();
            path.push(element.clone());
            all.push(Path(path));
        }
        for (element, node) in &self.nodes {
            way.push(element.clone());
            node.below.collect(way, all);
            way.pop();
        }
    }
}
