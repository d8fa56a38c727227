//! Nodes of one workload cluster, as a watch reports them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use kube::runtime::watcher::Event;

/// Nodes with an index by `spec.providerID`.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    by_name: BTreeMap<String, Arc<Node>>,
    /// Names of the Nodes with a provider id. There is more than one after a mistake of an operator.
    by_provider_id: HashMap<String, BTreeSet<String>>,
    /// List that is not complete yet.
    list: BTreeMap<String, Arc<Node>>,
}

/// Name and provider id of a Node that changed.
pub(crate) type Changed = (String, Option<String>);

impl Nodes {
    /// Nodes that are kept, so that no server can fill the memory: twice as many as Kubernetes supports.
    pub(crate) const MOST: usize = 10_000;

    /// Returns true if a list has more Nodes than are kept.
    pub(crate) fn is_full(&self) -> bool {
        self.list.len() >= Self::MOST
    }

    /// Takes over an event, and returns the Nodes that changed.
    pub(crate) fn observe(&mut self, event: Event<Node>) -> Vec<Changed> {
        match event {
            Event::Init => {
                self.list.clear();
                Vec::new()
            }
            Event::InitApply(_) if self.is_full() => Vec::new(),
            Event::Apply(node) if self.has_no_room(&node) => Vec::new(),
            Event::InitApply(node) => {
                let node = stripped(node);
                self.list.insert(name(&node), node);
                Vec::new()
            }
            Event::InitDone => self.replace(),
            Event::Apply(node) => vec![self.insert(stripped(node))],
            Event::Delete(node) => vec![self.remove(&name(&node), &node)],
        }
    }

    /// Returns all Nodes, by name.
    pub(crate) fn all(&self) -> Vec<Arc<Node>> {
        self.by_name.values().cloned().collect()
    }

    /// Returns the Node of a name.
    pub(crate) fn named(&self, name: &str) -> Option<Arc<Node>> {
        self.by_name.get(name).cloned()
    }

    /// Returns the Nodes with a provider id, byte for byte.
    pub(crate) fn with_provider_id(&self, id: &str) -> Vec<Arc<Node>> {
        let names = self.by_provider_id.get(id).into_iter().flatten();
        names.filter_map(|name| self.by_name.get(name).cloned()).collect()
    }

    fn has_no_room(&self, node: &Node) -> bool {
        self.by_name.len() >= Self::MOST && !self.by_name.contains_key(&name(node))
    }

    /// Takes over the complete list.
    fn replace(&mut self) -> Vec<Changed> {
        let list = std::mem::take(&mut self.list);
        let gone: Vec<Arc<Node>> =
            self.by_name.values().filter(|node| !list.contains_key(&name(node))).cloned().collect();
        let mut changed: Vec<Changed> = gone.iter().map(|node| self.remove(&name(node), node)).collect();
        for (name, node) in list {
            let known = self.by_name.get(&name);
            if known.is_none_or(|known| known.metadata.resource_version != node.metadata.resource_version) {
                changed.push(self.insert(node));
            }
        }
        changed
    }

    fn insert(&mut self, node: Arc<Node>) -> Changed {
        let (name, id) = (name(&node), provider_id(&node));
        if let Some(old) = self.by_name.insert(name.clone(), node).as_deref().and_then(provider_id) {
            self.unindex(&name, &old);
        }
        if let Some(id) = &id {
            self.by_provider_id.entry(id.clone()).or_default().insert(name.clone());
        }
        (name, id)
    }

    fn remove(&mut self, name: &str, last: &Node) -> Changed {
        let known = self.by_name.remove(name);
        let id = known.as_deref().and_then(provider_id).or_else(|| provider_id(last));
        if let Some(id) = &id {
            self.unindex(name, id);
        }
        (name.to_owned(), id)
    }

    fn unindex(&mut self, name: &str, id: &str) {
        if let Some(names) = self.by_provider_id.get_mut(id) {
            names.remove(name);
            if names.is_empty() {
                self.by_provider_id.remove(id);
            }
        }
    }
}

/// Removes fields that no controller reads and that take most of the memory.
fn stripped(mut node: Node) -> Arc<Node> {
    node.metadata.managed_fields = None;
    if let Some(status) = &mut node.status {
        status.images = None;
    }
    Arc::new(node)
}

fn name(node: &Node) -> String {
    node.metadata.name.clone().unwrap_or_default()
}

/// Returns the provider id, which a new Node may lack.
fn provider_id(node: &Node) -> Option<String> {
    let id = node.spec.as_ref()?.provider_id.as_ref()?;
    (!id.is_empty()).then(|| id.clone())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::NodeSpec;

    use super::*;

    fn node(name: &str, id: &str, version: &str) -> Node {
        let mut node = Node::default();
        node.metadata.name = Some(name.to_owned());
        node.metadata.resource_version = Some(version.to_owned());
        node.spec = Some(NodeSpec { provider_id: Some(id.to_owned()), ..NodeSpec::default() });
        node
    }

    fn names(nodes: &[Arc<Node>]) -> Vec<String> {
        nodes.iter().map(|node| name(node)).collect()
    }

    #[test]
    fn the_index_follows_every_event() {
        let mut nodes = Nodes::default();
        let apply = |node| Event::Apply(node);
        assert_eq!(nodes.observe(apply(node("a", "", "1"))), [("a".to_owned(), None)]);
        assert_eq!(nodes.with_provider_id(""), Vec::<Arc<Node>>::new(), "no id is not an id");
        nodes.observe(apply(node("a", "x", "2")));
        nodes.observe(apply(node("b", "x", "3")));
        assert_eq!(names(&nodes.with_provider_id("x")), ["a", "b"]);
        nodes.observe(apply(node("a", "y", "4")));
        assert_eq!(names(&nodes.with_provider_id("x")), ["b"]);
        assert_eq!(names(&nodes.with_provider_id("y")), ["a"]);
        let gone = nodes.observe(Event::Delete(node("b", "x", "5")));
        assert_eq!(gone, [("b".to_owned(), Some("x".to_owned()))]);
        assert_eq!(names(&nodes.all()), ["a"]);
        assert!(nodes.with_provider_id("x").is_empty());
    }

    #[test]
    fn nodes_beyond_the_limit_are_not_kept() {
        let mut nodes = Nodes::default();
        for number in 0..=Nodes::MOST {
            nodes.observe(Event::Apply(node(&number.to_string(), "", "1")));
        }
        assert_eq!(nodes.all().len(), Nodes::MOST);
        assert_eq!(nodes.observe(Event::Apply(node("0", "x", "2"))).len(), 1, "a known one is followed");
        nodes.observe(Event::Init);
        for number in 0..=Nodes::MOST {
            nodes.observe(Event::InitApply(node(&number.to_string(), "", "1")));
        }
        assert!(nodes.is_full());
    }

    #[test]
    fn a_second_list_reports_only_the_differences() {
        let mut nodes = Nodes::default();
        let list = |nodes: &mut Nodes, all: Vec<Node>| {
            nodes.observe(Event::Init);
            for node in all {
                assert!(nodes.observe(Event::InitApply(node)).is_empty());
            }
            nodes.observe(Event::InitDone).into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        let first = vec![node("a", "x", "1"), node("b", "y", "1"), node("c", "z", "1")];
        assert_eq!(list(&mut nodes, first), ["a", "b", "c"]);
        let second = vec![node("a", "x", "1"), node("b", "y", "2"), node("d", "w", "1")];
        assert_eq!(list(&mut nodes, second), ["c", "b", "d"]);
        assert_eq!(names(&nodes.all()), ["a", "b", "d"]);
        assert!(nodes.with_provider_id("z").is_empty());
    }
}
