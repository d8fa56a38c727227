//! Ownership tags on a resource: the ids of the objects that created it.

use std::collections::{BTreeMap, HashSet};

use controllers_runtime::OwnershipTag;

/// Key in the metadata of a volume with the tag of the operation that created it.
const OPERATION_KEY: &str = "capstan-operation";

/// Begin of the description of a resource, before the kind, the namespace and the name of its object, and the id.
const DESCRIPTION: &str = "capstan: ";

/// Ids of the objects that a resource names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Ownership {
    /// Ids of its owners: an object, and the operation that created the resource for it.
    owners: Vec<String>,
    /// Id of the cluster of a machine.
    cluster: Option<String>,
    /// Kind, namespace and name of the owner, as the description has them.
    pub(super) owner: Option<String>,
}

impl Ownership {
    /// Returns the tags of a resource; `None` if it has none, so that Capstan did not create it.
    pub(super) fn of(
        tags: &[String],
        description: &str,
        metadata: &BTreeMap<String, String>,
    ) -> Option<Self> {
        let mut found = Self::default();
        let keys = [OwnershipTag::METADATA_KEY, OPERATION_KEY, OwnershipTag::CLUSTER_KEY];
        let values = keys.iter().filter_map(|key| metadata.get(*key));
        tags.iter().chain(values).for_each(|tag| found.add(tag));
        if let Some((owner, id)) =
            description.strip_prefix(DESCRIPTION).and_then(|rest| rest.rsplit_once(' '))
        {
            found.owner = Some(owner.to_owned());
            found.add_owner(id);
        }
        let is_tagged = !found.owners.is_empty() || found.cluster.is_some();
        is_tagged.then_some(found)
    }

    fn add(&mut self, tag: &str) {
        let Some(id) = tag.strip_prefix(OwnershipTag::PREFIX) else { return };
        let of_cluster = tag.strip_prefix(OwnershipTag::CLUSTER_KEY).and_then(|rest| rest.strip_prefix('-'));
        match of_cluster {
            Some(id) => self.cluster = Some(id.to_owned()),
            None => self.add_owner(id),
        }
    }

    fn add_owner(&mut self, id: &str) {
        if !id.is_empty() && !self.owners.iter().any(|known| known == id) {
            self.owners.push(id.to_owned());
        }
    }

    /// Returns true if one of the owners is an object with one of these ids. The cluster counts only without owners: the
    /// resource of a machine whose object is lost has no object, even if its cluster has one.
    pub(super) fn is_known(&self, ids: &HashSet<String>) -> bool {
        if self.owners.is_empty() {
            return self.cluster.as_ref().is_some_and(|id| ids.contains(id));
        }
        self.owners.iter().any(|id| ids.contains(id))
    }

    /// Returns the tag to search for in the cloud.
    pub(super) fn tag(&self) -> String {
        match (self.owners.first(), &self.cluster) {
            (Some(id), _) => format!("{}{id}", OwnershipTag::PREFIX),
            (None, Some(id)) => format!("{}-{id}", OwnershipTag::CLUSTER_KEY),
            (None, None) => String::new(),
        }
    }
}
