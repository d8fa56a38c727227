//! Fast path from a stored object to a cached one, without a tree.
//!
//! An object that this server stored mostly is what it would show: only the revision and the fields for selectors are
//! missing. To verify that takes one pass over the bytes, a fifth of the cost of a tree. It matters when a hundred
//! thousand objects are read at a start, and for all writes of other replicas.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use memchr::memmem;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;
use storage_contract::Revision;

use super::object_json::{ObjectJson, REVISION};
use super::selectable::Selectable;
use crate::resource::Resource;
use crate::store::CachedObject;
use apiserver_schema::Schema;
use apiserver_schema::completeness::{Filled, Text};

/// Reads an object. Returns `None` unless it is in the version that is stored now, with no defaults to fill in.
pub(crate) fn read(resource: &Resource, plain: &Bytes, revision: Revision) -> Option<CachedObject> {
    // The values of such fields may be anywhere in the object.
    if !resource.selectable.is_empty() {
        return None;
    }
    let json = std::str::from_utf8(plain).ok()?;
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let root = Root { schema: &resource.schema, api_version: &resource.api_version(), json };
    let Metadata { labels, name, namespace, metadata_at, revision_at } =
        root.deserialize(&mut deserializer).ok()?;
    deserializer.end().ok()?;
    let object_json = ObjectJson::of_json(plain.clone(), metadata_at, revision_at);
    let selectable = Selectable::of_parts(&labels, &name.0, &namespace.0);
    Some(CachedObject::of_json(&object_json, revision, selectable))
}

/// Reads an object for its metadata, and checks that there is nothing to fill in.
struct Root<'a> {
    schema: &'a Schema,
    api_version: &'a str,
    /// The JSON of the object.
    json: &'a str,
}

impl<'de> DeserializeSeed<'de> for Root<'_> {
    type Value = Metadata<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Metadata<'de>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Root<'_> {
    type Value = Metadata<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object of the version that is stored")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Metadata<'de>, A::Error> {
        let (mut metadata, mut is_of_version) = (None, false);
        let mut missing = self.schema.missing();
        while let Some(Text(name)) = fields.next_key()? {
            missing.found(&name);
            match &*name {
                "metadata" => {
                    let schema = self.schema.field("metadata");
                    metadata = Some(fields.next_value_seed(MetadataOf { schema, json: self.json })?);
                }
                "apiVersion" => is_of_version = fields.next_value::<Text<'_>>()?.0 == self.api_version,
                name => fields.next_value_seed(Filled(self.schema.field(name)))?,
            }
        }
        metadata
            .filter(|_| is_of_version && missing.is_none())
            .ok_or_else(|| A::Error::custom("it is not as it would be"))
    }
}

/// The parts of `metadata` that the cache needs.
struct Metadata<'de> {
    labels: BTreeMap<String, String>,
    name: Text<'de>,
    namespace: Text<'de>,
    /// Range of its value in the object's JSON.
    metadata_at: Range<usize>,
    /// Offset in that JSON at which the revision belongs.
    revision_at: usize,
}

/// Reads `metadata`.
struct MetadataOf<'a> {
    schema: Option<&'a Schema>,
    /// The JSON of the object.
    json: &'a str,
}

impl MetadataOf<'_> {
    /// Returns the offset of a part in the object's JSON.
    fn offset_of(&self, part: &str) -> usize {
        part.as_ptr().addr().wrapping_sub(self.json.as_ptr().addr())
    }

    /// Returns true if the value of a field has nothing to fill in.
    fn is_filled_in(&self, field: &str, text: &str) -> bool {
        // Field managers are half of an object. They have no defaults, and without a null they are as this server
        // writes them.
        if field == MANAGED_FIELDS {
            return memmem::find(text.as_bytes(), b"null").is_none();
        }
        self.schema.and_then(|schema| schema.field(field)).is_none_or(|schema| schema.is_filled_in(text))
    }
}

const MANAGED_FIELDS: &str = "managedFields";

impl<'de> DeserializeSeed<'de> for MetadataOf<'_> {
    type Value = Metadata<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Metadata<'de>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for MetadataOf<'_> {
    type Value = Metadata<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("metadata without a revision")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Metadata<'de>, A::Error> {
        let empty = || Text(Cow::Borrowed(""));
        let (mut labels, mut name, mut namespace) = (BTreeMap::new(), empty(), empty());
        let (mut metadata_at, mut revision_at) = (0..0, None);
        while let Some(Text(field)) = fields.next_key()? {
            let value: &'de RawValue = fields.next_value()?;
            let text = value.get();
            if metadata_at.end == 0 {
                metadata_at.start = self.offset_of(&field).wrapping_sub(OPENING.len());
            }
            metadata_at.end = self.offset_of(text) + text.len();
            if *field == *REVISION || !self.is_filled_in(&field, text) {
                return Err(A::Error::custom("it is not as it would be"));
            }
            let read = match &*field {
                "labels" => serde_json::from_str(text).map(|read| labels = read),
                "name" => serde_json::from_str(text).map(|read| name = read),
                "namespace" => serde_json::from_str(text).map(|read| namespace = read),
                _ => Ok(()),
            };
            read.map_err(A::Error::custom)?;
            // Fields are sorted when they are written. In unsorted JSON, any offset will do.
            if *field < *REVISION {
                revision_at = Some(metadata_at.end);
            }
        }
        let revision_at = revision_at.unwrap_or(metadata_at.start + 1);
        metadata_at.end += 1;
        let (opens, follows) = (self.json.get(metadata_at.clone()), self.json.get(revision_at..));
        // Another program wrote it, with blanks or escaped names, or it is empty.
        let is_ours = opens.is_some_and(|json| json.starts_with(OPENING) && json.ends_with('}'))
            && follows.is_some_and(|json| json.starts_with([',', '}', '"']));
        if !is_ours {
            return Err(A::Error::custom("it is not as this server writes it"));
        }
        Ok(Metadata { labels, name, namespace, metadata_at, revision_at })
    }
}

/// Start of an object with fields.
const OPENING: &str = "{\"";

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::resource::tests::gadget;
    use crate::selectors::{FieldSelector, LabelSelector};

    fn fast(text: &str) -> Option<CachedObject> {
        read(&gadget(), &Bytes::from(text.to_owned()), Revision::new(17))
    }

    /// For any metadata, the result is the same as the one through a tree.
    #[test]
    fn the_fast_path_returns_the_same_as_decoding() {
        let metadatas = [
            json!({"name": "a"}),
            json!({"uid": "u"}),
            json!({"managedFields": [{"manager": "m", "fieldsV1": {"f:a": {"k:}\"": {}}}}], "name": "a", "uid": "u"}),
            json!({"labels": {"a": "b", "quo\"ted": "c"}, "name": "a", "namespace": "n", "ownerReferences": [{"uid": "}{"}], "uid": "u"}),
        ];
        for metadata in metadatas {
            let object = json!({"apiVersion": "toys.example.com/v1", "kind": "Gadget", "metadata": metadata,
                "spec": {"colour": "red", "any": [1, 1.5, null, "\"resourceVersion\""]}});
            let decoded = CachedObject::new(&gadget(), &object, Revision::new(17));
            let fast = fast(&object.to_string()).unwrap();
            let shown = |object: &CachedObject| {
                let (json, mut metadata) = (object.json.as_ref().unwrap(), Vec::new());
                json.write_metadata(&mut metadata);
                (json.to_vec(), metadata)
            };
            assert_eq!(shown(&fast), shown(&decoded));
            for selector in ["a=b", "a!=b", "quo"] {
                let labels = LabelSelector::parse(selector).unwrap();
                let is_selected = |it: &CachedObject| it.is_selected(&labels, &FieldSelector::default());
                assert_eq!(is_selected(&fast), is_selected(&decoded), "{selector} {object}");
            }
        }
    }

    #[test]
    fn an_object_that_needs_changes_is_left_to_the_slow_path() {
        let whole = json!({"apiVersion": "toys.example.com/v1", "kind": "Gadget", "metadata": {"name": "a"},
            "spec": {"colour": "red"}});
        assert!(fast(&whole.to_string()).is_some());
        let with = |pointer: &str, value: Value| {
            let mut object = whole.clone();
            *object.pointer_mut(pointer).unwrap() = value;
            object.to_string()
        };
        let others = [
            with("/apiVersion", json!("toys.example.com/v0")),
            with("/spec", json!({})),
            with("/spec/colour", json!(null)),
            with("/metadata", json!(null)),
            with("/metadata", json!({})),
            with("/metadata", json!({"managedFields": [{"time": null}], "name": "a"})),
            with("/metadata", json!({"annotations": {"a": null}, "name": "a"})),
            with("/metadata", json!({"name": "a", "resourceVersion": "5"})),
            with("/metadata", json!({"name": 5})),
            with("/metadata", json!({"name": "a", "labels": {"a": 5}})),
            "{".to_owned(),
            String::new(),
        ];
        for text in others {
            assert!(fast(&text).is_none(), "{text}");
        }
        let mut selectable = gadget();
        selectable.selectable = vec!["spec.colour"];
        assert!(read(&Arc::new(selectable), &Bytes::from(whole.to_string()), Revision::new(1)).is_none());
    }

    #[test]
    fn white_space_is_accepted() {
        for text in [
            r#"{"apiVersion": "toys.example.com/v1", "metadata": { }, "spec": {"colour": "red"}}"#,
            r#"{"apiVersion": "toys.example.com/v1", "metadata": { "name" : "a" , "uid" : "b" }, "spec": {"colour": "red"}}"#,
            r#"{"apiVersion": "toys.example.com/v1", "metadata": {"name": "a" }, "spec": {"colour": "red"}}"#,
        ] {
            let Some(found) = fast(text) else { continue };
            let shown: Value = serde_json::from_slice(&found.json.as_ref().unwrap().to_vec()).unwrap();
            assert_eq!(shown["metadata"]["resourceVersion"], "17", "{text}");
        }
    }
}
