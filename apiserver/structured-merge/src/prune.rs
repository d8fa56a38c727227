//! Taking out of a merged object what an applier used to say and says no longer.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::complete::complete;
use crate::entries::{Entries, Entry};
use crate::owned::owned;
use crate::remove::remove;
use crate::schema::Type;
use crate::set::Set;
use crate::versions::{VersionError, Versions, converted};

/// A merged object, the versions it can be shown in, and the version it is in.
pub(crate) struct Pruning<'a> {
    pub(crate) versions: &'a dyn Versions,
    pub(crate) version: &'a str,
    /// All entries, the applier's with the new set.
    pub(crate) entries: &'a Entries,
}

impl Pruning<'_> {
    /// `merged` without the parts that only `last` had. What somebody owns stays, and so does what
    /// was not itself in `last`.
    ///
    /// `new` is what the applier says now.
    pub(crate) fn prune(&self, merged: Value, last: &Entry, new: &Set) -> Result<Value, VersionError> {
        let version = last.owner.api_version.as_str();
        // Whoever says all that they said before gives nothing up; so it is with most applies.
        if version == self.version && new.contains(&last.fields) {
            return Ok(merged);
        }
        let Some(of) = self.versions.of_version(version).filter(|_| !last.fields.is_empty()) else {
            return Ok(merged);
        };
        let shown = converted(self.versions, &merged, self.version, version, &of)?;
        let last = complete(&of, &last.fields);
        let mut pruned = shown.clone();
        remove(&of, &mut pruned, &last, &Set::default());
        let mut sets = self.by_version();
        // Empty or not, what somebody owns is there; in which version they said so does not matter.
        let mut kept = Set::default();
        sets.values().for_each(|set| kept.add(set.clone()));
        let own = sets.remove(version).unwrap_or_default();
        let pruned = give_back(&of, &shown, &pruned, &own, &kept);
        let pruned = self.with_what_is_owned(&shown, pruned, (version, &of), &kept, sets)?;
        let gone = lost(&of, &shown, &pruned).intersection(&last);
        if gone.is_empty() {
            return Ok(merged);
        }
        let mut result = shown;
        remove(&of, &mut result, &gone, &kept);
        if version == self.version {
            return Ok(result);
        }
        self.versions.convert(result, version, self.version)
    }

    /// What is owned, by the version in which it was written.
    fn by_version(&self) -> BTreeMap<&str, Set> {
        let mut sets: BTreeMap<&str, Set> = BTreeMap::new();
        for entry in self.entries.iter() {
            sets.entry(entry.owner.api_version.as_str()).or_default().add(Set::clone(&entry.fields));
        }
        sets
    }

    /// Gives back what is owned in other versions than the one that the objects are in.
    fn with_what_is_owned(
        &self,
        merged: &Value,
        mut pruned: Value,
        (version, of): (&str, &Arc<Type>),
        kept: &Set,
        sets: BTreeMap<&str, Set>,
    ) -> Result<Value, VersionError> {
        for (other, theirs) in sets {
            let Some(of_other) = self.versions.of_version(other) else { continue };
            let shown = converted(self.versions, merged, version, other, &of_other)?;
            let pruned_there = converted(self.versions, &pruned, version, other, &of_other)?;
            let given = give_back(&of_other, &shown, &pruned_there, &theirs, kept);
            if given != pruned_there {
                pruned = converted(self.versions, &given, other, version, of)?;
            }
        }
        Ok(pruned)
    }
}

/// `merged` without what `pruned` lacks and nobody in `own` has; what is in `kept` stays when it
/// becomes empty.
fn give_back(of: &Type, merged: &Value, pruned: &Value, own: &Set, kept: &Set) -> Value {
    let mut gone = lost(of, merged, pruned);
    gone.subtract(&complete(of, own));
    let mut result = merged.clone();
    remove(of, &mut result, &gone, kept);
    result
}

/// What `merged` has and `pruned` has not, structs included.
fn lost(of: &Type, merged: &Value, pruned: &Value) -> Set {
    let mut lost = complete(of, &owned(of, merged));
    lost.subtract(&complete(of, &owned(of, pruned)));
    lost
}
