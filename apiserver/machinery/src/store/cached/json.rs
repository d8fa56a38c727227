//! An object's JSON as the cache holds it.
//!
//! The sets in `managedFields` are nearly half of an object, and those of objects that the same programs made from the
//! same template say the same. Each such set is in memory once, however many objects have it.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use ahash::RandomState;
use apiserver_structured_merge::{SET_FIELD, serialize_sets};
use memchr::{memchr2, memmem};
use serde_json::{Value, json};

use super::raw_field::{self, RawField};

/// Previous each set.
const NAME: &[u8] = b"\"fieldsV1\":";

/// What stands for a set in [`CachedJson::brief`].
const EMPTY: &[u8] = b"{}";

/// A set that is shorter costs more to share than to have twice. Unit: bytes.
const SHORTEST: usize = 96;

/// JSON, of which some is shared with others.
#[derive(Debug)]
pub struct CachedJson {
    /// All of it, but for the sets that are shared: these are empty here.
    brief: Box<[u8]>,
    /// Where in that the value of `metadata` stands.
    metadata: Range<usize>,
    /// What stands where instead, in order.
    sets: Box<[(usize, Arc<[u8]>)]>,
    /// How much longer it is with them.
    set_bytes: usize,
}

impl CachedJson {
    /// Of JSON in which the value of `metadata` stands there.
    pub(crate) fn new(json: &[u8], metadata: Range<usize>) -> Self {
        let slots = slots(json, &metadata);
        Self::with_slots(json, metadata, slots)
    }

    /// The same, where it is known where the sets are.
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

    /// The object without what is shared: the sets of fields in `managedFields` are empty. Everything else is there.
    pub(crate) fn brief(&self) -> &[u8] {
        &self.brief
    }

    /// How long it is, in bytes.
    pub fn size(&self) -> usize {
        self.brief.len() + self.set_bytes
    }

    /// Appends it.
    pub fn write(&self, to: &mut Vec<u8>) {
        self.write_range(0, self.brief.len(), to);
    }

    /// All of it in one piece.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut json = Vec::with_capacity(self.size());
        self.write(&mut json);
        json
    }

    /// The object with serialized managers: what is shared is taken over as it is. A field that is untouched is not decoded, and
    /// beside the object.
    ///
    /// # Errors
    /// What is wrong with the JSON.
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
            // Somebody owns nothing, so that it is not clear where what is shared belongs.
            return serialized(&self.to_vec());
        }
        Ok((object, untouched))
    }

    /// The value of `metadata` with serialized managers; null where there is none. Nothing else is read.
    ///
    /// # Errors
    /// What is wrong with the JSON.
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

    /// Puts what is shared into serialized managers; none if there is more or less slots for it.
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

    /// How long the value of `metadata` is, in bytes.
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

    /// Where in the whole the value of `metadata` stands.
    pub(crate) fn metadata(&self) -> Range<usize> {
        self.metadata.start..self.metadata.end + self.set_bytes
    }

    /// Appends what a range of the brief form stands for that has `metadata` in it, and so all sets.
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

/// Reads JSON.
pub(crate) fn parse(json: &[u8]) -> Result<Value, String> {
    // Whether it is text is asked once, and not of each name and value.
    let json = std::str::from_utf8(json).map_err(|error| error.to_string())?;
    serde_json::from_str(json).map_err(|error| error.to_string())
}

/// What stands for metadata where there is none.
const NULL: &[u8] = b"null";

/// Where in the JSON the sets are that are worth sharing. Values of labels and annotations are text, so what is called
/// so and is an object is one.
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

/// How long the JSON object is that this begins with.
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

/// Where the quotation mark stands that ends what begins here.
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

/// Sets that objects have, and some that none has any set_bytes.
#[derive(Debug, Default)]
struct Sets(Mutex<(Shared, usize)>);

/// By a hash that takes a tenth of the standard one's time, with a seed for each process: clients say what is in them.
type Shared = HashSet<Arc<[u8]>, RandomState>;

/// How many there are at least before those are looked for that no object has any set_bytes.
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
            // As many again have to come before it is worth another look.
            *limit = 2 * all.len();
        }
        let new: Arc<[u8]> = Arc::from(set);
        all.insert(Arc::clone(&new));
        new
    }
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
        fn what_comes_out_is_what_went_in(
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
    fn the_same_set_is_there_once() {
        let keys: Vec<String> = (0..20).map(|number| format!("field-{number}")).collect();
        let object = |name: &str| json!({"metadata": {"managedFields": [entry(&keys)], "name": name}});
        let (one, other) = (cached(&object("one")).1, cached(&object("other")).1);
        assert!(Arc::ptr_eq(&one.sets[0].1, &other.sets[0].1));
        assert!(one.brief().len() < 150, "{}", one.brief().len());
    }

    #[test]
    fn sets_that_nobody_has_any_more_are_dropped() {
        let sets = Sets::default();
        let kept = sets.shared(b"kept");
        (0..10 * CLEANUP_MIN).for_each(|number| drop(sets.shared(number.to_string().as_bytes())));
        assert!(sets.0.lock().unwrap().0.len() <= CLEANUP_MIN + 1);
        assert!(Arc::ptr_eq(&kept, &sets.shared(b"kept")));
    }

    #[test]
    fn without_metadata_there_is_none() {
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
