//! The oldest updaters, brought together.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::entries::{Entries, Entry};
use crate::owner::{Operation, Owner};

/// Update entries beyond this are brought together: without a bound, every client that ever wrote
/// would be remembered in the object for ever.
const MOST_UPDATERS: usize = 10;

/// Who owns what the oldest updaters owned.
const NAME: &str = "ancient-changes";

/// Brings the oldest updaters of each version together until few enough remain. The first of a
/// version stays what it is until there is a second to join it.
pub(crate) fn cap(entries: &mut Entries) {
    let updaters = entries.iter().filter(|entry| entry.owner.operation == Operation::Update);
    let mut excess = updaters.clone().count().saturating_sub(MOST_UPDATERS);
    if excess == 0 {
        return;
    }
    let mut updaters: Vec<Entry> = updaters.cloned().collect();
    let age = |entry: &Entry| (entry.time.unwrap_or_default(), entry.owner.identity());
    updaters.sort_by_cached_key(age);
    let mut first: BTreeMap<String, Owner> = BTreeMap::new();
    for entry in updaters {
        if excess == 0 {
            return;
        }
        let bucket = ancient(&entry.owner.api_version);
        let Some(oldest) = first.get(&entry.owner.api_version) else {
            first.insert(entry.owner.api_version.clone(), entry.owner);
            continue;
        };
        // Those who were brought together before and gained something since are no victims.
        if entry.owner.is(&bucket) {
            continue;
        }
        let oldest = oldest.clone();
        join(entries, &oldest, &bucket, entry);
        excess -= 1;
    }
}

/// Puts what the oldest of a version and `entry` own into the entry of the ancients.
fn join(entries: &mut Entries, oldest: &Owner, bucket: &Owner, entry: Entry) {
    if entries.get(bucket).is_none()
        && let Some(renamed) = entries.remove(oldest)
    {
        let fields = Arc::new(Arc::unwrap_or_clone(renamed.fields).anew());
        entries.push(Entry { owner: bucket.clone(), fields, ..renamed });
    }
    entries.remove(&entry.owner);
    if let Some(joined) = entries.get_mut(bucket) {
        joined.gain(Arc::unwrap_or_clone(entry.fields));
        // The younger of the two, since that is when it last gained something.
        joined.time = entry.time;
    }
}

fn ancient(api_version: &str) -> Owner {
    Owner {
        manager: NAME.to_owned(),
        operation: Operation::Update,
        api_version: api_version.to_owned(),
        subresource: String::new(),
    }
}
