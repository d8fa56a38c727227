//! The oldest updaters, brought together.

use std::collections::hash_map::Entry::{Occupied, Vacant};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::entries::{Entries, Entry};
use crate::manager::{Manager, Operation};

/// Update entries beyond this are brought together: without a bound, every client that ever wrote
/// would be remembered in the object for ever.
const MOST_UPDATERS: usize = 10;

/// Who owns what the oldest updaters owned.
const NAME: &str = "ancient-changes";

/// Brings the oldest updaters of each version together until few enough remain. The first of a
/// version stays what it is until there is a second to join it.
pub(crate) fn cap(entries: &mut Entries) {
    let updaters = entries.iter().enumerate().filter(|(_, entry)| entry.owner.operation == Operation::Update);
    let excess = updaters.clone().count().saturating_sub(MOST_UPDATERS);
    if excess == 0 {
        return;
    }
    let age = |entry: &Entry| (entry.time.unwrap_or_default(), entry.owner.identity());
    let mut by_age: Vec<_> =
        updaters.map(|(at, entry)| (age(entry), at, entry.owner.api_version.clone())).collect();
    by_age.sort_unstable();
    let mut ancients = Ancients::of(entries);
    let mut joined = HashSet::new();
    for (_, at, version) in by_age {
        if joined.len() == excess {
            break;
        }
        if ancients.take_in(entries, at, version) {
            joined.insert(at);
        }
    }
    let mut place = 0..;
    entries.retain(|_| place.next().is_none_or(|at| !joined.contains(&at)));
}

/// Where the entries stand that others join, by version.
struct Ancients {
    together: HashMap<String, usize>,
    oldest: HashMap<String, usize>,
}

impl Ancients {
    fn of(entries: &Entries) -> Self {
        let is_ancient = |entry: &Entry| entry.owner.is(&ancient(&entry.owner.api_version));
        let together = entries.iter().enumerate().filter(|(_, entry)| is_ancient(entry));
        let together = together.map(|(at, entry)| (entry.owner.api_version.clone(), at)).collect();
        Self { together, oldest: HashMap::new() }
    }

    /// Whether the entry that stands there has been put together with others, and is to go.
    fn take_in(&mut self, entries: &mut Entries, at: usize, version: String) -> bool {
        let oldest = match self.oldest.entry(version) {
            Vacant(first) => {
                first.insert(at);
                return false;
            }
            Occupied(oldest) => oldest,
        };
        let together = *self.together.entry(oldest.key().clone()).or_insert_with(|| {
            if let Some(entry) = entries.at_mut(*oldest.get()) {
                entry.owner = ancient(oldest.key());
                entry.fields = Arc::new(Arc::unwrap_or_clone(std::mem::take(&mut entry.fields)).anew());
            }
            *oldest.get()
        });
        // Those who were brought together before and gained something since are no victims.
        if together == at {
            return false;
        }
        let Some(victim) = entries.at_mut(at) else { return false };
        let (fields, time) = (std::mem::take(&mut victim.fields), victim.time);
        if let Some(joined) = entries.at_mut(together) {
            joined.gain(Arc::unwrap_or_clone(fields));
            // The younger of the two, since that is when it last gained something.
            joined.time = time;
        }
        true
    }
}

fn ancient(api_version: &str) -> Manager {
    Manager {
        manager: NAME.to_owned(),
        operation: Operation::Update,
        api_version: api_version.to_owned(),
        subresource: String::new(),
    }
}
