//! Objects on their way to the store, and as they are there.
//!
//! A write waits for the store longer than it works. Were the trees that it made kept meanwhile, those of all that wait
//! would be held for nobody, and would have left a core's cache when they are freed. So it is JSON that waits; whoever
//! needs a tree after all reads it again.

use apiserver_structured_merge::parse_sets;
use bytes::Bytes;
use serde_json::Value;
use storage_contract::Revision;

use crate::object;
use crate::status::{ApiError, ApiResult};
use crate::store::Kind;
use crate::store::cached::object_json::ObjectJson;

/// An object on its way to the store, in the request's version and with serialized owners.
#[derive(Debug)]
pub(crate) enum PendingWrite {
    /// What is stored.
    Json(ObjectJson),
    /// What is stored is of another version.
    Tree(Value),
}

impl PendingWrite {
    /// `object`, of which this is stored.
    pub(crate) fn new(kind: Kind<'_>, object: Value, stored: &ObjectJson) -> Self {
        match &kind.resource.conversion {
            None => Self::Json(stored.clone()),
            Some(_) => Self::Tree(object),
        }
    }

    /// The object itself.
    ///
    /// # Errors
    /// 500 for JSON of our own that cannot be read.
    pub(crate) fn into_value(self) -> ApiResult<Value> {
        match self {
            Self::Json(object_json) => parse(&object_json.json),
            Self::Tree(mut object) => {
                parse_sets(&mut object);
                Ok(object)
            }
        }
    }

    /// The object as it is stored at this revision.
    pub(crate) fn at(self, revision: Revision) -> WrittenObject {
        match self {
            Self::Json(object_json) => WrittenObject::Json(object_json.at(revision).0),
            Self::Tree(mut object) => {
                object::set_revision(&mut object, revision);
                WrittenObject::of_serialized(object)
            }
        }
    }
}

/// An object as it was written, or would be, in the request's version.
#[derive(Debug, Clone, PartialEq)]
pub enum WrittenObject {
    /// Its JSON, as it was written on the way to the store.
    Json(Bytes),
    /// Where there is no such JSON: nothing was stored, or an object of another version.
    Tree(Value),
}

impl WrittenObject {
    /// An object of which there is no JSON, with serialized owners.
    pub(crate) fn of_serialized(mut object: Value) -> Self {
        parse_sets(&mut object);
        Self::Tree(object)
    }

    /// The object, decoded.
    ///
    /// # Errors
    /// 500 for JSON of our own that cannot be read.
    pub fn into_value(self) -> ApiResult<Value> {
        match self {
            Self::Json(json) => parse(&json),
            Self::Tree(object) => Ok(object),
        }
    }
}

/// A written object and what its writer should be told.
#[derive(Debug, Clone, PartialEq)]
pub struct Written {
    /// The object as stored (or as it would be).
    pub object: WrittenObject,
    /// Warnings, without the header's decoration.
    pub warnings: Vec<String>,
}

impl Written {
    /// How a write ended, after what else its writer is to be told: of a refusal, too.
    ///
    /// # Errors
    /// The write's own.
    pub fn with_warnings(result: ApiResult<Self>, mut warnings: Vec<String>) -> ApiResult<Self> {
        match result {
            Ok(mut written) => {
                warnings.append(&mut written.warnings);
                Ok(Self { warnings, ..written })
            }
            Err(error) => Err(error.after(warnings)),
        }
    }
}

fn parse(json: &[u8]) -> ApiResult<Value> {
    serde_json::from_slice(json).map_err(|error| ApiError::internal(error.to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_waits_is_what_was_drafted() {
        let object =
            json!({"kind": "A", "metadata": {"name": "a", "uid": "u"}, "spec": {"a": [1, 1.5, null]}});
        let pending = || PendingWrite::Json(ObjectJson::of(&object).unwrap());
        assert_eq!(pending().into_value().unwrap(), object);
        let mut stored = object.clone();
        object::set_revision(&mut stored, Revision::new(17));
        for written in
            [pending().at(Revision::new(17)), PendingWrite::Tree(object.clone()).at(Revision::new(17))]
        {
            assert_eq!(written.into_value().unwrap(), stored);
        }
    }
}
