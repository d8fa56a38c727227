//! Updater: applies one write to the sets of all field managers.

use std::sync::Arc;

use serde_json::Value;

use crate::compare::Comparison;
use crate::conflict::Conflicts;
use crate::entries::{Entries, Entry};
use crate::field_manager::ApplyError;
use crate::manager_identifier::ManagerIdentifier;
use crate::merge::merge;
use crate::owned::owned;
use crate::prune::Pruning;
use crate::reconcile::{is_outdated, reconcile};
use crate::schema::Type;
use crate::set::Set;
use crate::versions::{Compared, VersionError, Versions};

/// Updater of one write, in one version of the kind, through one endpoint.
pub(crate) struct Updater<'a> {
    pub(crate) versions: &'a dyn Versions,
    pub(crate) version: &'a str,
    /// The type in that version.
    pub(crate) of: &'a Type,
    /// Fields that no field manager owns through the endpoint.
    pub(crate) reset: &'a Set,
}

impl Updater<'_> {
    /// Drops the entries of removed versions, and converts the others to the current schema of their version.
    pub(crate) fn reconcile(&self, entries: &mut Entries) {
        entries.retain(|entry| self.versions.of_version(&entry.manager.api_version).is_some());
        for entry in entries.iter_mut() {
            let of = self.versions.of_version(&entry.manager.api_version);
            if let Some(of) = of.filter(|of| is_outdated(of, &entry.fields)) {
                entry.fields = Arc::new(reconcile(&of, Set::clone(&entry.fields)));
            }
        }
    }

    /// Records an update: all field managers but `own` lose the changed parts. `own` gains them again; the caller
    /// adds those that it keeps. Returns the parts that the updater gained.
    pub(crate) fn update(
        &self,
        old: &Value,
        new: &Value,
        entries: &mut Entries,
        own: &ManagerIdentifier,
    ) -> Result<Set, VersionError> {
        let mut compared = Compared::new(self.versions, self.version, [old, new], self.reset);
        for entry in entries.iter_mut() {
            if let Some(change) = compared.within(&entry.manager.api_version)? {
                entry.lose(&change.removed);
                // A set that loses nothing is not written anew.
                if !entry.manager.is(own) {
                    entry.lose(&change.modified);
                    entry.lose(&change.added);
                }
            }
        }
        entries.drop_empty();
        Ok(compared.into_own()?.map(Comparison::gained).unwrap_or_default())
    }

    /// Applies `config` as `manager`. Returns the resulting object, and the previous entry of the field manager.
    pub(crate) fn apply(
        &self,
        live: &Value,
        config: &Value,
        manager: &ManagerIdentifier,
        entries: &mut Entries,
        force: bool,
    ) -> Result<(Value, Option<Entry>), ApplyError> {
        let merged = merge(self.of, live, config);
        let mut fields = owned(self.of, config);
        fields.subtract_trees(self.reset);
        let last = entries.remove(manager);
        let time = last.as_ref().and_then(|last| last.time);
        entries.push(Entry { manager: manager.clone(), time, fields: Arc::new(fields) });
        let result = match &last {
            Some(last) => {
                let pruning = Pruning { versions: self.versions, version: self.version, entries };
                match entries.get(manager) {
                    Some(now) => pruning.prune(merged, last, &now.fields)?,
                    None => merged,
                }
            }
            None => merged,
        };
        self.take(live, &result, manager, entries, force)?;
        Ok((result, last))
    }

    /// Takes the changed parts from the other field managers.
    fn take(
        &self,
        live: &Value,
        result: &Value,
        manager: &ManagerIdentifier,
        entries: &mut Entries,
        force: bool,
    ) -> Result<(), ApplyError> {
        let mut compared = Compared::new(self.versions, self.version, [live, result], self.reset);
        let mut conflicts = Vec::new();
        for entry in entries.iter_mut().filter(|entry| !entry.manager.is(manager)) {
            let Some(change) = compared.within(&entry.manager.api_version)? else { continue };
            let conflict = change.gained_of(&entry.fields);
            entry.lose(&change.removed);
            if !conflict.is_empty() {
                entry.lose(&conflict);
                conflicts.push((entry.manager.clone(), conflict));
            }
        }
        match Conflicts::of(conflicts).filter(|_| !force) {
            Some(conflicts) => Err(ApplyError::Conflicts(conflicts)),
            None => {
                entries.drop_empty();
                Ok(())
            }
        }
    }
}
