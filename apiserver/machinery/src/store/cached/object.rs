//! Object in the watch cache: its JSON for clients, and the fields for selectors.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde_json::Value;
use storage_cache::{ItemSize, Projection};
use storage_contract::{Entry, Revision};

use super::encoded;
use super::fast_path;
use super::json::{CachedJson, parse};
use super::object_json::{self, ObjectJson};
use super::own_writes::OwnWrites;
use super::raw_field::RawField;
use super::selectable::Selectable;
use super::unreadable::{Retry, Unreadable};
use crate::encryption::{Encryption, EncryptionError};
use crate::object;
use crate::resource::{Registry, Resource};
use crate::selectors::{FieldSelector, LabelSelector};

/// Type of a watch event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// New to the watcher.
    Added,
    /// Changed.
    Modified,
    /// Gone, or no longer selected.
    Deleted,
}

impl EventKind {
    /// Returns the text on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One object as of one revision.
#[derive(Debug)]
pub struct CachedObject {
    /// The JSON for clients, or the error: a damaged object must be named, and never be omitted silently.
    pub json: Result<CachedJson, Unreadable>,
    /// Its revision.
    pub revision: Revision,
    selectable: Selectable,
    memo: Mutex<Option<Box<Memo>>>,
}

/// Encoded forms of an object, for clients that request them at about the same time.
#[derive(Debug, Default)]
struct Memo {
    /// The encoded events, by [`EventKind`].
    frames: [Option<Bytes>; 3],
    /// The object in other versions than the stored one.
    views: Vec<(String, Arc<CachedObject>)>,
    /// True if it was used since it was last trimmed.
    is_used: bool,
}

impl Memo {
    /// Returns the memory, in bytes.
    fn bytes(&self) -> usize {
        let frames: usize = self.frames.iter().flatten().map(Bytes::len).sum();
        let views = self.views.iter().map(|(_, view)| view.size());
        size_of::<Self>() + frames + views.map(|size| size.item + size.repeats).sum::<usize>()
    }
}

impl CachedObject {
    pub(crate) fn new(resource: &Resource, object: &Value, revision: Revision) -> Self {
        let selectable = Selectable::of(resource, object);
        match ObjectJson::of(object) {
            Ok(object_json) => Self::of_json(&object_json, revision, selectable),
            Err(error) => Self::damaged(object::name(object), error.to_string(), revision),
        }
    }

    /// Creates an object from encoded JSON.
    pub(crate) fn of_json(object_json: &ObjectJson, revision: Revision, selectable: Selectable) -> Self {
        let (json, metadata) = object_json.at(revision);
        let json = match object_json.sets() {
            Some(sets) => CachedJson::with_sets(&json, metadata, sets),
            None => CachedJson::new(&json, metadata),
        };
        Self { json: Ok(json), revision, selectable, memo: Mutex::default() }
    }

    /// Creates an object that cannot be decoded. Only its name is known, from its key.
    fn damaged(name: &str, why: String, revision: Revision) -> Self {
        Self::unreadable(name, Unreadable::lasting(why), revision)
    }

    fn unreadable(name: &str, error: Unreadable, revision: Revision) -> Self {
        Self { json: Err(error), revision, selectable: Selectable::named(name), memo: Mutex::default() }
    }

    /// Creates an object from a stored entry. If a KMS plug-in may open it later, [`CachedObject::view`] tries that.
    pub(crate) fn of_entry(
        registry: &Arc<Registry>,
        resource: &Arc<Resource>,
        encryption: &Arc<Encryption>,
        entry: &Entry,
    ) -> Self {
        match encoded::open(resource, encryption, entry) {
            Err(error) if error.may_pass() => {
                let retry = Retry {
                    registry: Arc::clone(registry),
                    resource: Arc::clone(resource),
                    encryption: Arc::clone(encryption),
                    entry: entry.clone(),
                    read: Mutex::default(),
                };
                Self::unreadable(name_of(entry), Unreadable::passing(&error, retry), entry.modified)
            }
            opened => Self::of_opened(registry, resource, entry, opened),
        }
    }

    /// Creates an object from the decrypted bytes of an entry.
    pub(super) fn of_opened(
        registry: &Registry,
        resource: &Resource,
        entry: &Entry,
        opened: Result<Bytes, EncryptionError>,
    ) -> Self {
        if let Some(cached) =
            opened.as_ref().ok().and_then(|plain| fast_path::read(resource, plain, entry.modified))
        {
            return cached;
        }
        let plain = opened.map_err(|error| error.to_string());
        match plain.and_then(|plain| encoded::decode(registry, resource, entry, &plain)) {
            Ok(object) => Self::new(resource, &object, entry.modified),
            Err(why) => Self::damaged(name_of(entry), why, entry.modified),
        }
    }

    /// Returns the object at a later revision, to show that it was deleted, or is no longer selected.
    pub(crate) fn at(&self, revision: Revision) -> Self {
        let json = self.json.as_ref().map_err(Clone::clone).map(|json| {
            let (json, metadata) = object_json::with_revision(json.to_vec(), json.metadata(), revision);
            CachedJson::new(&json, metadata)
        });
        Self { json, revision, selectable: self.selectable.clone(), memo: Mutex::default() }
    }

    /// Returns true if both selectors select it. A damaged object is selected unless the name excludes it, so that it
    /// is never omitted silently.
    pub fn is_selected(&self, labels: &LabelSelector, fields: &FieldSelector) -> bool {
        if self.json.is_err() {
            return fields.name().is_none_or(|name| self.selectable.name() == Some(name));
        }
        self.selectable.is_selected(labels, fields)
    }

    /// Returns the object in the version of `resource`. It is converted and encoded once for all clients.
    pub(crate) fn view(self: &Arc<Self>, resource: &Resource) -> Arc<Self> {
        if let Err(error) = &self.json {
            return match error.retried() {
                Some(read) if read.revision == self.revision => read.view(resource),
                Some(read) => Arc::new(read.at(self.revision)).view(resource),
                None => Arc::clone(self),
            };
        }
        let Some(conversion) = &resource.conversion else { return Arc::clone(self) };
        let mut memo = self.memo();
        let Memo { views, is_used, .. } = &mut **memo.get_or_insert_default();
        *is_used = true;
        if let Some((_, view)) = views.iter().find(|(version, _)| *version == resource.version) {
            return Arc::clone(view);
        }
        let value = self.to_value().map_err(|error| error.to_string());
        let served = value.and_then(|object| conversion.served(object).map_err(|error| error.to_string()));
        let view = Arc::new(match served {
            Ok(object) => Self::new(resource, &object, self.revision),
            Err(why) => {
                let name = self.selectable.name().unwrap_or_default();
                Self::damaged(name, format!("{} {name}: {why}", resource.kind), self.revision)
            }
        });
        views.push((resource.version.clone(), Arc::clone(&view)));
        view
    }

    /// Locks the encoded forms.
    fn memo(&self) -> MutexGuard<'_, Option<Box<Memo>>> {
        self.memo.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops the encoded forms that were not used since the last call.
    fn trim(&self) {
        if let Some(read) = self.json.as_ref().err().and_then(Unreadable::known) {
            read.trim();
        }
        let mut memo = self.memo();
        if memo.as_mut().is_some_and(|memo| !std::mem::take(&mut memo.is_used)) {
            *memo = None;
        }
    }

    /// Returns the memory of the object. That of a value that cannot be read counts without the value.
    fn size(&self) -> ItemSize {
        let json = self.json.as_ref().map_or(0, CachedJson::own_bytes);
        let item = size_of::<Self>() + json + self.selectable.bytes();
        ItemSize { item, repeats: self.memo().as_ref().map_or(0, |memo| memo.bytes()) }
    }

    /// Returns the watch event with this object, one line. It is encoded once for all watches.
    pub fn frame(&self, kind: EventKind) -> Bytes {
        let mut memo = self.memo();
        let Memo { frames: [added, modified, deleted], is_used, .. } = &mut **memo.get_or_insert_default();
        *is_used = true;
        let slot = match kind {
            EventKind::Added => added,
            EventKind::Modified => modified,
            EventKind::Deleted => deleted,
        };
        slot.get_or_insert_with(|| {
            let json = self.json.as_ref().ok();
            let mut frame = Vec::with_capacity(json.map_or(0, CachedJson::size) + 40);
            frame.extend_from_slice(b"{\"type\":\"");
            frame.extend_from_slice(kind.as_str().as_bytes());
            frame.extend_from_slice(b"\",\"object\":");
            match json {
                Some(json) => json.write(&mut frame),
                None => frame.extend_from_slice(b"null"),
            }
            frame.extend_from_slice(b"}\n");
            Bytes::from(frame)
        })
        .clone()
    }

    /// Returns `metadata`, decoded, with sets of fields as text, for protobuf. Null if there is none.
    ///
    /// # Errors
    /// Returns the error of the stored value.
    pub fn to_serialized_metadata(&self) -> Result<Value, Unreadable> {
        self.json.as_ref().map_err(Clone::clone)?.to_serialized_metadata().map_err(Unreadable::lasting)
    }

    /// Decodes the object, for response forms that are not copied and for rare events.
    ///
    /// # Errors
    /// Returns the error of the stored value.
    pub fn to_value(&self) -> Result<Value, Unreadable> {
        parse(&self.json.as_ref().map_err(Clone::clone)?.to_vec()).map_err(Unreadable::lasting)
    }

    /// Decodes the object with serialized field managers, without the untouched field.
    pub(crate) fn to_serialized(
        &self,
        untouched: Option<&'static str>,
    ) -> Result<(Value, Option<RawField>), Unreadable> {
        self.json.as_ref().map_err(Clone::clone)?.to_serialized(untouched).map_err(Unreadable::lasting)
    }
}

/// Returns the name of an object from the key of its entry.
fn name_of(entry: &Entry) -> &str {
    entry.key.as_str().rsplit('/').next().unwrap_or_default()
}

/// Conversion of stored entries into cached objects.
#[derive(Debug)]
pub(crate) struct ObjectProjection {
    registry: Arc<Registry>,
    encryption: Arc<Encryption>,
    own_writes: Arc<OwnWrites>,
}

impl ObjectProjection {
    pub(crate) fn new(
        registry: Arc<Registry>,
        encryption: Arc<Encryption>,
        own_writes: Arc<OwnWrites>,
    ) -> Self {
        Self { registry, encryption, own_writes }
    }
}

impl Projection<CachedObject> for ObjectProjection {
    fn project(&self, index: usize, entry: &Entry) -> CachedObject {
        if let Some(known) = self.own_writes.take(&entry.key, &entry.value, entry.modified) {
            return known;
        }
        match self.registry.stored().get(index) {
            Some(resource) => CachedObject::of_entry(&self.registry, resource, &self.encryption, entry),
            None => CachedObject::damaged("", format!("{} belongs to no kind", entry.key), entry.modified),
        }
    }

    fn deleted(&self, last: &CachedObject, revision: Revision) -> CachedObject {
        last.at(revision)
    }

    fn trim(&self, item: &CachedObject) {
        item.trim();
    }

    fn size(&self, item: &CachedObject) -> ItemSize {
        item.size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object() -> CachedObject {
        let json = Bytes::from_static(br#"{"metadata":{"name":"a"}}"#);
        let object_json = ObjectJson::of_json(json, 12..24, 23);
        CachedObject::of_json(&object_json, Revision::new(1), Selectable::default())
    }

    #[test]
    fn an_encoded_event_is_kept_while_it_is_requested() {
        let object = object();
        let first = object.frame(EventKind::Added);
        let shown = r#"{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"1"}}}"#;
        assert_eq!(first, format!("{shown}\n"));
        object.trim();
        let second = object.frame(EventKind::Added);
        assert_eq!(first.as_ptr(), second.as_ptr(), "it was asked for a moment ago");
        object.trim();
        object.trim();
        assert!(object.memo().is_none());
        assert_eq!(object.frame(EventKind::Added), first);
    }

    #[test]
    fn the_size_of_an_object_grows_with_its_encoded_events() {
        let object = object();
        let size = object.size();
        assert_eq!((size.item, size.repeats), (size_of::<CachedObject>() + 47, 0));
        let frame = object.frame(EventKind::Modified);
        let encoded = object.size();
        assert_eq!((encoded.item, encoded.repeats), (size.item, size_of::<Memo>() + frame.len()));
    }
}
