//! A stored object for the cache, without making a tree of it.
//!
//! What this server stored is mostly what it would show: it wants its revision put in, and what selectors look at
//! noted. Finding out that it is so costs a walk over the bytes, a fifth of what a tree does. That counts when a
//! hundred thousand objects are read at a start, and for all that other replicas write.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;
use storage_contract::Revision;

use super::CachedObject;
use super::cached::Selectable;
use super::rendered::{REVISION, Rendered};
use crate::resource::Resource;
use crate::schema::Schema;
use crate::schema::complete::{Filled, Text};

/// The object, if it can be had so: stored in the version that is stored now, with nothing to fill in.
pub(super) fn read(resource: &Resource, plain: &Bytes, revision: Revision) -> Option<CachedObject> {
    // What such fields hold may be anywhere.
    if !resource.selectable.is_empty() {
        return None;
    }
    let json = std::str::from_utf8(plain).ok()?;
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let root = Root { schema: &resource.schema, api_version: &resource.api_version() };
    let metadata = root.deserialize(&mut deserializer).ok()?.get();
    deserializer.end().ok()?;
    if !resource.schema.field("metadata").is_none_or(|schema| schema.is_filled_in(metadata)) {
        return None;
    }
    let mut deserializer = serde_json::Deserializer::from_str(metadata);
    let found = AtAddress(metadata.as_ptr().addr()).deserialize(&mut deserializer).ok()?;
    // Written by somebody else, with blanks.
    if !metadata.get(found.at..).is_some_and(|rest| rest.starts_with([',', '}', '"'])) {
        return None;
    }
    let start = metadata.as_ptr().addr().checked_sub(json.as_ptr().addr())?;
    let rendered = Rendered::of_json(plain.clone(), start..start + metadata.len(), start + found.at);
    let (json, metadata) = rendered.at(revision);
    let selectable = Selectable::of_parts(found.labels, &found.name.0, &found.namespace.0);
    Some(CachedObject::of_parts(&json, metadata, revision, selectable))
}

/// Reads an object for its metadata, and sees to it that in the rest nothing is to be filled in.
struct Root<'a> {
    schema: &'a Schema,
    api_version: &'a str,
}

impl<'de> DeserializeSeed<'de> for Root<'_> {
    type Value = &'de RawValue;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<&'de RawValue, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Root<'_> {
    type Value = &'de RawValue;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object of the version that is stored")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<&'de RawValue, A::Error> {
        let (mut metadata, mut is_of_version) = (None, false);
        let mut missing = self.schema.missing();
        while let Some(Text(name)) = fields.next_key()? {
            missing.found(&name);
            match &*name {
                "metadata" => metadata = Some(fields.next_value()?),
                "apiVersion" => is_of_version = fields.next_value::<Text<'_>>()?.0 == self.api_version,
                name => fields.next_value_seed(Filled(self.schema.field(name)))?,
            }
        }
        metadata
            .filter(|_| is_of_version && missing.is_none())
            .ok_or_else(|| A::Error::custom("it is not as it would be"))
    }
}

/// What is needed of `metadata`.
struct Metadata<'de> {
    labels: BTreeMap<String, String>,
    name: Text<'de>,
    namespace: Text<'de>,
    /// Where in its JSON the revision belongs.
    at: usize,
}

/// Reads `metadata`, whose JSON begins at this address.
struct AtAddress(usize);

impl<'de> DeserializeSeed<'de> for AtAddress {
    type Value = Metadata<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Metadata<'de>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for AtAddress {
    type Value = Metadata<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("metadata without a revision")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Metadata<'de>, A::Error> {
        let empty = || Text(Cow::Borrowed(""));
        let mut found = Metadata { labels: BTreeMap::new(), name: empty(), namespace: empty(), at: 1 };
        while let Some(Text(field)) = fields.next_key()? {
            let value: &'de RawValue = fields.next_value()?;
            let text = value.get();
            let read = match &*field {
                REVISION => Err(serde_json::Error::custom("it has a revision")),
                "labels" => serde_json::from_str(text).map(|labels| found.labels = labels),
                "name" => serde_json::from_str(text).map(|name| found.name = name),
                "namespace" => serde_json::from_str(text).map(|namespace| found.namespace = namespace),
                _ => Ok(()),
            };
            read.map_err(A::Error::custom)?;
            // Fields are sorted when they are written; where they are not, any place will do.
            if *field < *REVISION {
                found.at = text.as_ptr().addr() + text.len() - self.0;
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::resource::tests::gadget;
    use crate::selectors::{FieldSelector, LabelSelector};

    fn skimmed(text: &str) -> Option<CachedObject> {
        read(&gadget(), &Bytes::from(text.to_owned()), Revision::new(17))
    }

    /// Whatever the metadata, it is what is made of the tree.
    #[test]
    fn what_is_skimmed_is_what_is_decoded() {
        let metadatas = [
            json!({}),
            json!({"name": "a"}),
            json!({"uid": "u"}),
            json!({"labels": {"a": "b", "quo\"ted": "c"}, "name": "a", "namespace": "n", "ownerReferences": [{"uid": "}{"}], "uid": "u"}),
        ];
        for metadata in metadatas {
            let object = json!({"apiVersion": "toys.example.com/v1", "kind": "Gadget", "metadata": metadata,
                "spec": {"colour": "red", "any": [1, 1.5, null, "\"resourceVersion\""]}});
            let decoded = CachedObject::new(&gadget(), &object, Revision::new(17));
            let skimmed = skimmed(&object.to_string()).unwrap();
            let shown = |object: &CachedObject| {
                let (json, mut metadata) = (object.json.as_ref().unwrap(), Vec::new());
                json.write_metadata(&mut metadata);
                (json.to_vec(), metadata)
            };
            assert_eq!(shown(&skimmed), shown(&decoded));
            for selector in ["a=b", "a!=b", "quo"] {
                let labels = LabelSelector::parse(selector).unwrap();
                let is_selected = |it: &CachedObject| it.is_selected(&labels, &FieldSelector::default());
                assert_eq!(is_selected(&skimmed), is_selected(&decoded), "{selector} {object}");
            }
        }
    }

    #[test]
    fn what_is_not_as_it_would_be_is_left_to_who_decodes() {
        let whole = json!({"apiVersion": "toys.example.com/v1", "kind": "Gadget", "metadata": {"name": "a"},
            "spec": {"colour": "red"}});
        assert!(skimmed(&whole.to_string()).is_some());
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
            with("/metadata", json!({"name": "a", "resourceVersion": "5"})),
            with("/metadata", json!({"name": 5})),
            with("/metadata", json!({"name": "a", "labels": {"a": 5}})),
            "{".to_owned(),
            String::new(),
        ];
        for text in others {
            assert!(skimmed(&text).is_none(), "{text}");
        }
        let mut selectable = gadget();
        selectable.selectable = vec!["spec.colour"];
        assert!(read(&Arc::new(selectable), &Bytes::from(whole.to_string()), Revision::new(1)).is_none());
    }

    #[test]
    fn blanks_do_no_harm() {
        for text in [
            r#"{"apiVersion": "toys.example.com/v1", "metadata": { }, "spec": {"colour": "red"}}"#,
            r#"{"apiVersion": "toys.example.com/v1", "metadata": { "name" : "a" , "uid" : "b" }, "spec": {"colour": "red"}}"#,
            r#"{"apiVersion": "toys.example.com/v1", "metadata": {"name": "a" }, "spec": {"colour": "red"}}"#,
        ] {
            let Some(found) = skimmed(text) else { continue };
            let shown: Value = serde_json::from_slice(&found.json.as_ref().unwrap().to_vec()).unwrap();
            assert_eq!(shown["metadata"]["resourceVersion"], "17", "{text}");
        }
    }
}
