//! Graph of owners and dependents, as the watches report it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use controllers_runtime::ServedKind;
use kube::ResourceExt;
use kube::api::{DynamicObject, PartialObjectMeta};

/// Uid of an object.
pub(super) type Uid = String;

/// Reference to an owner.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Owner {
    pub(super) uid: Uid,
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) blocks: bool,
}

impl Owner {
    /// Returns true if the reference means this kind.
    pub(super) fn means(&self, kind: &ServedKind) -> bool {
        let (group, version) = self.api_version.split_once('/').unwrap_or(("", &self.api_version));
        kind.resource.kind == self.kind
            && kind.resource.group == group
            && kind.versions.iter().any(|served| served == version)
    }
}

/// Object in the graph.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Node {
    pub(super) uid: Uid,
    /// Revision of what was read.
    pub(super) revision: Option<String>,
    pub(super) kind: usize,
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    pub(super) owners: Vec<Owner>,
    pub(super) deleting: bool,
    pub(super) finalizers: Vec<String>,
}

impl Node {
    /// Reads an object; `None` for one without a uid, which no server stores.
    pub(super) fn read(kind: usize, object: &PartialObjectMeta<DynamicObject>) -> Option<Self> {
        let owners = object.owner_references().iter().map(|owner| Owner {
            uid: owner.uid.clone(),
            api_version: owner.api_version.clone(),
            kind: owner.kind.clone(),
            name: owner.name.clone(),
            blocks: owner.block_owner_deletion.unwrap_or_default(),
        });
        Some(Self {
            uid: object.uid()?,
            revision: object.resource_version(),
            kind,
            namespace: object.namespace(),
            name: object.name_any(),
            owners: owners.collect(),
            deleting: object.metadata.deletion_timestamp.is_some(),
            finalizers: object.finalizers().to_vec(),
        })
    }

    pub(super) fn has_finalizer(&self, name: &str) -> bool {
        self.finalizers.iter().any(|finalizer| finalizer == name)
    }

    /// Returns true if it is deleted after the dependents that block it.
    pub(super) fn waits_for_dependents(&self) -> bool {
        self.deleting && self.has_finalizer("foregroundDeletion")
    }
}

/// All objects, with the index of their owners.
#[derive(Debug, Default)]
pub(super) struct Graph {
    kinds: Arc<[ServedKind]>,
    nodes: BTreeMap<Uid, Node>,
    dependents: BTreeMap<Uid, BTreeSet<Uid>>,
}

impl Graph {
    pub(super) fn of(kinds: Arc<[ServedKind]>) -> Self {
        Self { kinds, ..Self::default() }
    }

    /// Returns the owner that a reference names. An object of the same uid with another name, of another
    /// kind or in another namespace is not the owner: a reference does not cross namespaces.
    pub(super) fn owner(&self, dependent: &Node, owner: &Owner) -> Option<&Node> {
        let found = self.get(&owner.uid).filter(|found| found.name == owner.name)?;
        let is_kind = self.kinds.get(found.kind).is_some_and(|kind| owner.means(kind));
        (is_kind && !is_elsewhere(dependent, found)).then_some(found)
    }

    /// Returns true if the owner of this uid is in a namespace that is not the dependent's.
    pub(super) fn is_owner_elsewhere(&self, dependent: &Node, owner: &Owner) -> bool {
        self.get(&owner.uid).is_some_and(|found| is_elsewhere(dependent, found))
    }

    pub(super) fn get(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    pub(super) fn dependents(&self, uid: &str) -> Vec<Uid> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    pub(super) fn of_kind(&self, kind: usize) -> Vec<Uid> {
        self.nodes.values().filter(|node| node.kind == kind).map(|node| node.uid.clone()).collect()
    }

    pub(super) fn put(&mut self, node: Node) {
        self.remove(&node.uid);
        for owner in &node.owners {
            self.dependents.entry(owner.uid.clone()).or_default().insert(node.uid.clone());
        }
        self.nodes.insert(node.uid.clone(), node);
    }

    pub(super) fn remove(&mut self, uid: &str) -> Option<Node> {
        let node = self.nodes.remove(uid)?;
        for owner in &node.owners {
            if let Some(dependents) = self.dependents.get_mut(&owner.uid) {
                dependents.remove(uid);
                if dependents.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
        }
        Some(node)
    }
}

fn is_elsewhere(dependent: &Node, owner: &Node) -> bool {
    owner.namespace.is_some() && owner.namespace != dependent.namespace
}
