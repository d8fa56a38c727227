//! Passes in progress of one loop, by namespace and by cluster.

use std::collections::HashMap;
use std::hash::Hash;

use crate::slots::Slot;

/// Most passes without a slot. Each keeps what it has read in memory.
const MOST_WITHOUT_SLOT: usize = 256;

/// Slot of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    InTurn,
    Spare,
    /// The pass has given its slot back.
    Nothing,
}

/// Passes that have begun and not ended. Names without passes are not kept.
#[derive(Debug)]
pub(crate) struct InProgress<K> {
    /// Clusters of the objects, and the slots.
    objects: HashMap<K, (String, Held)>,
    /// Passes with a slot, by cluster.
    clusters: HashMap<String, usize>,
    /// Passes with a slot, by namespace.
    namespaces: HashMap<String, usize>,
    spare: usize,
    without_slot: usize,
}

impl<K> InProgress<K> {
    /// Creates a set without passes.
    pub(crate) fn new() -> Self {
        Self {
            objects: HashMap::new(),
            clusters: HashMap::new(),
            namespaces: HashMap::new(),
            spare: 0,
            without_slot: 0,
        }
    }

    /// Returns the number of passes that hold a slot taken in turn.
    pub(crate) fn in_turn(&self) -> usize {
        self.objects.len().saturating_sub(self.spare).saturating_sub(self.without_slot)
    }

    /// Returns the number of passes that hold a spare slot.
    pub(crate) fn spare(&self) -> usize {
        self.spare
    }

    /// Returns the number of passes with a slot over objects of a cluster, which is `NAMESPACE/NAME`.
    pub(crate) fn of_cluster(&self, cluster: &str) -> usize {
        self.clusters.get(cluster).copied().unwrap_or_default()
    }

    /// Returns the number of passes with a slot over objects of a namespace.
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
        let held = match slot {
            Slot::InTurn => Held::InTurn,
            Slot::Spare(_) => Held::Spare,
        };
        self.spare += usize::from(held == Held::Spare);
        *self.namespaces.entry(namespace_of(&cluster).to_owned()).or_default() += 1;
        *self.clusters.entry(cluster.clone()).or_default() += 1;
        self.objects.insert(key, (cluster, held));
    }

    /// Takes the slot of the pass over an object, which goes on without one. While there are many such passes, it keeps its
    /// slot.
    pub(crate) fn give_back(&mut self, key: &K) {
        if self.without_slot >= MOST_WITHOUT_SLOT {
            return;
        }
        let found = self.objects.get_mut(key).filter(|(_, held)| *held != Held::Nothing);
        let Some((cluster, held)) = found else { return };
        self.spare = self.spare.saturating_sub(usize::from(*held == Held::Spare));
        *held = Held::Nothing;
        self.without_slot += 1;
        decrease(&mut self.namespaces, namespace_of(cluster));
        decrease(&mut self.clusters, cluster);
    }

    /// Ends the pass over an object.
    pub(crate) fn end(&mut self, key: &K) {
        let Some((cluster, held)) = self.objects.remove(key) else { return };
        if held == Held::Nothing {
            self.without_slot = self.without_slot.saturating_sub(1);
            return;
        }
        self.spare = self.spare.saturating_sub(usize::from(held == Held::Spare));
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

    #[test]
    fn a_pass_that_gives_its_slot_back_goes_on_without_counting() {
        let mut passes = InProgress::new();
        let spare = Slot::Spare(Spare { namespace: 1, cluster: 1 });
        for (key, slot) in [(1, Slot::InTurn), (2, spare), (3, Slot::InTurn)] {
            passes.begin(key, "n/a".to_owned(), slot);
        }
        for key in [1, 1, 2] {
            passes.give_back(&key);
        }
        assert_eq!((passes.in_turn(), passes.spare(), passes.of_cluster("n/a")), (1, 0, 1));
        assert!(passes.contains(&1), "no other pass over the object may begin");
        passes.end(&1);
        assert_eq!((passes.in_turn(), passes.of_namespace("n")), (1, 1));
        passes.end(&2);
        passes.end(&3);
        assert_eq!((passes.in_turn(), passes.without_slot), (0, 0));
        let most = i32::try_from(MOST_WITHOUT_SLOT).unwrap();
        for key in 0..=most {
            passes.begin(key, "n/a".to_owned(), Slot::InTurn);
            passes.give_back(&key);
        }
        assert_eq!(passes.in_turn(), 1, "one keeps its slot");
    }
}
