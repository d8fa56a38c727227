//! Order of the passes of one loop: objects that are due, in turns between namespaces and between their clusters.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;

use tokio::time::Instant;

use crate::NamespaceWeights;
use crate::in_progress::{InProgress, namespace_of};
use crate::slots::{Slot, Slots, Spare};

/// Objects that wait for a pass. Time is passed in.
///
/// An object waits once, for the earliest time requested, and never has two passes at once. A request during its pass is
/// due when that has ended. Of the objects that are due, each namespace gets as many as its weight in turn. In a namespace,
/// each cluster gets one in turn, and in a cluster the one that is due for longest. So a namespace with a thousand clusters
/// delays an object of another namespace by one turn, and a cluster with a thousand objects one of another cluster by one
/// pass.
///
/// While long passes hold all slots that are taken in turns, an object of a cluster with few passes takes a spare one. This
/// changes no turn of another.
#[derive(Debug)]
pub(crate) struct Schedule<K> {
    /// Objects that are not due yet, by time. The number keeps objects of the same time in the order of their requests.
    later: BTreeSet<(Instant, u64)>,
    numbers: HashMap<u64, K>,
    waiting: HashMap<K, Waiting>,
    /// Objects that are due, by namespace, and the order of the namespaces' turns.
    due: HashMap<String, Namespace<K>>,
    turns: VecDeque<String>,
    weights: Arc<NamespaceWeights>,
    slots: Slots,
    in_progress: InProgress<K>,
    /// Clusters of the objects that are due again after their pass.
    again: HashMap<K, String>,
    last: u64,
}

/// State of a waiting object.
#[derive(Debug)]
enum Waiting {
    Later { due: Instant, number: u64, cluster: String },
    Due,
}

/// Objects of a namespace that are due.
#[derive(Debug)]
struct Namespace<K> {
    /// Objects by cluster, and the order of the clusters' turns. There is no cluster without objects.
    clusters: HashMap<String, VecDeque<K>>,
    turns: VecDeque<String>,
    /// Number of passes that are left in the present turn of the namespace.
    left: u8,
}

impl<K> Namespace<K> {
    /// Creates a namespace without objects.
    fn new(weight: u8) -> Self {
        Self { clusters: HashMap::new(), turns: VecDeque::new(), left: weight }
    }

    fn push(&mut self, key: K, cluster: String) {
        match self.clusters.entry(cluster) {
            Entry::Occupied(mut objects) => objects.get_mut().push_back(key),
            Entry::Vacant(absent) => {
                self.turns.push_back(absent.key().clone());
                absent.insert(VecDeque::from([key]));
            }
        }
    }

    /// Takes the object that is due for longest of the cluster at a position of the turns. The next turn of the cluster comes
    /// last.
    fn take(&mut self, position: usize) -> Option<(String, K)> {
        let cluster = self.turns.remove(position)?;
        let objects = self.clusters.get_mut(&cluster)?;
        let key = objects.pop_front()?;
        if objects.is_empty() {
            self.clusters.remove(&cluster);
        } else {
            self.turns.push_back(cluster.clone());
        }
        Some((cluster, key))
    }

    /// Returns the position of the first cluster that may take a spare slot, in a namespace of this name.
    fn position(&self, name: &str, spare: Spare, in_progress: &InProgress<K>) -> Option<usize> {
        if in_progress.of_namespace(name) < spare.namespace {
            return Some(0);
        }
        if spare.cluster == 0 {
            return None;
        }
        self.turns.iter().position(|cluster| in_progress.of_cluster(cluster) < spare.cluster)
    }

    fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }
}

impl<K: Clone + Eq + Hash> Schedule<K> {
    /// Creates a schedule without objects.
    pub(crate) fn new(slots: Slots, weights: Arc<NamespaceWeights>) -> Self {
        Self {
            later: BTreeSet::new(),
            numbers: HashMap::new(),
            waiting: HashMap::new(),
            due: HashMap::new(),
            turns: VecDeque::new(),
            weights,
            slots,
            in_progress: InProgress::new(),
            again: HashMap::new(),
            last: 0,
        }
    }

    /// Requests a pass over an object of a cluster, which is `NAMESPACE/NAME`, at a time, unless it has one earlier.
    pub(crate) fn request(&mut self, key: K, cluster: &str, at: Instant) {
        match self.waiting.get(&key) {
            Some(Waiting::Due) => return,
            Some(Waiting::Later { due, .. }) if *due <= at => return,
            Some(Waiting::Later { due, number, .. }) => {
                self.later.remove(&(*due, *number));
                self.numbers.remove(number);
            }
            None => {}
        }
        self.last += 1;
        self.later.insert((at, self.last));
        self.numbers.insert(self.last, key.clone());
        let cluster = cluster.to_owned();
        self.waiting.insert(key, Waiting::Later { due: at, number: self.last, cluster });
    }

    /// Takes the object of the next pass: the one whose turn it is, or one for a spare slot. `None` if no object that is due
    /// may have a slot. The caller must [`end`](Self::end) its pass.
    pub(crate) fn begin(&mut self, now: Instant) -> Option<K> {
        let slot = self.next_slot()?;
        self.advance(now);
        let (cluster, key) = match slot {
            Slot::InTurn => self.take_due(),
            Slot::Spare(spare) => self.take_spare(spare),
        }?;
        self.waiting.remove(&key);
        self.in_progress.begin(key.clone(), cluster, slot);
        Some(key)
    }

    /// Lets the pass over an object go on without its slot, so that another pass can begin.
    pub(crate) fn give_back(&mut self, key: &K) {
        self.in_progress.give_back(key);
    }

    /// Ends the pass over an object.
    pub(crate) fn end(&mut self, key: &K) {
        self.in_progress.end(key);
        if let Some(cluster) = self.again.remove(key) {
            self.enqueue(key.clone(), cluster);
        }
    }

    /// Returns the time of the next object that is not due yet.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.later.first().map(|(at, _)| *at)
    }

    /// Returns true if a slot is left for some object.
    pub(crate) fn has_slot(&self) -> bool {
        self.next_slot().is_some()
    }

    fn next_slot(&self) -> Option<Slot> {
        self.slots.next(self.in_progress.in_turn(), self.in_progress.spare())
    }

    /// Lets the objects whose time has come wait for their turn.
    fn advance(&mut self, now: Instant) {
        while let Some((at, number)) = self.later.first().copied().filter(|(at, _)| *at <= now) {
            self.later.remove(&(at, number));
            let Some(key) = self.numbers.remove(&number) else { continue };
            let Some(Waiting::Later { cluster, .. }) = self.waiting.insert(key.clone(), Waiting::Due) else {
                continue;
            };
            if self.in_progress.contains(&key) {
                self.again.insert(key, cluster);
            } else {
                self.enqueue(key, cluster);
            }
        }
    }

    fn enqueue(&mut self, key: K, cluster: String) {
        match self.due.entry(namespace_of(&cluster).to_owned()) {
            Entry::Occupied(mut namespace) => namespace.get_mut().push(key, cluster),
            Entry::Vacant(absent) => {
                let weight = self.weights.of(absent.key());
                self.turns.push_back(absent.key().clone());
                absent.insert(Namespace::new(weight)).push(key, cluster);
            }
        }
    }

    /// Takes the object whose turn it is from the namespace whose turn it is. A namespace whose last object leaves gives up
    /// the rest of its turn.
    fn take_due(&mut self) -> Option<(String, K)> {
        let name = self.turns.pop_front()?;
        let namespace = self.due.get_mut(&name)?;
        let taken = namespace.take(0);
        namespace.left = namespace.left.saturating_sub(1);
        if namespace.is_empty() {
            self.due.remove(&name);
        } else if namespace.left > 0 {
            self.turns.push_front(name);
        } else {
            namespace.left = self.weights.of(&name);
            self.turns.push_back(name);
        }
        taken
    }

    /// Takes the first object, in the order of turns, that may have a spare slot. The turns of namespaces stay as they are.
    ///
    /// Each namespace and cluster that is passed over has a pass in progress. So there are at most as many as slots.
    fn take_spare(&mut self, spare: Spare) -> Option<(String, K)> {
        let (turn, position) = self.turns.iter().enumerate().find_map(|(turn, name)| {
            let position = self.due.get(name)?.position(name, spare, &self.in_progress)?;
            Some((turn, position))
        })?;
        let name = self.turns.get(turn)?;
        let namespace = self.due.get_mut(name)?;
        let taken = namespace.take(position);
        if namespace.is_empty() {
            self.due.remove(name);
            self.turns.remove(turn);
        }
        taken
    }
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
