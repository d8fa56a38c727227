//! Pruning of a merged object: removes the parts that the field manager has applied before and applies no longer.

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

/// Context of a pruning: the object's versions, its current one, and its entries.
pub(crate) struct Pruning<'a> {
    pub(crate) versions: &'a dyn Versions,
    pub(crate) version: &'a str,
    /// All entries, the applying field manager's with the new set.
    pub(crate) entries: &'a Entries,
}

impl Pruning<'_> {
    /// Returns `merged` without the parts that only `last` had. Parts that a field manager owns stay, and so do parts
    /// that were not members of `last` themselves.
    ///
    /// `new` is the set of the new configuration.
    pub(crate) fn prune(&self, merged: Value, last: &Entry, new: &Set) -> Result<Value, VersionError> {
        let version = last.manager.api_version.as_str();
        // A configuration that contains all previous fields gives nothing up; most applies are like this.
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
        // Owned parts stay, even when empty; the version in which they were applied does not matter.
        let mut kept = Set::default();
        sets.values().for_each(|set| kept.add(set.clone()));
        let own = sets.remove(version).unwrap_or_default();
        let pruned = restore(&of, &shown, &pruned, &own, &kept);
        let pruned = self.restore_other_versions(&shown, pruned, (version, &of), &kept, sets)?;
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

    /// Returns the owned parts, by the version in which they were written.
    fn by_version(&self) -> BTreeMap<&str, Set> {
        let mut sets: BTreeMap<&str, Set> = BTreeMap::new();
        for entry in self.entries.iter() {
            sets.entry(entry.manager.api_version.as_str()).or_default().add(Set::clone(&entry.fields));
        }
        sets
    }

    /// Restores the parts that are owned in other versions than that of the objects.
    fn restore_other_versions(
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
            let given = restore(&of_other, &shown, &pruned_there, &theirs, kept);
            if given != pruned_there {
                pruned = converted(self.versions, &given, other, version, of)?;
            }
        }
        Ok(pruned)
    }
}

/// Returns `merged` without the parts that `pruned` lacks and `own` does not have; parts in `kept` stay when they
/// become empty.
fn restore(of: &Type, merged: &Value, pruned: &Value, own: &Set, kept: &Set) -> Value {
    let mut gone = lost(of, merged, pruned);
    gone.subtract(&complete(of, own));
    let mut result = merged.clone();
    remove(of, &mut result, &gone, kept);
    result
}

/// Returns the parts that `merged` has and `pruned` has not, structs included.
fn lost(of: &Type, merged: &Value, pruned: &Value) -> Set {
    let mut lost = complete(of, &owned(of, merged));
    lost.subtract(&complete(of, &owned(of, pruned)));
    lost
}
