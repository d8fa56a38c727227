//! Order of the passes of one loop: objects that are due, in turns between namespaces and between their clusters.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::Arc;

use tokio::time::Instant;

use crate::NamespaceWeights;

/// Objects that wait for a pass. Time is passed in.
///
/// An object waits once, for the earliest time requested, and never has two passes at once. A request during its pass is
/// due when that has ended. Of the objects that are due, each namespace gets as many as its weight in turn. In a namespace,
/// each cluster gets one in turn, and in a cluster the one that is due for longest. So a namespace with a thousand clusters
/// delays an object of another namespace by one turn, and a cluster with a thousand objects one of another cluster by one
/// pass.
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
    running: HashSet<K>,
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

    /// Takes the object whose turn it is.
    fn pop(&mut self) -> Option<K> {
        let cluster = self.turns.pop_front()?;
        let objects = self.clusters.get_mut(&cluster)?;
        let key = objects.pop_front();
        if objects.is_empty() {
            self.clusters.remove(&cluster);
        } else {
            self.turns.push_back(cluster);
        }
        key
    }

    fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }
}

/// Returns the namespace of a cluster: the part before the slash.
fn namespace_of(cluster: &str) -> &str {
    cluster.split_once('/').map_or("", |(namespace, _)| namespace)
}

impl<K: Clone + Eq + Hash> Schedule<K> {
    /// Creates a schedule without objects.
    pub(crate) fn new(weights: Arc<NamespaceWeights>) -> Self {
        Self {
            later: BTreeSet::new(),
            numbers: HashMap::new(),
            waiting: HashMap::new(),
            due: HashMap::new(),
            turns: VecDeque::new(),
            weights,
            running: HashSet::new(),
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

    /// Takes the object whose turn it is. The caller must [`end`](Self::end) its pass.
    pub(crate) fn begin(&mut self, now: Instant) -> Option<K> {
        self.advance(now);
        let key = self.take_due()?;
        self.waiting.remove(&key);
        self.running.insert(key.clone());
        Some(key)
    }

    /// Ends the pass over an object.
    pub(crate) fn end(&mut self, key: &K) {
        self.running.remove(key);
        if let Some(cluster) = self.again.remove(key) {
            self.enqueue(key.clone(), cluster);
        }
    }

    /// Returns the time of the next object that is not due yet.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.later.first().map(|(at, _)| *at)
    }

    /// Returns the number of passes that have begun and not ended.
    pub(crate) fn running(&self) -> usize {
        self.running.len()
    }

    /// Lets the objects whose time has come wait for their turn.
    fn advance(&mut self, now: Instant) {
        while let Some((at, number)) = self.later.first().copied().filter(|(at, _)| *at <= now) {
            self.later.remove(&(at, number));
            let Some(key) = self.numbers.remove(&number) else { continue };
            let Some(Waiting::Later { cluster, .. }) = self.waiting.insert(key.clone(), Waiting::Due) else {
                continue;
            };
            if self.running.contains(&key) {
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
    fn take_due(&mut self) -> Option<K> {
        let name = self.turns.pop_front()?;
        let namespace = self.due.get_mut(&name)?;
        let key = namespace.pop();
        namespace.left = namespace.left.saturating_sub(1);
        if namespace.is_empty() {
            self.due.remove(&name);
        } else if namespace.left > 0 {
            self.turns.push_front(name);
        } else {
            namespace.left = self.weights.of(&name);
            self.turns.push_back(name);
        }
        key
    }
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
