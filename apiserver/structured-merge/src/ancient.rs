//! Cap on the updating field managers: the oldest ones are merged into one entry.

use std::collections::hash_map::Entry::{Occupied, Vacant};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::entries::{Entries, Entry};
use crate::manager_identifier::{ManagerIdentifier, Operation};

/// Most update entries of an object; the oldest beyond it are merged. Without a bound, the object would keep every
/// client that ever wrote it.
const MOST_UPDATERS: usize = 10;

/// Field manager of the merged entries.
const NAME: &str = "ancient-changes";

/// Merges the oldest updaters of each version until few enough remain. The first of a version stays unchanged until
/// there is a second one to join it.
pub(crate) fn cap(entries: &mut Entries) {
    let updaters =
        entries.iter().enumerate().filter(|(_, entry)| entry.manager.operation == Operation::Update);
    let excess = updaters.clone().count().saturating_sub(MOST_UPDATERS);
    if excess == 0 {
        return;
    }
    let age = |entry: &Entry| (entry.time.unwrap_or_default(), entry.manager.identity());
    let mut by_age: Vec<_> =
        updaters.map(|(at, entry)| (age(entry), at, entry.manager.api_version.clone())).collect();
    by_age.sort_unstable();
    let mut ancients = Ancients::of(entries);
    let mut joined = HashSet::new();
    for (_, at, version) in by_age {
        if joined.len() == excess {
            break;
        }
        if ancients.merge_entry(entries, at, version) {
            joined.insert(at);
        }
    }
    let mut index = 0..;
    entries.retain(|_| index.next().is_none_or(|at| !joined.contains(&at)));
}

/// Indexes of the entries that others join, by version.
struct Ancients {
    merged: HashMap<String, usize>,
    oldest: HashMap<String, usize>,
}

impl Ancients {
    fn of(entries: &Entries) -> Self {
        let is_ancient = |entry: &Entry| entry.manager.is(&ancient(&entry.manager.api_version));
        let merged = entries.iter().enumerate().filter(|(_, entry)| is_ancient(entry));
        let merged = merged.map(|(at, entry)| (entry.manager.api_version.clone(), at)).collect();
        Self { merged, oldest: HashMap::new() }
    }

    /// Merges the entry at this index into the others of its version. Returns true if it is to be removed.
    fn merge_entry(&mut self, entries: &mut Entries, at: usize, version: String) -> bool {
        let oldest = match self.oldest.entry(version) {
            Vacant(first) => {
                first.insert(at);
                return false;
            }
            Occupied(oldest) => oldest,
        };
        let merged = *self.merged.entry(oldest.key().clone()).or_insert_with(|| {
            if let Some(entry) = entries.at_mut(*oldest.get()) {
                entry.manager = ancient(oldest.key());
                entry.fields = Arc::new(Arc::unwrap_or_clone(std::mem::take(&mut entry.fields)).anew());
            }
            *oldest.get()
        });
        // An entry that was merged before, and gained fields since, is not removed.
        if merged == at {
            return false;
        }
        let Some(victim) = entries.at_mut(at) else { return false };
        let (fields, time) = (std::mem::take(&mut victim.fields), victim.time);
        if let Some(joined) = entries.at_mut(merged) {
            joined.gain(Arc::unwrap_or_clone(fields));
            // The later time of the two, which is the last time that it gained fields.
            joined.time = time;
        }
        true
    }
}

fn ancient(api_version: &str) -> ManagerIdentifier {
    ManagerIdentifier {
        manager: NAME.to_owned(),
        operation: Operation::Update,
        api_version: api_version.to_owned(),
        subresource: String::new(),
    }
}
