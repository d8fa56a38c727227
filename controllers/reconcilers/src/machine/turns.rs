//! Turns of Machines at the API of their workload cluster, so that the Machines of a slow one leave passes to others.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use controllers_workload::ClusterKey;

/// Passes that may call the same workload cluster at the same time: a tenth of all.
const MOST: usize = 20;

/// Numbers of turns by cluster.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<HashMap<ClusterKey, usize>>);

/// Right to call a workload cluster. It ends with this value.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    turns: &'a Turns,
    cluster: ClusterKey,
}

impl Turns {
    /// Returns a turn at a cluster; `None` if too many Machines have one.
    pub(super) fn take(&self, cluster: ClusterKey) -> Option<Turn<'_>> {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = turns.entry(cluster.clone()).or_default();
        if *taken >= MOST {
            return None;
        }
        *taken = taken.saturating_add(1);
        drop(turns);
        Some(Turn { turns: self, cluster })
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut turns = self.turns.0.lock().unwrap_or_else(PoisonError::into_inner);
        let left = turns.get(&self.cluster).copied().unwrap_or_default().saturating_sub(1);
        if left == 0 {
            turns.remove(&self.cluster);
        } else {
            turns.insert(self.cluster.clone(), left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_of_one_cluster_take_no_turn_of_another() {
        let turns = Turns::default();
        let key = |name: &str| ClusterKey { namespace: "n".to_owned(), name: name.to_owned() };
        let mut taken: Vec<_> = (0..MOST).map(|_| turns.take(key("slow")).unwrap()).collect();
        assert!(turns.take(key("slow")).is_none());
        assert!(turns.take(key("quick")).is_some());
        taken.pop();
        assert!(turns.take(key("slow")).is_some());
        drop(taken);
        assert!(turns.0.lock().unwrap().is_empty());
    }
}
