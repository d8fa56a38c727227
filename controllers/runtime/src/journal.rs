//! Journal of an object: the cloud resources that it is about to create or has created.

use kube::{Resource, ResourceExt};
use serde::{Deserialize, Serialize};

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
}

/// Journal of one object.
///
/// An entry is written before its resource is created, so that a process after a crash knows which
/// resources to look for. A resource without an entry is never deleted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Journal(Vec<Entry>);

impl Journal {
    /// Reads the journal of an object. One that cannot be parsed counts as empty, so nothing is deleted
    /// because of it.
    pub fn of<K: Resource>(object: &K) -> Self {
        let text = object.annotations().get(ANNOTATION);
        Self(text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default())
    }

    /// Returns the entries.
    pub fn entries(&self) -> &[Entry] {
        &self.0
    }

    /// Returns true if there is an entry.
    pub fn has(&self, kind: &str, name: &str) -> bool {
        self.0.iter().any(|entry| entry.kind == kind && entry.name == name)
    }

    /// Returns the id of a created resource, if it is known.
    pub fn id(&self, kind: &str, name: &str) -> Option<&str> {
        let entry = self.0.iter().find(|entry| entry.kind == kind && entry.name == name);
        entry.and_then(|entry| entry.id.as_deref())
    }

    /// Returns the entries of a kind.
    pub fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Entry> + 'a {
        self.0.iter().filter(move |entry| entry.kind == kind)
    }

    /// Adds an entry for a resource that is about to be created. Returns true if it is new.
    pub fn intend(&mut self, kind: &str, name: &str) -> bool {
        let new = !self.has(kind, name);
        if new {
            self.0.push(Entry { kind: kind.to_owned(), name: name.to_owned(), id: None });
        }
        new
    }

    /// Records the id of a created resource. Returns true if it is new.
    pub fn learn(&mut self, kind: &str, name: &str, id: &str) -> bool {
        self.intend(kind, name);
        let entry = self.0.iter_mut().find(|entry| entry.kind == kind && entry.name == name);
        let Some(entry) = entry.filter(|entry| entry.id.as_deref() != Some(id)) else { return false };
        entry.id = Some(id.to_owned());
        true
    }

    /// Removes the entry of a resource that does not exist any more.
    pub fn strike(&mut self, kind: &str, name: &str) {
        self.0.retain(|entry| !(entry.kind == kind && entry.name == name));
    }

    /// Removes the entries of resources whose ids are not known: they were looked for and do not exist.
    pub fn forget_unknown(&mut self) {
        self.0.retain(|entry| entry.id.is_some());
    }

    /// Returns the value of the annotation.
    pub fn text(&self) -> String {
        serde_json::to_string(&self.0).unwrap_or_default()
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
}
