//! An object's JSON, written once for the store, the answer and the cache.
//!
//! What is stored has no revision: that is given by the store. So the JSON is written without, and where the revision
//! belongs is remembered; the answer and what the cache holds are the same bytes with the revision put in.

use std::ops::Range;

use apiserver_structured_merge::SET_FIELD;
use bytes::Bytes;
use serde_json::{Map, Value};
use storage_contract::Revision;

use super::raw_field::RawField;

/// The field that is put in.
pub(crate) const REVISION: &str = "resourceVersion";

/// Room for most objects, so that few are moved while they grow: a Machine with its status and its owners has
/// about 5 KB.
const TYPICAL: usize = 8 * 1024;

/// Room for `"resourceVersion":"…"` with the largest revision, and a comma.
const LONGEST_REVISION: usize = 48;

/// The JSON of an object without its revision.
#[derive(Debug, Clone)]
pub(crate) struct ObjectJson {
    pub(crate) json: Bytes,
    /// Where in it the value of `metadata` stands.
    metadata: Range<usize>,
    /// Where the revision belongs; none if there is no `metadata` to have it.
    at: Option<usize>,
    /// Where the sets of its owners stand, all of them before the revision; none if that was not noted.
    sets: Option<Vec<Range<usize>>>,
}

impl ObjectJson {
    /// Writes an object.
    pub(crate) fn of(object: &Value) -> serde_json::Result<Self> {
        Self::written(object, None, false)
    }

    /// Writes an object with packed owners, as it is when these are not, and with what was left of it.
    pub(crate) fn of_packed(object: &Value, left: Option<&RawField>) -> serde_json::Result<Self> {
        Self::written(object, left, true)
    }

    fn written(object: &Value, left: Option<&RawField>, is_packed: bool) -> serde_json::Result<Self> {
        let sets = is_packed.then(Vec::new);
        let mut object_json = Writer { json: Vec::with_capacity(TYPICAL), metadata: 0..0, at: None, sets };
        match object {
            Value::Object(fields) => object_json.object(fields, left)?,
            _ => serde_json::to_writer(&mut object_json.json, object)?,
        }
        let Writer { json, metadata, at, sets } = object_json;
        // The store keeps it for a moment, and others for long: its buffer is as long as it is.
        Ok(Self { json: Bytes::from(json.into_boxed_slice()), metadata, at, sets })
    }

    /// Of JSON that was written before, where it is known what stands where.
    pub(crate) fn of_json(json: Bytes, metadata: Range<usize>, at: usize) -> Self {
        Self { json, metadata, at: Some(at), sets: None }
    }

    /// Where the sets of its owners stand with and without a revision, if that was noted.
    pub(crate) fn sets(&self) -> Option<&[Range<usize>]> {
        self.sets.as_deref()
    }

    /// The JSON with this revision, and where in it the value of `metadata` stands.
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
        // Without the machinery for formats, which takes longer than the copies around it.
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

/// JSON that has a revision, and knows where its `metadata` stands, with another revision.
pub(crate) fn moved(json: Vec<u8>, metadata: Range<usize>, revision: Revision) -> (Vec<u8>, Range<usize>) {
    let parts =
        place(&json, &metadata).and_then(|place| Some((json.get(..place.start)?, json.get(place.end..)?)));
    let Some((before, after)) = parts else { return (json, metadata) };
    let moved = [before, revision.to_string().as_bytes(), after].concat();
    // What stands after `metadata` is as long as it was.
    let end = moved.len().saturating_sub(json.len().saturating_sub(metadata.end));
    (moved, metadata.start..end)
}

/// Where in JSON as it is written here the revision stands. Of the fields of `metadata` none that come later has
/// fields itself, so it is the last that is called so.
fn place(json: &[u8], metadata: &Range<usize>) -> Option<Range<usize>> {
    let name = format!("\"{REVISION}\":\"");
    let fields = json.get(metadata.clone())?;
    let start =
        metadata.start + fields.windows(name.len()).rposition(|part| part == name.as_bytes())? + name.len();
    let length = json.get(start..metadata.end)?.iter().position(|byte| *byte == b'"')?;
    Some(start..start + length)
}

/// Writes an object's first two levels by itself, to know what stands where.
struct Writer {
    json: Vec<u8>,
    metadata: Range<usize>,
    at: Option<usize>,
    /// Where the sets of `managedFields` are, where they are text.
    sets: Option<Vec<Range<usize>>>,
}

impl Writer {
    fn object(&mut self, fields: &Map<String, Value>, mut left: Option<&RawField>) -> serde_json::Result<()> {
        self.json.push(b'{');
        let mut is_first = true;
        for (name, value) in fields {
            // Fields are sorted.
            if let Some(left) = left.take_if(|left| name.as_str() > left.field) {
                self.left(is_first, left)?;
                is_first = false;
            }
            self.name(is_first, name)?;
            is_first = false;
            let start = self.json.len();
            match value {
                Value::Object(fields) if name == "metadata" => self.metadata(fields)?,
                _ => serde_json::to_writer(&mut self.json, value)?,
            }
            if name == "metadata" {
                self.metadata = start..self.json.len();
            }
        }
        if let Some(left) = left {
            self.left(is_first, left)?;
        }
        self.json.push(b'}');
        Ok(())
    }

    /// Writes what was not decoded.
    fn left(&mut self, is_first: bool, left: &RawField) -> serde_json::Result<()> {
        self.name(is_first, left.field)?;
        self.json.extend_from_slice(left.json.get().as_bytes());
        Ok(())
    }

    fn metadata(&mut self, fields: &Map<String, Value>) -> serde_json::Result<()> {
        self.json.push(b'{');
        let mut is_first = true;
        for (name, value) in fields.iter().filter(|(name, _)| *name != REVISION) {
            // Fields are sorted.
            if self.at.is_none() && name.as_str() > REVISION {
                self.at = Some(self.json.len());
            }
            self.name(is_first, name)?;
            is_first = false;
            match value {
                Value::Array(entries) if self.sets.is_some() && name == "managedFields" => {
                    self.owners(entries)?
                }
                _ => serde_json::to_writer(&mut self.json, value)?,
            }
        }
        self.at.get_or_insert(self.json.len());
        self.json.push(b'}');
        Ok(())
    }

    fn owners(&mut self, entries: &[Value]) -> serde_json::Result<()> {
        self.json.push(b'[');
        for (index, entry) in entries.iter().enumerate() {
            if index > 0 {
                self.json.push(b',');
            }
            match entry {
                Value::Object(fields) => self.owner(fields)?,
                _ => serde_json::to_writer(&mut self.json, entry)?,
            }
        }
        self.json.push(b']');
        Ok(())
    }

    fn owner(&mut self, fields: &Map<String, Value>) -> serde_json::Result<()> {
        self.json.push(b'{');
        for (index, (name, value)) in fields.iter().enumerate() {
            self.name(index == 0, name)?;
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

    fn name(&mut self, is_first: bool, name: &str) -> serde_json::Result<()> {
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

    /// Whatever an object's metadata has, the revision stands where it would if it had been written with the rest.
    #[test]
    fn the_revision_is_put_where_it_belongs() {
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
            let (json, place) = ObjectJson::of(&object).unwrap().at(Revision::new(17));
            object["metadata"]["resourceVersion"] = json!("17");
            assert_eq!(String::from_utf8_lossy(&json), object.to_string());
            assert_eq!(json[place.clone()], object["metadata"].to_string().into_bytes());
            for later in [18, 10_000_000] {
                let (json, place) = moved(json.to_vec(), place.clone(), Revision::new(later));
                object["metadata"]["resourceVersion"] = json!(later.to_string());
                assert_eq!(String::from_utf8_lossy(&json), object.to_string());
                assert_eq!(json[place], object["metadata"].to_string().into_bytes());
            }
        }
    }

    /// The sets of packed owners.
    fn owned_by(packed: &Value) -> impl Iterator<Item = &str> {
        let owners = packed["metadata"]["managedFields"].as_array().into_iter().flatten();
        owners.filter_map(|owner| owner.get(SET_FIELD)?.as_str())
    }

    #[test]
    fn what_is_packed_is_written_as_it_was() {
        let owner = |set: Value| json!({"fieldsType": "FieldsV1", "fieldsV1": set, "manager": "\"m"});
        for owners in [
            json!([]),
            json!([
                owner(json!({"f:a": {}, "f:\"b": {"v:\"}\"": {}}})),
                owner(json!({})),
                owner(json!(null)),
                {}
            ]),
            json!([3, null]),
            json!("owners"),
        ] {
            let object = json!({"kind": "A", "metadata": {"managedFields": owners, "name": "a", "uid": "u"}});
            let mut packed = object.clone();
            serialize_sets(&mut packed);
            let (json, place) = ObjectJson::of_packed(&packed, None).unwrap().at(Revision::new(17));
            assert_eq!((json, place), ObjectJson::of(&object).unwrap().at(Revision::new(17)));
            let object_json = ObjectJson::of_packed(&packed, None).unwrap();
            let json = object_json.at(Revision::new(17)).0;
            let sets: Vec<&[u8]> =
                object_json.sets().unwrap().iter().map(|place| &json[place.clone()]).collect();
            let written: Vec<String> = owned_by(&packed).map(str::to_owned).collect();
            assert_eq!(sets, written.iter().map(String::as_bytes).collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_was_not_decoded_stands_where_it_would() {
        let status = json!({"b": [1, "}"], "a": null});
        let json = serde_json::value::to_raw_value(&status).unwrap();
        let left = RawField { field: "status", json };
        for rest in [
            json!({}),
            json!({"kind": "A", "metadata": {"name": "a"}}),
            json!({"type": "t"}),
            json!({"metadata": {"name": "a"}, "spec": 1, "statusses": 2, "zone": 3}),
        ] {
            let mut whole = rest.clone();
            whole["status"] = status.clone();
            let written = ObjectJson::of_packed(&rest, Some(&left)).unwrap();
            assert_eq!(written.at(Revision::new(17)), ObjectJson::of(&whole).unwrap().at(Revision::new(17)));
        }
    }

    #[test]
    fn what_has_no_metadata_has_no_revision() {
        for object in [json!({}), json!({"metadata": null}), json!({"spec": 1}), json!("text")] {
            let (json, _) = ObjectJson::of(&object).unwrap().at(Revision::new(17));
            assert_eq!(String::from_utf8_lossy(&json), object.to_string());
        }
    }
}
