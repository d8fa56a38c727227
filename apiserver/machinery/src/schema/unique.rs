//! Uniqueness of list entries: of whole ones in sets, of their keys in maps.

use std::collections::HashMap;

use serde_json::Value;

use super::place::Place;
use super::{Kind, ListSchema, Schema, Uniqueness};
use crate::field_errors::FieldError;

impl Schema {
    /// Every entry that occurs twice. Old duplicates are not held against an update: they would
    /// keep people from mending anything else.
    pub(super) fn duplicates(&self, value: &Value, old: Option<&Value>, path: &Place<'_>) -> Vec<FieldError> {
        let mut faults = Vec::new();
        self.find_duplicates(value, path, &mut faults);
        if let (false, Some(old)) = (faults.is_empty(), old) {
            let mut before = Vec::new();
            self.find_duplicates(old, path, &mut before);
            if !before.is_empty() {
                return Vec::new();
            }
        }
        faults
    }

    fn find_duplicates(&self, value: &Value, path: &Place<'_>, faults: &mut Vec<FieldError>) {
        if !self.has_keys {
            return;
        }
        match (&self.kind, value) {
            (Kind::Object(object), Value::Object(map)) => {
                for (name, field) in map {
                    match object.properties.get(name) {
                        Some(schema) => schema.find_duplicates(field, &path.child(name), faults),
                        None => {
                            if let Some(schema) = &object.additional {
                                schema.find_duplicates(field, &path.key(name), faults);
                            }
                        }
                    }
                }
            }
            (Kind::List(list), Value::Array(items)) => {
                list.check_unique(items, path, faults);
                for (index, item) in items.iter().enumerate() {
                    list.items.find_duplicates(item, &path.index(index), faults);
                }
            }
            _ => {}
        }
    }
}

/// Up to so many entries are compared with each other: writing their keys to look them up costs more.
const FEW: usize = 16;

/// The entries of an old list, to be found by those of the new one; none where no keys say what an entry stands for: an
/// index does not.
pub(crate) enum Counterparts<'a> {
    /// As they stand in the list.
    Few(&'a [Value], &'a [String]),
    /// By the text of their keys.
    Many(HashMap<String, &'a Value>, &'a [String]),
}

impl<'a> Counterparts<'a> {
    /// The old entry that stands for the same thing.
    pub(crate) fn of(&self, item: &Value) -> Option<&'a Value> {
        match self {
            Self::Few(entries, keys) => entries.iter().find(|entry| same_keys(entry, item, keys)),
            Self::Many(entries, keys) => entries.get(&identity(item, keys).to_string()).copied(),
        }
    }
}

impl ListSchema {
    /// Looks through the old list once, however many will ask.
    pub(crate) fn counterparts<'a>(&'a self, old: Option<&'a Value>) -> Counterparts<'a> {
        let (Uniqueness::Map(keys), Some(old)) = (&self.uniqueness, old.and_then(Value::as_array)) else {
            return Counterparts::Few(&[], &[]);
        };
        if old.len() <= FEW {
            return Counterparts::Few(old, keys);
        }
        let mut entries = HashMap::with_capacity(old.len());
        for entry in old {
            entries.entry(identity(entry, keys).to_string()).or_insert(entry);
        }
        Counterparts::Many(entries, keys)
    }
}

impl ListSchema {
    fn check_unique(&self, items: &[Value], path: &Place<'_>, faults: &mut Vec<FieldError>) {
        if self.uniqueness == Uniqueness::Atomic {
            return;
        }
        let mut seen: HashMap<String, usize> = HashMap::new();
        for (index, item) in items.iter().enumerate() {
            if matches!(self.uniqueness, Uniqueness::Map(_)) && !item.is_object() && !item.is_null() {
                let detail = "must be an object for an array of list-type map";
                return faults.push(FieldError::invalid(path.index(index).path(), item, detail));
            }
            let before = if items.len() <= FEW {
                items.iter().take(index).filter(|other| self.is_same(other, item)).count()
            } else {
                let times = seen.entry(self.shown(item).to_string()).or_default();
                *times += 1;
                *times - 1
            };
            // Said once of each, at its second place.
            if before == 1 {
                faults.push(FieldError::duplicate(path.index(index).path(), &self.shown(item)));
            }
        }
    }

    /// Whether two entries may not both be there.
    fn is_same(&self, one: &Value, other: &Value) -> bool {
        match &self.uniqueness {
            Uniqueness::Atomic => false,
            Uniqueness::Set => one == other,
            Uniqueness::Map(keys) => same_keys(one, other, keys),
        }
    }

    /// What of an entry may be there once.
    fn shown(&self, item: &Value) -> Value {
        match &self.uniqueness {
            Uniqueness::Atomic | Uniqueness::Set => item.clone(),
            Uniqueness::Map(keys) => identity(item, keys),
        }
    }
}

fn same_keys(one: &Value, other: &Value, keys: &[String]) -> bool {
    keys.iter().all(|key| one.get(key) == other.get(key))
}

/// An entry's keys, those it has.
pub(super) fn identity(item: &Value, keys: &[String]) -> Value {
    keys.iter().filter_map(|key| item.get(key).map(|value| (key.clone(), value.clone()))).collect()
}
