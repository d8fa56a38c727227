//! The one history that all records must be part of.

use std::collections::BTreeMap;

use crate::record::{Content, Outcome, Records, Selection, Told};
use crate::violation::Violation;

/// A change: of which object, to what. `None` is the deletion of the object that is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) key: String,
    pub(crate) uid: String,
    pub(crate) content: Option<Content>,
}

/// All changes by revision, put together from what everybody was told.
#[derive(Debug, Default)]
pub(crate) struct Truth {
    pub(crate) changes: BTreeMap<u64, Change>,
    /// Of each object: its versions by revision.
    versions: BTreeMap<String, BTreeMap<u64, Option<Content>>>,
    /// When the object with this uid was deleted.
    deleted: BTreeMap<String, u64>,
}

impl Truth {
    /// Puts it together, and says where the parts do not fit.
    pub(crate) fn of(records: &Records, violations: &mut Vec<Violation>) -> Self {
        let mut truth = Self::default();
        for watcher in records.watchers.iter().filter(|watcher| watcher.selection == Selection::All) {
            for told in &watcher.told {
                let (revision, key, uid, content) = match told {
                    Told::Put(revision, key, content) => (revision, key, &content.uid, Some(content.clone())),
                    Told::Gone(revision, key, content) => (revision, key, &content.uid, None),
                    Told::State(..) | Told::Bookmark(_) => continue,
                };
                let change = Change { key: key.clone(), uid: uid.clone(), content };
                truth.add(*revision, change, violations);
            }
        }
        for write in &records.writes {
            if let Outcome::Stored(revision, content) = &write.outcome {
                if !truth.changes.contains_key(revision) {
                    violations.push(Violation::LostEvent { watcher: String::new(), revision: *revision });
                }
                let (key, uid) = (write.key.clone(), content.uid.clone());
                truth.add(*revision, Change { key, uid, content: Some(content.clone()) }, violations);
            }
        }
        truth.index();
        truth
    }

    fn add(&mut self, revision: u64, change: Change, violations: &mut Vec<Violation>) {
        match self.changes.get(&revision) {
            Some(known) if *known != change => {
                let detail = format!("one was told {known:?}, another {change:?}");
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

    /// When the object with this uid was deleted, if it was.
    pub(crate) fn deletion(&self, uid: &str) -> Option<u64> {
        self.deleted.get(uid).copied()
    }

    /// The object as it was at a revision, with its own.
    pub(crate) fn at(&self, key: &str, revision: u64) -> Option<(u64, &Content)> {
        let (at, content) = self.versions.get(key)?.range(..=revision).next_back()?;
        content.as_ref().map(|content| (*at, content))
    }

    /// The next change of an object after a revision.
    pub(crate) fn next(&self, key: &str, revision: u64) -> Option<u64> {
        self.versions.get(key)?.range(revision + 1..).next().map(|(at, _)| *at)
    }

    /// Whether an object was gone at some moment after a revision.
    pub(crate) fn is_gone_after(&self, key: &str, revision: u64) -> bool {
        let versions = self.versions.get(key);
        versions.is_some_and(|versions| versions.range(revision + 1..).any(|(_, content)| content.is_none()))
    }

    /// Everything that is selected, as it was at a revision.
    pub(crate) fn state(&self, revision: u64, selection: Selection) -> BTreeMap<String, (u64, Content)> {
        let keys = self.versions.keys();
        let found = keys.filter_map(|key| {
            let (at, content) = self.at(key, revision)?;
            is_selected(selection, content).then(|| (key.clone(), (at, content.clone())))
        });
        found.collect()
    }

    /// What a watcher must be told of the change at a revision; `None` when nothing.
    pub(crate) fn told(&self, revision: u64, selection: Selection) -> Option<Told> {
        let change = self.changes.get(&revision)?;
        let before = self.at(&change.key, revision - 1).map(|(_, content)| content);
        let selected = |content: &&Content| is_selected(selection, content);
        match (before.filter(selected), change.content.as_ref().filter(selected)) {
            (_, Some(content)) => Some(Told::Put(revision, change.key.clone(), content.clone())),
            (Some(before), None) => Some(Told::Gone(revision, change.key.clone(), before.clone())),
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
