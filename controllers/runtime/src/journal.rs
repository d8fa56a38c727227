//! Journal of an object: the cloud resources that it is about to create or has created.

use jiff::Timestamp;
use kube::{Resource, ResourceExt};
use serde::{Deserialize, Serialize};

use crate::TermStart;

/// Annotation that holds the journal: a JSON array of entries.
pub const ANNOTATION: &str = "capstan.dev/journal";

/// One cloud resource that is about to be created, or was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Kind of the resource, e.g. `network`.
    pub kind: String,
    /// Its deterministic name in the cloud.
    pub name: String,
    /// The cloud's id, as soon as it is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub id: Option<String>,
    /// Term of the leader that has written the entry first. Absent in entries of earlier releases.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub epoch: Option<u64>,
    /// Time of the pass that has written the entry first, in whole seconds. Absent where `epoch` is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub at: Option<Timestamp>,
}

/// Journal of one object.
///
/// An entry is written before its resource is created, so that a process after a crash knows which
/// resources to look for. A resource without an entry is never deleted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Journal {
    entries: Vec<Entry>,
    /// Term of the leader that writes new entries now, and the time of its pass.
    term: Option<(u64, Timestamp)>,
}

impl Journal {
    /// Reads the journal of an object. One that cannot be parsed counts as empty, so nothing is deleted
    /// because of it.
    pub fn of<K: Resource>(object: &K) -> Self {
        let text = object.annotations().get(ANNOTATION);
        let entries = text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        Self { entries, term: None }
    }

    /// Sets the term and the time that new entries name.
    pub fn enter(&mut self, term: &TermStart, now: Timestamp) {
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
        self.term = term.number().map(|number| (number, now));
    }

    /// Returns the number of the term that new entries name.
    fn epoch(&self) -> Option<u64> {
        self.term.map(|(number, _)| number)
    }

    /// Returns true if another leader has announced a resource whose id is not known: its call may be on its way.
    pub fn has_open_entries_of_another_term(&self) -> bool {
        self.entries.iter().any(|entry| entry.id.is_none() && entry.epoch != self.epoch())
    }

    /// Returns the entries.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns true if there is an entry.
    pub fn has(&self, kind: &str, name: &str) -> bool {
        self.entries.iter().any(|entry| entry.kind == kind && entry.name == name)
    }

    /// Returns the id of a created resource, if it is known.
    pub fn id(&self, kind: &str, name: &str) -> Option<&str> {
        let entry = self.entries.iter().find(|entry| entry.kind == kind && entry.name == name);
        entry.and_then(|entry| entry.id.as_deref())
    }

    /// Returns the entries of a kind.
    pub fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Entry> + 'a {
        self.entries.iter().filter(move |entry| entry.kind == kind)
    }

    /// Adds an entry for a resource that is about to be created. Returns true if it is new.
    pub fn intend(&mut self, kind: &str, name: &str) -> bool {
        let new = !self.has(kind, name);
        if new {
            let (kind, name) = (kind.to_owned(), name.to_owned());
            let at = self.term.map(|(_, at)| at);
            self.entries.push(Entry { kind, name, id: None, epoch: self.epoch(), at });
        }
        new
    }

    /// Records the id of a created resource. Returns true if it is new.
    pub fn learn(&mut self, kind: &str, name: &str, id: &str) -> bool {
        self.intend(kind, name);
        let entry = self.entries.iter_mut().find(|entry| entry.kind == kind && entry.name == name);
        let Some(entry) = entry.filter(|entry| entry.id.as_deref() != Some(id)) else { return false };
        entry.id = Some(id.to_owned());
        true
    }

    /// Removes the entry of a resource that does not exist any more.
    pub fn strike(&mut self, kind: &str, name: &str) {
        self.entries.retain(|entry| !(entry.kind == kind && entry.name == name));
    }

    /// Removes the entries of resources whose ids are not known: they were looked for and do not exist.
    pub fn forget_unknown(&mut self) {
        self.entries.retain(|entry| entry.id.is_some());
    }

    /// Returns the value of the annotation.
    pub fn text(&self) -> String {
        serde_json::to_string(&self.entries).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_recorded_once_and_gets_its_id_later() {
        let mut journal = Journal::default();
        assert!(journal.intend("network", "a"));
        assert!(!journal.intend("network", "a"));
        assert!(journal.learn("network", "a", "1"));
        assert!(!journal.learn("network", "a", "1"));
        assert!(journal.intend("port", "a"));
        assert_eq!(journal.text(), r#"[{"kind":"network","name":"a","id":"1"},{"kind":"port","name":"a"}]"#);
        journal.strike("network", "a");
        assert!(!journal.has("network", "a") && journal.has("port", "a"));
    }

    #[test]
    fn an_entry_names_its_term_until_its_id_is_known() {
        let mut journal = Journal::default();
        journal.intend("port", "of-an-earlier-release");
        let now: Timestamp = "2026-11-21T12:00:00.7Z".parse().unwrap();
        journal.enter(&TermStart::in_order(7), now);
        assert!(journal.has_open_entries_of_another_term());
        journal.learn("port", "of-an-earlier-release", "1");
        journal.intend("server", "a");
        assert!(!journal.has_open_entries_of_another_term());
        let entry = r#"{"kind":"server","name":"a","epoch":7,"at":"2026-11-21T12:00:00Z"}]"#;
        assert!(journal.text().ends_with(entry), "{}", journal.text());
        journal.enter(&TermStart::in_order(9), now);
        assert!(journal.has_open_entries_of_another_term());
    }
}
