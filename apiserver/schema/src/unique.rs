//! Uniqueness of list entries: whole entries in sets, keys of entries in maps.

use std::collections::HashMap;

use serde_json::Value;

use super::location::Location;
use super::{Kind, ListSchema, Schema, Uniqueness};
use crate::field_errors::FieldError;

impl Schema {
    /// Adds an error for every duplicate entry. Duplicates in the old list are no errors, because they would block
    /// unrelated updates.
    pub(super) fn duplicates(
        &self,
        value: &Value,
        old: Option<&Value>,
        path: &Location<'_>,
    ) -> Vec<FieldError> {
        let mut errors = Vec::new();
        self.find_duplicates(value, path, &mut errors);
        if let (false, Some(old)) = (errors.is_empty(), old) {
            let mut before = Vec::new();
            self.find_duplicates(old, path, &mut before);
            if !before.is_empty() {
                return Vec::new();
            }
        }
        errors
    }

    fn find_duplicates(&self, value: &Value, path: &Location<'_>, errors: &mut Vec<FieldError>) {
        if !self.has_keys {
            return;
        }
        match (&self.kind, value) {
            (Kind::Object(object), Value::Object(map)) => {
                for (name, field) in map {
                    match object.properties.get(name) {
                        Some(schema) => schema.find_duplicates(field, &path.child(name), errors),
                        None => {
                            if let Some(schema) = &object.additional {
                                schema.find_duplicates(field, &path.key(name), errors);
                            }
                        }
                    }
                }
            }
            (Kind::List(list), Value::Array(items)) => {
                list.check_unique(items, path, errors);
                for (index, item) in items.iter().enumerate() {
                    list.items.find_duplicates(item, &path.index(index), errors);
                }
            }
            _ => {}
        }
    }
}

/// Longest list whose entries are compared pairwise. Hashing their keys costs more for shorter lists.
const FEW: usize = 16;

/// Old list, indexed to find the entry that corresponds to a new entry. Empty without keys: an index does not identify
/// an entry.
pub(crate) enum Counterparts<'a> {
    /// Entries in their order, with the values of their keys.
    Few(&'a [Value], Keyed<'a>),
    /// Entries by the text of their keys.
    Many(HashMap<String, &'a Value>, &'a [String]),
}

impl<'a> Counterparts<'a> {
    /// Returns the old entry with the same identity.
    pub(crate) fn of(&self, item: &Value) -> Option<&'a Value> {
        match self {
            Self::Few(entries, keyed) => keyed.find(item).and_then(|at| entries.get(at)),
            Self::Many(entries, keys) => entries.get(&identity(item, keys).to_string()).copied(),
        }
    }
}

/// Keys of a few entries. They are looked up once, since each entry is compared with all others.
#[derive(Default)]
pub(crate) struct Keyed<'a> {
    keys: &'a [String],
    /// Keys of the first entry, then those of the next one.
    values: Vec<Option<&'a Value>>,
}

impl<'a> Keyed<'a> {
    fn of(entries: &'a [Value], keys: &'a [String]) -> Self {
        let values = entries.iter().flat_map(|entry| keys.iter().map(|key| entry.get(key)));
        Self { keys, values: values.collect() }
    }

    /// Returns the first entry with the keys of this one.
    fn find(&self, item: &Value) -> Option<usize> {
        let own = Keyed::of(std::slice::from_ref(item), self.keys);
        self.each().position(|values| *values == *own.values)
    }

    /// Returns the number of earlier entries with the keys of this one.
    fn before(&self, index: usize) -> usize {
        let Some(own) = self.each().nth(index) else { return 0 };
        self.each().take(index).filter(|other| *other == own).count()
    }

    fn each(&self) -> std::slice::ChunksExact<'_, Option<&'a Value>> {
        self.values.chunks_exact(self.keys.len().max(1))
    }
}

impl ListSchema {
    /// Indexes the old list once for all lookups.
    pub(crate) fn counterparts<'a>(&'a self, old: Option<&'a Value>) -> Counterparts<'a> {
        let (Uniqueness::Map(keys), Some(old)) = (&self.uniqueness, old.and_then(Value::as_array)) else {
            return Counterparts::Few(&[], Keyed::default());
        };
        if old.len() <= FEW {
            return Counterparts::Few(old, Keyed::of(old, keys));
        }
        let mut entries = HashMap::with_capacity(old.len());
        for entry in old {
            entries.entry(identity(entry, keys).to_string()).or_insert(entry);
        }
        Counterparts::Many(entries, keys)
    }
}

impl ListSchema {
    fn check_unique(&self, items: &[Value], path: &Location<'_>, errors: &mut Vec<FieldError>) {
        if self.uniqueness == Uniqueness::Atomic {
            return;
        }
        let mut seen: HashMap<String, usize> = HashMap::new();
        let keyed = match &self.uniqueness {
            Uniqueness::Map(keys) if items.len() <= FEW => Some(Keyed::of(items, keys)),
            _ => None,
        };
        for (index, item) in items.iter().enumerate() {
            if matches!(self.uniqueness, Uniqueness::Map(_)) && !item.is_object() && !item.is_null() {
                let detail = "must be an object for an array of list-type map";
                return errors.push(FieldError::invalid(path.index(index).path(), item, detail));
            }
            let before = if let Some(keyed) = &keyed {
                keyed.before(index)
            } else if items.len() <= FEW {
                items.iter().take(index).filter(|other| *other == item).count()
            } else {
                let times = seen.entry(self.shown(item).to_string()).or_default();
                *times += 1;
                *times - 1
            };
            // Each duplicate is reported once, at its second occurrence.
            if before == 1 {
                errors.push(FieldError::duplicate(path.index(index).path(), &self.shown(item)));
            }
        }
    }

    /// Returns the part of an entry that must be unique.
    fn shown(&self, item: &Value) -> Value {
        match &self.uniqueness {
            Uniqueness::Atomic | Uniqueness::Set => item.clone(),
            Uniqueness::Map(keys) => identity(item, keys),
        }
    }
}

/// Returns the keys that an entry has.
pub(super) fn identity(item: &Value, keys: &[String]) -> Value {
    keys.iter().filter_map(|key| item.get(key).map(|value| (key.clone(), value.clone()))).collect()
}
