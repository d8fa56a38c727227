//! JSON of an object, encoded once for the store, the response and the cache.
//!
//! The stored JSON has no revision, because the store assigns it. So the JSON is encoded without it, and the offset of
//! the revision is recorded. The response and the cache have the same bytes, with the revision inserted.

use std::ops::Range;

use apiserver_structured_merge::SET_FIELD;
use bytes::Bytes;
use serde_json::{Map, Value};
use storage_contract::Revision;

use super::raw_field::RawField;

/// Name of the inserted field.
pub(crate) const REVISION: &str = "resourceVersion";

/// Initial capacity, so that few buffers grow: a Machine with its status and its field managers has about 5 KB.
const TYPICAL_SIZE: usize = 8 * 1024;

/// Capacity for `"resourceVersion":"…"` with the largest revision, and a comma.
const LONGEST_REVISION: usize = 48;

/// The JSON of an object without its revision.
#[derive(Debug, Clone)]
pub(crate) struct ObjectJson {
    pub(crate) json: Bytes,
    /// Range of the value of `metadata`.
    metadata: Range<usize>,
    /// Offset of the revision; none without `metadata`.
    at: Option<usize>,
    /// Ranges of the sets of its field managers, all before the revision; none if they were not recorded.
    sets: Option<Vec<Range<usize>>>,
}

impl ObjectJson {
    /// Encodes an object.
    pub(crate) fn of(object: &Value) -> serde_json::Result<Self> {
        Self::encode(object, None, false)
    }

    /// Encodes an object with serialized field managers, and with its untouched field. The result is the same as with
    /// parsed ones.
    pub(crate) fn of_serialized(object: &Value, untouched: Option<&RawField>) -> serde_json::Result<Self> {
        Self::encode(object, untouched, true)
    }

    fn encode(object: &Value, untouched: Option<&RawField>, is_serialized: bool) -> serde_json::Result<Self> {
        let sets = is_serialized.then(Vec::new);
        let mut object_json =
            Writer { json: Vec::with_capacity(TYPICAL_SIZE), metadata: 0..0, at: None, sets };
        match object {
            Value::Object(fields) => object_json.write_object(fields, untouched)?,
            _ => serde_json::to_writer(&mut object_json.json, object)?,
        }
        let Writer { json, metadata, at, sets } = object_json;
        // The store holds the buffer briefly, and the cache for long, so it has no spare capacity.
        Ok(Self { json: Bytes::from(json.into_boxed_slice()), metadata, at, sets })
    }

    /// Creates it from encoded JSON with known offsets.
    pub(crate) fn of_json(json: Bytes, metadata: Range<usize>, at: usize) -> Self {
        Self { json, metadata, at: Some(at), sets: None }
    }

    /// Returns the ranges of the sets, which are the same with and without a revision, if they were recorded.
    pub(crate) fn sets(&self) -> Option<&[Range<usize>]> {
        self.sets.as_deref()
    }

    /// Returns the JSON with this revision, and the range of the value of `metadata` in it.
    pub(crate) fn at(&self, revision: Revision) -> (Bytes, Range<usize>) {
        let Some((before, after)) = self.at.and_then(|at| self.json.split_at_checked(at)) else {
            return (self.json.clone(), self.metadata.clone());
        };
        let (first, last) = (before.ends_with(b"{"), after.starts_with(b"}"));
        let mut json = Vec::with_capacity(self.json.len() + LONGEST_REVISION);
        json.extend_from_slice(before);
        if !first {
            json.push(b',');
        }
        // The formatting machinery would take longer than the copies.
        let number = revision.number().to_string();
        ["\"", REVISION, "\":\"", &number, "\""]
            .iter()
            .for_each(|part| json.extend_from_slice(part.as_bytes()));
        if first && !last {
            json.push(b',');
        }
        json.extend_from_slice(after);
        let longer = json.len() - self.json.len();
        let metadata = self.metadata.start..self.metadata.end + longer;
        (Bytes::from(json.into_boxed_slice()), metadata)
    }
}

/// Replaces the revision in JSON with a known range of `metadata`.
pub(crate) fn with_revision(
    json: Vec<u8>,
    metadata: Range<usize>,
    revision: Revision,
) -> (Vec<u8>, Range<usize>) {
    let parts = revision_range(&json, &metadata)
        .and_then(|range| Some((json.get(..range.start)?, json.get(range.end..)?)));
    let Some((before, after)) = parts else { return (json, metadata) };
    let with_revision = [before, revision.to_string().as_bytes(), after].concat();
    // The JSON after `metadata` has the same length.
    let end = with_revision.len().saturating_sub(json.len().saturating_sub(metadata.end));
    (with_revision, metadata.start..end)
}

/// Returns the range of the revision in JSON that this module encoded. No later field of `metadata` is an object, so it
/// is the last field of this name.
fn revision_range(json: &[u8], metadata: &Range<usize>) -> Option<Range<usize>> {
    let name = format!("\"{REVISION}\":\"");
    let fields = json.get(metadata.clone())?;
    let start =
        metadata.start + fields.windows(name.len()).rposition(|part| part == name.as_bytes())? + name.len();
    let length = json.get(start..metadata.end)?.iter().position(|byte| *byte == b'"')?;
    Some(start..start + length)
}

/// Writer of an object's first two levels, which records offsets.
struct Writer {
    json: Vec<u8>,
    metadata: Range<usize>,
    at: Option<usize>,
    /// Ranges of the sets in `managedFields`, if those are text.
    sets: Option<Vec<Range<usize>>>,
}

impl Writer {
    fn write_object(
        &mut self,
        fields: &Map<String, Value>,
        mut untouched: Option<&RawField>,
    ) -> serde_json::Result<()> {
        self.json.push(b'{');
        let mut is_first = true;
        for (name, value) in fields {
            // Fields are sorted.
            if let Some(untouched) = untouched.take_if(|untouched| name.as_str() > untouched.field) {
                self.write_untouched(is_first, untouched)?;
                is_first = false;
            }
            self.write_name(is_first, name)?;
            is_first = false;
            let start = self.json.len();
            match value {
                Value::Object(fields) if name == "metadata" => self.write_metadata(fields)?,
                _ => serde_json::to_writer(&mut self.json, value)?,
            }
            if name == "metadata" {
                self.metadata = start..self.json.len();
            }
        }
        if let Some(untouched) = untouched {
            self.write_untouched(is_first, untouched)?;
        }
        self.json.push(b'}');
        Ok(())
    }

    /// Writes the field that was not decoded.
    fn write_untouched(&mut self, is_first: bool, untouched: &RawField) -> serde_json::Result<()> {
        self.write_name(is_first, untouched.field)?;
        self.json.extend_from_slice(untouched.json.get().as_bytes());
        Ok(())
    }

    fn write_metadata(&mut self, fields: &Map<String, Value>) -> serde_json::Result<()> {
        self.json.push(b'{');
        let mut is_first = true;
        for (name, value) in fields.iter().filter(|(name, _)| *name != REVISION) {
            // Fields are sorted.
            if self.at.is_none() && name.as_str() > REVISION {
                self.at = Some(self.json.len());
            }
            self.write_name(is_first, name)?;
            is_first = false;
            match value {
                Value::Array(entries) if self.sets.is_some() && name == "managedFields" => {
                    self.write_managers(entries)?
                }
                _ => serde_json::to_writer(&mut self.json, value)?,
            }
        }
        self.at.get_or_insert(self.json.len());
        self.json.push(b'}');
        Ok(())
    }

    fn write_managers(&mut self, entries: &[Value]) -> serde_json::Result<()> {
        self.json.push(b'[');
        for (index, entry) in entries.iter().enumerate() {
            if index > 0 {
                self.json.push(b',');
            }
            match entry {
                Value::Object(fields) => self.write_manager(fields)?,
                _ => serde_json::to_writer(&mut self.json, entry)?,
            }
        }
        self.json.push(b']');
        Ok(())
    }

    fn write_manager(&mut self, fields: &Map<String, Value>) -> serde_json::Result<()> {
        self.json.push(b'{');
        for (index, (name, value)) in fields.iter().enumerate() {
            self.write_name(index == 0, name)?;
            match value {
                Value::String(set) if name == SET_FIELD => {
                    let start = self.json.len();
                    self.json.extend_from_slice(set.as_bytes());
                    self.sets.get_or_insert_default().push(start..self.json.len());
                }
                _ => serde_json::to_writer(&mut self.json, value)?,
            }
        }
        self.json.push(b'}');
        Ok(())
    }

    fn write_name(&mut self, is_first: bool, name: &str) -> serde_json::Result<()> {
        if !is_first {
            self.json.push(b',');
        }
        serde_json::to_writer(&mut self.json, name)?;
        self.json.push(b':');
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use apiserver_structured_merge::serialize_sets;
    use serde_json::json;

    use super::*;

    /// For any metadata, the revision is where it would be if it had been encoded with the other fields.
    #[test]
    fn the_revision_is_inserted_in_field_order() {
        let metadatas = [
            json!({}),
            json!({"name": "a"}),
            json!({"annotations": {"resourceVersion": "17"}, "labels": {"resourceVersion": "17"}, "selfLink": "/a"}),
            json!({"managedFields": [{"fieldsV1": {"f:resourceVersion": {}}}], "uid": "\"resourceVersion\":\"17\""}),
            json!({"uid": "u"}),
            json!({"name": "a", "ownerReferences": [{"uid": "}{"}], "uid": "u", "resourceVersion": "3"}),
        ];
        for metadata in metadatas {
            let mut object =
                json!({"kind": "A", "metadata": metadata, "spec": {"a": [1, "\"resourceVersion\""]}});
            let (json, range) = ObjectJson::of(&object).unwrap().at(Revision::new(17));
            object["metadata"]["resourceVersion"] = json!("17");
            assert_eq!(String::from_utf8_lossy(&json), object.to_string());
            assert_eq!(json[range.clone()], object["metadata"].to_string().into_bytes());
            for later in [18, 10_000_000] {
                let (json, range) = with_revision(json.to_vec(), range.clone(), Revision::new(later));
                object["metadata"]["resourceVersion"] = json!(later.to_string());
                assert_eq!(String::from_utf8_lossy(&json), object.to_string());
                assert_eq!(json[range], object["metadata"].to_string().into_bytes());
            }
        }
    }

    /// Returns the sets of serialized field managers.
    fn owned_by(serialized: &Value) -> impl Iterator<Item = &str> {
        let managers = serialized["metadata"]["managedFields"].as_array().into_iter().flatten();
        managers.filter_map(|manager| manager.get(SET_FIELD)?.as_str())
    }

    #[test]
    fn packed_field_sets_are_written_unpacked() {
        let manager = |set: Value| json!({"fieldsType": "FieldsV1", "fieldsV1": set, "manager": "\"m"});
        for managers in [
            json!([]),
            json!([
                manager(json!({"f:a": {}, "f:\"b": {"v:\"}\"": {}}})),
                manager(json!({})),
                manager(json!(null)),
                {}
            ]),
            json!([3, null]),
            json!("managers"),
        ] {
            let object =
                json!({"kind": "A", "metadata": {"managedFields": managers, "name": "a", "uid": "u"}});
            let mut serialized = object.clone();
            serialize_sets(&mut serialized);
            let (json, range) = ObjectJson::of_serialized(&serialized, None).unwrap().at(Revision::new(17));
            assert_eq!((json, range), ObjectJson::of(&object).unwrap().at(Revision::new(17)));
            let object_json = ObjectJson::of_serialized(&serialized, None).unwrap();
            let json = object_json.at(Revision::new(17)).0;
            let sets: Vec<&[u8]> =
                object_json.sets().unwrap().iter().map(|range| &json[range.clone()]).collect();
            let written: Vec<String> = owned_by(&serialized).map(str::to_owned).collect();
            assert_eq!(sets, written.iter().map(String::as_bytes).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_raw_field_is_written_in_field_order() {
        let status = json!({"b": [1, "}"], "a": null});
        let json = serde_json::value::to_raw_value(&status).unwrap();
        let untouched = RawField { field: "status", json };
        for rest in [
            json!({}),
            json!({"kind": "A", "metadata": {"name": "a"}}),
            json!({"type": "t"}),
            json!({"metadata": {"name": "a"}, "spec": 1, "statusses": 2, "zone": 3}),
        ] {
            let mut whole = rest.clone();
            whole["status"] = status.clone();
            let written = ObjectJson::of_serialized(&rest, Some(&untouched)).unwrap();
            assert_eq!(written.at(Revision::new(17)), ObjectJson::of(&whole).unwrap().at(Revision::new(17)));
        }
    }

    #[test]
    fn an_object_without_metadata_gets_no_revision() {
        for object in [json!({}), json!({"metadata": null}), json!({"spec": 1}), json!("text")] {
            let (json, _) = ObjectJson::of(&object).unwrap().at(Revision::new(17));
            assert_eq!(String::from_utf8_lossy(&json), object.to_string());
        }
    }
}
