//! Reference history: the one history that must explain all records.

use std::collections::BTreeMap;

use crate::record::{Content, Delivery, Records, Selection, WriteOutcome};
use crate::violation::Violation;

/// Change of one object. A `None` content is the deletion of the object with this uid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObjectChange {
    pub(crate) key: String,
    pub(crate) uid: String,
    pub(crate) content: Option<Content>,
}

/// All changes by revision, assembled from all deliveries and acknowledged writes.
#[derive(Debug, Default)]
pub(crate) struct ReferenceHistory {
    pub(crate) changes: BTreeMap<u64, ObjectChange>,
    /// Versions of each object, by revision.
    versions: BTreeMap<String, BTreeMap<u64, Option<Content>>>,
    /// Revision at which the object with this uid was deleted.
    deleted: BTreeMap<String, u64>,
}

impl ReferenceHistory {
    /// Assembles the history, and adds a violation for each contradiction.
    pub(crate) fn of(records: &Records, violations: &mut Vec<Violation>) -> Self {
        let mut history = Self::default();
        for watcher in records.watchers.iter().filter(|watcher| watcher.selection == Selection::All) {
            for delivery in &watcher.deliveries {
                let (revision, key, uid, content) = match delivery {
                    Delivery::Put(revision, key, content) => {
                        (revision, key, &content.uid, Some(content.clone()))
                    }
                    Delivery::Gone(revision, key, content) => (revision, key, &content.uid, None),
                    Delivery::State(..) | Delivery::Bookmark(_) => continue,
                };
                let change = ObjectChange { key: key.clone(), uid: uid.clone(), content };
                history.add(*revision, change, violations);
            }
        }
        for write in &records.writes {
            if let WriteOutcome::Stored(revision, content) = &write.outcome {
                if !history.changes.contains_key(revision) {
                    violations.push(Violation::LostEvent { watcher: String::new(), revision: *revision });
                }
                let (key, uid) = (write.key.clone(), content.uid.clone());
                history.add(*revision, ObjectChange { key, uid, content: Some(content.clone()) }, violations);
            }
        }
        history.index();
        history
    }

    fn add(&mut self, revision: u64, change: ObjectChange, violations: &mut Vec<Violation>) {
        match self.changes.get(&revision) {
            Some(known) if *known != change => {
                let detail = format!("one client received {known:?}, another one {change:?}");
                violations.push(Violation::Disagreement { revision, detail });
            }
            Some(_) => {}
            None => {
                self.changes.insert(revision, change);
            }
        }
    }

    fn index(&mut self) {
        for (revision, change) in &self.changes {
            let versions = self.versions.entry(change.key.clone()).or_default();
            versions.insert(*revision, change.content.clone());
            if change.content.is_none() {
                self.deleted.insert(change.uid.clone(), *revision);
            }
        }
    }

    /// Returns the revision at which the object with this uid was deleted.
    pub(crate) fn deletion(&self, uid: &str) -> Option<u64> {
        self.deleted.get(uid).copied()
    }

    /// Returns the object as of a revision, with the revision of its version.
    pub(crate) fn at(&self, key: &str, revision: u64) -> Option<(u64, &Content)> {
        let (at, content) = self.versions.get(key)?.range(..=revision).next_back()?;
        content.as_ref().map(|content| (*at, content))
    }

    /// Returns the revision of the object's next change after a revision.
    pub(crate) fn next(&self, key: &str, revision: u64) -> Option<u64> {
        self.versions.get(key)?.range(revision + 1..).next().map(|(at, _)| *at)
    }

    /// Returns true if an object did not exist at some moment after a revision.
    pub(crate) fn is_gone_after(&self, key: &str, revision: u64) -> bool {
        let versions = self.versions.get(key);
        versions.is_some_and(|versions| versions.range(revision + 1..).any(|(_, content)| content.is_none()))
    }

    /// Returns all selected objects as of a revision.
    pub(crate) fn state(&self, revision: u64, selection: Selection) -> BTreeMap<String, (u64, Content)> {
        let keys = self.versions.keys();
        let found = keys.filter_map(|key| {
            let (at, content) = self.at(key, revision)?;
            is_selected(selection, content).then(|| (key.clone(), (at, content.clone())))
        });
        found.collect()
    }

    /// Returns the delivery that a watcher must receive for the change at a revision; `None` if it must
    /// receive none.
    pub(crate) fn expected_delivery(&self, revision: u64, selection: Selection) -> Option<Delivery> {
        let change = self.changes.get(&revision)?;
        let before = self.at(&change.key, revision - 1).map(|(_, content)| content);
        let selected = |content: &&Content| is_selected(selection, content);
        match (before.filter(selected), change.content.as_ref().filter(selected)) {
            (_, Some(content)) => Some(Delivery::Put(revision, change.key.clone(), content.clone())),
            (Some(before), None) => Some(Delivery::Gone(revision, change.key.clone(), before.clone())),
            (None, None) => None,
        }
    }
}

fn is_selected(selection: Selection, content: &Content) -> bool {
    match selection {
        Selection::All => true,
        Selection::Odd => content.is_odd(),
    }
}
