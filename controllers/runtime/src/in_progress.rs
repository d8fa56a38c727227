//! Passes in progress of one loop, by namespace and by cluster.

use std::collections::HashMap;
use std::hash::Hash;

use crate::slots::Slot;

/// Passes that have begun and not ended. Names without passes are not kept.
#[derive(Debug)]
pub(crate) struct InProgress<K> {
    /// Clusters of the objects, and whether each holds a spare slot.
    objects: HashMap<K, (String, bool)>,
    clusters: HashMap<String, usize>,
    namespaces: HashMap<String, usize>,
    spare: usize,
}

impl<K> InProgress<K> {
    /// Creates a set without passes.
    pub(crate) fn new() -> Self {
        Self { objects: HashMap::new(), clusters: HashMap::new(), namespaces: HashMap::new(), spare: 0 }
    }

    /// Returns the number of passes that hold a slot taken in turn.
    pub(crate) fn in_turn(&self) -> usize {
        self.objects.len().saturating_sub(self.spare)
    }

    /// Returns the number of passes that hold a spare slot.
    pub(crate) fn spare(&self) -> usize {
        self.spare
    }

    /// Returns the number of passes over objects of a cluster, which is `NAMESPACE/NAME`.
    pub(crate) fn of_cluster(&self, cluster: &str) -> usize {
        self.clusters.get(cluster).copied().unwrap_or_default()
    }

    /// Returns the number of passes over objects of a namespace.
    pub(crate) fn of_namespace(&self, namespace: &str) -> usize {
        self.namespaces.get(namespace).copied().unwrap_or_default()
    }
}

impl<K: Eq + Hash> InProgress<K> {
    /// Returns true if a pass over the object is in progress.
    pub(crate) fn contains(&self, key: &K) -> bool {
        self.objects.contains_key(key)
    }

    /// Begins a pass over an object of a cluster. None is in progress over it.
    pub(crate) fn begin(&mut self, key: K, cluster: String, slot: Slot) {
        let is_spare = matches!(slot, Slot::Spare(_));
        self.spare += usize::from(is_spare);
        *self.namespaces.entry(namespace_of(&cluster).to_owned()).or_default() += 1;
        *self.clusters.entry(cluster.clone()).or_default() += 1;
        self.objects.insert(key, (cluster, is_spare));
    }

    /// Ends the pass over an object.
    pub(crate) fn end(&mut self, key: &K) {
        let Some((cluster, is_spare)) = self.objects.remove(key) else { return };
        self.spare = self.spare.saturating_sub(usize::from(is_spare));
        decrease(&mut self.namespaces, namespace_of(&cluster));
        decrease(&mut self.clusters, &cluster);
    }
}

/// Returns the namespace of a cluster: the part before the slash.
pub(crate) fn namespace_of(cluster: &str) -> &str {
    cluster.split_once('/').map_or("", |(namespace, _)| namespace)
}

/// Decreases a number by one, and removes it if none is left.
fn decrease(numbers: &mut HashMap<String, usize>, name: &str) {
    let left = numbers.get(name).copied().unwrap_or_default().saturating_sub(1);
    if left == 0 {
        numbers.remove(name);
    } else if let Some(number) = numbers.get_mut(name) {
        *number = left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slots::Spare;

    #[test]
    fn passes_count_for_their_cluster_and_namespace_until_their_end() {
        let mut passes = InProgress::new();
        let spare = Slot::Spare(Spare { namespace: 1, cluster: 1 });
        for (key, cluster, slot) in
            [(1, "n/a", Slot::InTurn), (2, "n/a", Slot::InTurn), (3, "n/b", spare), (4, "m/a", Slot::InTurn)]
        {
            passes.begin(key, cluster.to_owned(), slot);
        }
        assert_eq!((passes.in_turn(), passes.spare()), (3, 1));
        let counts = |passes: &InProgress<i32>| {
            let clusters = ["n/a", "n/b", "m/a"].map(|it| passes.of_cluster(it));
            (clusters, ["n", "m"].map(|it| passes.of_namespace(it)))
        };
        assert_eq!(counts(&passes), ([2, 1, 1], [3, 1]));
        passes.end(&3);
        passes.end(&3);
        passes.end(&1);
        assert_eq!((passes.in_turn(), passes.spare()), (2, 0));
        assert_eq!(counts(&passes), ([1, 0, 1], [1, 1]));
        assert!(passes.contains(&2) && !passes.contains(&3));
        passes.end(&2);
        passes.end(&4);
        assert!(passes.clusters.is_empty() && passes.namespaces.is_empty(), "nothing is kept");
    }
}
