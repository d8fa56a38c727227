//! JSON of an object in the cache, with shared field sets.
//!
//! The sets in `managedFields` are nearly half of an object. Objects that the same programs created from the same
//! template have the same sets. Each such set is in memory once.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use ahash::RandomState;
use apiserver_structured_merge::{SET_FIELD, serialize_sets};
use memchr::{memchr2, memmem};
use serde_json::{Value, json};

use super::raw_field::{self, RawField};

/// Prefix of each set.
const NAME: &[u8] = b"\"fieldsV1\":";

/// Placeholder of a set in [`CachedJson::brief`].
const EMPTY: &[u8] = b"{}";

/// Shortest set that is shared. Sharing a shorter one costs more than a copy. Unit: bytes.
const SHORTEST: usize = 96;

/// JSON that shares some sets with other objects.
#[derive(Debug)]
pub struct CachedJson {
    /// The JSON, with placeholders for the shared sets.
    brief: Box<[u8]>,
    /// Range of the value of `metadata` in `brief`.
    metadata: Range<usize>,
    /// The shared sets with the offsets of their placeholders, in order.
    sets: Box<[(usize, Arc<[u8]>)]>,
    /// Bytes of the shared sets, without those of the placeholders.
    set_bytes: usize,
}

impl CachedJson {
    /// Creates it from JSON in which the value of `metadata` has this range.
    pub(crate) fn new(json: &[u8], metadata: Range<usize>) -> Self {
        let slots = slots(json, &metadata);
        Self::with_slots(json, metadata, slots)
    }

    /// Creates it from JSON with sets at these ranges.
    pub(crate) fn with_sets(json: &[u8], metadata: Range<usize>, sets: &[Range<usize>]) -> Self {
        let is_long = |set: &&Range<usize>| set.len() >= SHORTEST;
        Self::with_slots(json, metadata, sets.iter().filter(is_long).cloned().collect())
    }

    fn with_slots(json: &[u8], metadata: Range<usize>, slots: Vec<Range<usize>>) -> Self {
        let set_bytes: usize = slots.iter().map(|slot| slot.len() - EMPTY.len()).sum();
        let mut brief = Vec::with_capacity(json.len() - set_bytes);
        let mut sets = Vec::with_capacity(slots.len());
        let mut done = 0;
        for slot in slots {
            brief.extend_from_slice(json.get(done..slot.start).unwrap_or_default());
            sets.push((brief.len(), SETS.shared(json.get(slot.clone()).unwrap_or_default())));
            brief.extend_from_slice(EMPTY);
            done = slot.end;
        }
        brief.extend_from_slice(json.get(done..).unwrap_or_default());
        let metadata = metadata.start..metadata.end.saturating_sub(set_bytes);
        Self { brief: brief.into_boxed_slice(), metadata, sets: sets.into_boxed_slice(), set_bytes }
    }

    /// Returns the object without the shared sets in `managedFields`, which are empty. Everything else is there.
    pub(crate) fn brief(&self) -> &[u8] {
        &self.brief
    }

    /// Returns the length in bytes.
    pub fn size(&self) -> usize {
        self.brief.len() + self.set_bytes
    }

    /// Returns the memory outside of the structure that no other object shares, in bytes.
    pub(crate) fn own_bytes(&self) -> usize {
        self.brief.len() + size_of_val(&*self.sets)
    }

    /// Appends the whole JSON.
    pub fn write(&self, to: &mut Vec<u8>) {
        self.write_range(0, self.brief.len(), to);
    }

    /// Returns the whole JSON.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut json = Vec::with_capacity(self.size());
        self.write(&mut json);
        json
    }

    /// Returns the object with serialized field managers: the shared sets are copied as text. The untouched field is
    /// not decoded, and is returned beside the object.
    ///
    /// # Errors
    /// Returns the error of invalid JSON.
    pub(crate) fn to_serialized(
        &self,
        untouched: Option<&'static str>,
    ) -> Result<(Value, Option<RawField>), String> {
        let serialized = |json: &[u8]| {
            let (mut object, untouched) = match untouched {
                None => (parse(json)?, None),
                Some(field) => raw_field::parse(json, field)?,
            };
            serialize_sets(&mut object);
            Ok::<_, String>((object, untouched))
        };
        let (mut object, untouched) = serialized(&self.brief)?;
        if self.fill(&mut object).is_none() {
            // A manager has an empty set, so it is unclear which placeholder belongs to which set.
            return serialized(&self.to_vec());
        }
        Ok((object, untouched))
    }

    /// Returns the value of `metadata` with serialized field managers, or null if there is none. Nothing else is
    /// decoded.
    ///
    /// # Errors
    /// Returns the error of invalid JSON.
    pub(crate) fn to_serialized_metadata(&self) -> Result<Value, String> {
        let serialized = |metadata: &[u8]| {
            let mut object = json!({"metadata": parse(metadata)?});
            serialize_sets(&mut object);
            Ok::<_, String>(object)
        };
        let brief = self.brief.get(self.metadata.clone()).filter(|brief| !brief.is_empty());
        let mut object = serialized(brief.unwrap_or(NULL))?;
        if self.fill(&mut object).is_none() {
            let mut whole = Vec::with_capacity(self.metadata_size());
            self.write_metadata(&mut whole);
            object = serialized(&whole)?;
        }
        Ok(object["metadata"].take())
    }

    /// Puts the shared sets into serialized field managers. Returns `None` if there are more or fewer slots than sets.
    fn fill(&self, serialized: &mut Value) -> Option<()> {
        let entries = serialized.get_mut("metadata").and_then(|metadata| metadata.get_mut("managedFields"));
        let entries = entries.and_then(Value::as_array_mut).into_iter().flatten();
        let sets = entries.filter_map(|entry| entry.get_mut(SET_FIELD));
        let mut slots = sets.filter(|set| set.as_str().is_some_and(|text| text.as_bytes() == EMPTY));
        for (_, set) in &self.sets {
            *slots.next()? = Value::String(std::str::from_utf8(set).ok()?.to_owned());
        }
        slots.next().is_none().then_some(())
    }

    /// Returns the length of the value of `metadata`, in bytes.
    pub fn metadata_size(&self) -> usize {
        if self.metadata.is_empty() { NULL.len() } else { self.metadata.len() + self.set_bytes }
    }

    /// Appends the value of `metadata`.
    pub fn write_metadata(&self, to: &mut Vec<u8>) {
        if self.metadata.is_empty() {
            to.extend_from_slice(NULL);
        } else {
            self.write_range(self.metadata.start, self.metadata.end, to);
        }
    }

    /// Returns the range of the value of `metadata` in the whole JSON.
    pub(crate) fn metadata(&self) -> Range<usize> {
        self.metadata.start..self.metadata.end + self.set_bytes
    }

    /// Appends a range of the brief form that contains `metadata`, and so all placeholders, with the sets.
    fn write_range(&self, start: usize, end: usize, to: &mut Vec<u8>) {
        let mut done = start;
        for (at, set) in &self.sets {
            to.extend_from_slice(self.brief.get(done..*at).unwrap_or_default());
            to.extend_from_slice(set);
            done = at + EMPTY.len();
        }
        to.extend_from_slice(self.brief.get(done..end).unwrap_or_default());
    }
}

/// Parses JSON.
pub(crate) fn parse(json: &[u8]) -> Result<Value, String> {
    // Checks the encoding once, and not for each name and value.
    let json = std::str::from_utf8(json).map_err(|error| error.to_string())?;
    serde_json::from_str(json).map_err(|error| error.to_string())
}

/// Placeholder of absent metadata.
const NULL: &[u8] = b"null";

/// Returns the ranges of the sets that are long enough to share. Values of labels and annotations are texts, so an
/// object of this name is a set.
fn slots(json: &[u8], metadata: &Range<usize>) -> Vec<Range<usize>> {
    let mut slots = Vec::new();
    let mut at = metadata.start;
    while let Some(rest) = json.get(at..metadata.end) {
        let Some(found) = memmem::find(rest, NAME) else { break };
        let start = at + found + NAME.len();
        let length = json.get(start..metadata.end).and_then(object).unwrap_or_default();
        if length >= SHORTEST {
            slots.push(start..start + length);
        }
        at = start + length;
    }
    slots
}

/// Returns the length of the JSON object at the start of `text`.
fn object(text: &[u8]) -> Option<usize> {
    let (mut depth, mut at) = (0_usize, 0);
    loop {
        match *text.get(at)? {
            b'{' => depth += 1,
            _ if depth == 0 => return None,
            b'"' => at = end_of_text(text, at + 1)?,
            b'}' if depth == 1 => return Some(at + 1),
            b'}' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
}

/// Returns the offset of the quotation mark that ends the text at `from`.
fn end_of_text(text: &[u8], mut from: usize) -> Option<usize> {
    loop {
        let found = from + memchr2(b'"', b'\\', text.get(from..)?)?;
        if text.get(found) == Some(&b'"') {
            return Some(found);
        }
        from = found + 2;
    }
}

/// The sets of all objects of this process.
static SETS: LazyLock<Sets> = LazyLock::new(Sets::default);

/// Sets that objects have, and some that no object has any more.
#[derive(Debug, Default)]
struct Sets(Mutex<(Shared, usize)>);

/// The hash takes a tenth of the time of the standard one. It has a seed per process, because clients choose the
/// content of the sets.
type Shared = HashSet<Arc<[u8]>, RandomState>;

/// Minimum number of sets at which unused ones are removed.
const CLEANUP_MIN: usize = 1024;

impl Sets {
    fn shared(&self, set: &[u8]) -> Arc<[u8]> {
        let mut guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (all, limit) = &mut *guard;
        if let Some(known) = all.get(set) {
            return Arc::clone(known);
        }
        if all.len() >= (*limit).max(CLEANUP_MIN) {
            all.retain(|set| Arc::strong_count(set) > 1);
            all.shrink_to(CLEANUP_MIN);
            // The number must double before the next removal.
            *limit = 2 * all.len();
        }
        let new: Arc<[u8]> = Arc::from(set);
        all.insert(Arc::clone(&new));
        new
    }

    fn bytes(&self) -> usize {
        let guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        guard.0.iter().map(|set| set.len()).sum()
    }
}

/// Returns the length of all shared sets of this process, in bytes.
pub(crate) fn shared_bytes() -> usize {
    SETS.bytes()
}

#[cfg(test)]
mod tests {
    use apiserver_structured_merge::parse_sets;
    use proptest::prelude::*;

    use super::*;

    fn cached(object: &Value) -> (String, CachedJson) {
        let json = object.to_string();
        let metadata = object["metadata"].to_string();
        let start = json.find(&metadata).unwrap();
        let cached = CachedJson::new(json.as_bytes(), start..start + metadata.len());
        (json, cached)
    }

    fn entry(keys: &[String]) -> Value {
        let fields: serde_json::Map<String, Value> =
            keys.iter().map(|key| (format!("f:{key}"), json!({"f:a": {}, key: {}}))).collect();
        json!({"fieldsType": "FieldsV1", "fieldsV1": fields, "manager": "m"})
    }

    proptest! {
        #[test]
        fn a_cached_object_is_read_back_unchanged(
            entries in prop::collection::vec(prop::collection::vec("[a-z{}\"\\\\]{1,12}", 0..9), 0..4),
            label in "[a-z\"{}:]{0,20}",
        ) {
            let managers: Vec<Value> = entries.iter().map(|keys| entry(keys)).collect();
            let object = json!({"kind": "A", "metadata": {"annotations": {"fieldsV1": label},
                "managedFields": managers, "name": "a"}, "spec": {"fieldsV1": {"a": 1}}});
            let (json, cached) = cached(&object);
            prop_assert_eq!(&String::from_utf8(cached.to_vec()).unwrap(), &json);
            prop_assert_eq!(cached.size(), json.len());
            let mut metadata = Vec::new();
            cached.write_metadata(&mut metadata);
            prop_assert_eq!(metadata.len(), cached.metadata_size());
            prop_assert_eq!(&json.as_bytes()[cached.metadata()], &metadata[..]);
            prop_assert_eq!(String::from_utf8(metadata).unwrap(), object["metadata"].to_string());
            let (mut serialized, _) = cached.to_serialized(None).unwrap();
            let mut own_writes = object.clone();
            serialize_sets(&mut own_writes);
            prop_assert_eq!(&serialized, &own_writes);
            prop_assert_eq!(&cached.to_serialized_metadata().unwrap(), &serialized["metadata"]);
            parse_sets(&mut serialized);
            prop_assert_eq!(&serialized, &object);
            let brief: Value = serde_json::from_slice(cached.brief()).unwrap();
            prop_assert_eq!(&brief["spec"], &object["spec"]);
            prop_assert_eq!(&brief["metadata"]["annotations"], &object["metadata"]["annotations"]);
        }
    }

    #[test]
    fn equal_field_sets_are_shared() {
        let keys: Vec<String> = (0..20).map(|number| format!("field-{number}")).collect();
        let object = |name: &str| json!({"metadata": {"managedFields": [entry(&keys)], "name": name}});
        let (one, other) = (cached(&object("one")).1, cached(&object("other")).1);
        assert!(Arc::ptr_eq(&one.sets[0].1, &other.sets[0].1));
        assert!(one.brief().len() < 150, "{}", one.brief().len());
    }

    #[test]
    fn unused_field_sets_are_dropped() {
        let sets = Sets::default();
        let kept = sets.shared(b"kept");
        assert_eq!(sets.bytes(), 4);
        (0..10 * CLEANUP_MIN).for_each(|number| drop(sets.shared(number.to_string().as_bytes())));
        assert!(sets.0.lock().unwrap().0.len() <= CLEANUP_MIN + 1);
        assert!(Arc::ptr_eq(&kept, &sets.shared(b"kept")));
    }

    #[test]
    fn an_object_without_metadata_has_null_metadata() {
        let cached = CachedJson::new(b"{}", 0..0);
        let mut metadata = Vec::new();
        cached.write_metadata(&mut metadata);
        assert_eq!(
            (cached.to_vec(), metadata, cached.metadata_size()),
            (b"{}".to_vec(), b"null".to_vec(), 4)
        );
        assert_eq!(cached.to_serialized_metadata(), Ok(Value::Null));
    }
}
