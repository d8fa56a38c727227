//! Entries of `metadata.managedFields`.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::fields_v1;
use crate::manager_identifier::{ManagerIdentifier, Operation};
use crate::serialized;
use crate::set::Set;
use crate::time;

/// Entry of one field manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The field manager.
    pub manager: ManagerIdentifier,
    /// Last time that it gained a field, in seconds since 1970.
    pub time: Option<i64>,
    /// The set of its fields.
    pub fields: Arc<Set>,
}

impl Entry {
    /// Adds the parts that it gains.
    pub(crate) fn gain(&mut self, parts: Set) {
        if !(self.fields.is_as_read() && self.fields.contains(&parts)) {
            Arc::make_mut(&mut self.fields).add(parts);
        }
    }

    /// Removes the parts that it loses. A set that loses nothing stays shared.
    pub(crate) fn lose(&mut self, parts: &Set) {
        if self.fields.intersects(parts) {
            Arc::make_mut(&mut self.fields).subtract(parts);
        }
    }
}

/// Length of a list above which no written entry is searched for reuse: the search takes quadratic time, and a
/// request has room for thirty thousand entries. At most ten entries are updates, so the others are applies.
const MAX_REUSED: usize = 64;

/// Entries of an object, one per field manager.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entries(Vec<Entry>);

/// Error of `managedFields` that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("metadata.managedFields[{index}]: {problem}")]
pub struct InvalidEntries {
    index: usize,
    problem: String,
}

impl Entries {
    /// Decodes the list; an absent or null list has no entry.
    ///
    /// # Errors
    /// When an entry cannot be read.
    pub fn decode(list: Option<&Value>) -> Result<Self, InvalidEntries> {
        let list = match list {
            None | Some(Value::Null) => return Ok(Self::default()),
            Some(Value::Array(list)) => list,
            Some(_) => return Err(InvalidEntries { index: 0, problem: "not a list".to_owned() }),
        };
        let mut entries = Vec::with_capacity(list.len());
        for (index, value) in list.iter().enumerate() {
            entries.push(decode(value).map_err(|problem| InvalidEntries { index, problem })?);
        }
        Ok(Self(last_of_each(entries)))
    }

    /// Encodes the list, sorted and [serialized](crate::serialize_sets); `None` when no field manager owns a field.
    pub fn encode(&self) -> Option<Value> {
        self.encode_from(Vec::new(), None)
    }

    /// Encodes entries that were decoded from `list`, which this code has written: unchanged entries are taken from
    /// it. Of the writer's entry only the time may differ.
    pub(crate) fn encode_over(&self, list: Option<Value>, writer: &ManagerIdentifier) -> Option<Value> {
        let list = if let Some(Value::Array(list)) = list { list } else { Vec::new() };
        self.encode_from(list, Some(writer))
    }

    fn encode_from(&self, mut list: Vec<Value>, writer: Option<&ManagerIdentifier>) -> Option<Value> {
        if list.len() > MAX_REUSED {
            list.clear();
        }
        let mut sorted: Vec<&Entry> = self.0.iter().filter(|entry| !entry.fields.is_empty()).collect();
        sorted.sort_by(|left, right| wire_order(left, right));
        let mut write = |entry: &Entry| {
            let is_writers = writer.is_some_and(|writer| entry.manager.is(writer));
            // Of duplicate entries of a field manager the last was decoded.
            let found =
                list.iter_mut().rfind(|found| is_of(found, entry) && (is_writers || is_at(found, entry)));
            match found.filter(|_| entry.fields.is_as_read()) {
                Some(found) => at(found.take(), entry.time),
                None => encode(entry),
            }
        };
        if sorted.is_empty() { None } else { Some(sorted.into_iter().map(&mut write).collect()) }
    }

    /// Returns true if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the entries.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> + Clone {
        self.0.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.0.iter_mut()
    }

    /// Returns the entry of this field manager.
    pub fn get(&self, manager: &ManagerIdentifier) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.manager.is(manager))
    }

    pub(crate) fn get_mut(&mut self, manager: &ManagerIdentifier) -> Option<&mut Entry> {
        self.0.iter_mut().find(|entry| entry.manager.is(manager))
    }

    pub(crate) fn remove(&mut self, manager: &ManagerIdentifier) -> Option<Entry> {
        let at = self.0.iter().position(|entry| entry.manager.is(manager))?;
        Some(self.0.remove(at))
    }

    pub(crate) fn at_mut(&mut self, at: usize) -> Option<&mut Entry> {
        self.0.get_mut(at)
    }

    pub(crate) fn push(&mut self, entry: Entry) {
        self.0.push(entry);
    }

    /// Removes entries for which `keep` returns false.
    pub(crate) fn retain(&mut self, keep: impl FnMut(&Entry) -> bool) {
        self.0.retain(keep);
    }

    pub(crate) fn drop_empty(&mut self) {
        self.retain(|entry| !entry.fields.is_empty());
    }
}

/// Returns the last entry of each field manager.
fn last_of_each(mut entries: Vec<Entry>) -> Vec<Entry> {
    let mut keys = HashSet::with_capacity(entries.len());
    let is_last: Vec<bool> = entries.iter().rev().map(|entry| keys.insert(entry.manager.key())).collect();
    let mut is_last = is_last.into_iter().rev();
    entries.retain(|_| is_last.next().unwrap_or(true));
    entries
}

/// Returns true if a written entry has the same time as an entry.
fn is_at(written: &Value, entry: &Entry) -> bool {
    let time = written.get("time").and_then(Value::as_str).unwrap_or_default();
    time == entry.time.map(time::write).unwrap_or_default()
}

/// Returns a written entry with this time.
fn at(mut written: Value, time: Option<i64>) -> Value {
    if let (Some(fields), Some(time)) = (written.as_object_mut(), time) {
        fields.insert("time".to_owned(), json!(time::write(time)));
    }
    written
}

/// Returns true if a written entry has the field manager of an entry.
fn is_of(written: &Value, entry: &Entry) -> bool {
    let text = |field: &str| written.get(field).and_then(Value::as_str).unwrap_or_default();
    let ManagerIdentifier { manager, operation, api_version, subresource } = &entry.manager;
    text("manager") == manager
        && text("operation") == operation.text()
        && text("apiVersion") == api_version
        && text("subresource") == subresource
}

fn decode(value: &Value) -> Result<Entry, String> {
    let text = |field: &str| match value.get(field) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text.as_str()),
        Some(_) => Err(format!("{field} is not a string")),
    };
    let operation = match text("operation")? {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        other => return Err(format!("operation must be `Apply` or `Update`, not {other:?}")),
    };
    let api_version = text("apiVersion")?;
    if api_version.is_empty() {
        return Err("apiVersion must not be empty".to_owned());
    }
    match text("fieldsType")? {
        "FieldsV1" => {}
        "" => return Err("missing fieldsType".to_owned()),
        other => return Err(format!("invalid fieldsType: {other:?}")),
    }
    let time = match text("time")? {
        "" => None,
        given => Some(time::read(given).ok_or_else(|| format!("time: {given:?} is not an RFC 3339 time"))?),
    };
    let fields = match value.get(serialized::FIELD) {
        None | Some(Value::Null) => Arc::default(),
        Some(Value::String(text)) => serialized::set(text)?,
        Some(fields) => Arc::new(fields_v1::read(fields).map_err(|error| error.to_string())?),
    };
    let manager = ManagerIdentifier {
        manager: text("manager")?.to_owned(),
        operation,
        api_version: api_version.to_owned(),
        subresource: text("subresource")?.to_owned(),
    };
    Ok(Entry { manager, time, fields })
}

fn encode(entry: &Entry) -> Value {
    let manager = &entry.manager;
    let mut map = Map::new();
    if !manager.manager.is_empty() {
        map.insert("manager".to_owned(), json!(manager.manager));
    }
    map.insert("operation".to_owned(), json!(manager.operation.text()));
    map.insert("apiVersion".to_owned(), json!(manager.api_version));
    if let Some(time) = entry.time {
        map.insert("time".to_owned(), json!(time::write(time)));
    }
    map.insert("fieldsType".to_owned(), json!("FieldsV1"));
    map.insert(serialized::FIELD.to_owned(), serialized::text(&entry.fields).into());
    if !manager.subresource.is_empty() {
        map.insert("subresource".to_owned(), json!(manager.subresource));
    }
    Value::Object(map)
}

fn wire_order(left: &Entry, right: &Entry) -> Ordering {
    let operation = left.manager.operation.cmp(&right.manager.operation);
    let time = left.time.unwrap_or_default().cmp(&right.time.unwrap_or_default());
    operation.then(time).then_with(|| left.manager.order(&right.manager))
}
