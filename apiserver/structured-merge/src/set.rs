//! Set of parts of an object, as a tree.

use std::hash::{Hash, Hasher};

use crate::element::{Element, Path};
use crate::nodes::Nodes;

/// Set of paths through an object. Each node of the tree is a member itself, or has members below.
#[derive(Debug, Clone, Default)]
pub struct Set {
    pub(crate) nodes: Nodes,
    /// True if the set was read, and has not changed since: then it need not be written anew.
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

/// Node: tells if its path is a member, and has the members below.
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
    /// Creates a set of these paths.
    pub fn of(paths: impl IntoIterator<Item = Path>) -> Self {
        let mut set = Self::default();
        paths.into_iter().for_each(|path| set.insert(path));
        set
    }

    /// Marks the set as read.
    pub(crate) fn when_read(self) -> Self {
        Self { is_as_read: true, ..self }
    }

    /// Returns the set marked as changed, to be written anew.
    pub(crate) fn anew(self) -> Self {
        Self { is_as_read: false, ..self }
    }

    /// Returns true if the set was read, and has not changed since.
    pub(crate) fn is_as_read(&self) -> bool {
        self.is_as_read
    }

    /// Returns true if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Inserts a path. The empty path, which is the whole object, belongs to no field manager.
    pub fn insert(&mut self, path: Path) {
        self.is_as_read = false;
        let mut elements = path.0.into_iter().peekable();
        let mut set = self;
        while let Some(element) = elements.next() {
            let node = set.nodes.get_or_insert(element);
            if elements.peek().is_none() {
                node.member = true;
                return;
            }
            set = &mut node.below;
        }
    }

    /// Returns true if this path is a member.
    pub fn has(&self, path: &[Element]) -> bool {
        match path {
            [] => false,
            [last] => self.nodes.get(last).is_some_and(|node| node.member),
            [first, rest @ ..] => self.nodes.get(first).is_some_and(|node| node.below.has(rest)),
        }
    }

    /// Returns true if all members of the other are members.
    pub fn contains(&self, other: &Self) -> bool {
        other.nodes.iter().all(|(element, node)| {
            let mine = self.nodes.get(element);
            mine.is_some_and(|mine| (mine.member || !node.member) && mine.below.contains(&node.below))
        })
    }

    /// Inserts a node that is not empty.
    pub(crate) fn put(&mut self, element: Element, node: Node) {
        if !node.is_empty() {
            self.is_as_read = false;
            self.nodes.insert(element, node);
        }
    }

    /// Adds all members of the other.
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

    /// Removes all members of the other.
    pub fn subtract(&mut self, other: &Self) {
        if self.remove_members(other) {
            self.is_as_read = false;
        }
    }

    /// Returns true if the sets have a common member.
    pub(crate) fn intersects(&self, other: &Self) -> bool {
        other.nodes.iter().any(|(element, node)| {
            let mine = self.nodes.get(element);
            mine.is_some_and(|mine| (mine.member && node.member) || mine.below.intersects(&node.below))
        })
    }

    /// Removes the members of the other, and returns true if there was one.
    fn remove_members(&mut self, other: &Self) -> bool {
        let mut taken = false;
        for (element, node) in &other.nodes {
            let Some(mine) = self.nodes.get_mut(element) else { continue };
            taken |= mine.member && node.member;
            mine.member &= !node.member;
            taken |= mine.below.remove_members(&node.below);
            if mine.is_empty() {
                self.nodes.remove(element);
            }
        }
        taken
    }

    /// Removes the members of the other, with all below them.
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

    /// Returns the common members.
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

    /// Returns all paths: at every node first its members, then those below each.
    pub fn paths(&self) -> Vec<Path> {
        let mut all = Vec::new();
        self.collect(&mut Vec::new(), &mut all);
        all
    }

    fn collect(&self, prefix: &mut Vec<Element>, all: &mut Vec<Path>) {
        for (element, _) in self.nodes.iter().filter(|(_, node)| node.member) {
            let mut path = prefix.clone();
            path.push(element.clone());
            all.push(Path(path));
        }
        for (element, node) in &self.nodes {
            prefix.push(element.clone());
            node.below.collect(prefix, all);
            prefix.pop();
        }
    }
}
