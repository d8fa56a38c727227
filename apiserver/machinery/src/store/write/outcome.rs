//! Pending write, and the written object.
//!
//! A write waits for the store longer than it computes. If it kept its tree while it waits, the trees of all waiting
//! writes would be in memory, and would have left the CPU caches when they are freed. So it keeps JSON, which is
//! decoded again if a tree is needed.

use apiserver_structured_merge::parse_sets;
use bytes::Bytes;
use serde_json::Value;
use storage_contract::Revision;

use crate::object;
use crate::status::{ApiError, ApiResult};
use crate::store::Kind;
use crate::store::cached::object_json::ObjectJson;

/// A write in flight, in the request's version, with serialized field managers.
#[derive(Debug)]
pub(crate) enum PendingWrite {
    /// The stored JSON.
    Json(ObjectJson),
    /// The object, if another version of it is stored.
    Tree(Value),
}

impl PendingWrite {
    /// Creates it for `object`, of which `stored` is stored.
    pub(crate) fn new(kind: Kind<'_>, object: Value, stored: &ObjectJson) -> Self {
        match &kind.resource.conversion {
            None => Self::Json(stored.clone()),
            Some(_) => Self::Tree(object),
        }
    }

    /// Returns the object.
    ///
    /// # Errors
    /// 500 for stored JSON that cannot be parsed.
    pub(crate) fn into_value(self) -> ApiResult<Value> {
        match self {
            Self::Json(object_json) => parse(&object_json.json),
            Self::Tree(mut object) => {
                parse_sets(&mut object);
                Ok(object)
            }
        }
    }

    /// Returns the object at this revision.
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

/// An object as it was written, or as it would be, in the request's version.
#[derive(Debug, Clone, PartialEq)]
pub enum WrittenObject {
    /// The JSON that was encoded for the store.
    Json(Bytes),
    /// The object, if there is no such JSON: nothing was stored, or another version.
    Tree(Value),
}

impl WrittenObject {
    /// Creates it from an object with serialized field managers.
    pub(crate) fn of_serialized(mut object: Value) -> Self {
        parse_sets(&mut object);
        Self::Tree(object)
    }

    /// Returns the object, decoded.
    ///
    /// # Errors
    /// 500 for stored JSON that cannot be parsed.
    pub fn into_value(self) -> ApiResult<Value> {
        match self {
            Self::Json(json) => parse(&json),
            Self::Tree(object) => Ok(object),
        }
    }
}

/// A written object and the warnings for the client.
#[derive(Debug, Clone, PartialEq)]
pub struct Written {
    /// The object as stored, or as it would be.
    pub object: WrittenObject,
    /// Warnings, without the syntax of the header.
    pub warnings: Vec<String>,
}

impl Written {
    /// Adds warnings before those of a result, also of an error.
    ///
    /// # Errors
    /// Those of the write.
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
    fn a_pending_write_returns_the_drafted_object() {
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
