//! Largest sizes of the values of a schema: from its bounds, or else from the size limit of a request.

use super::path::Step;
use crate::cel::types;
use crate::{Kind, Schema};

/// Size limit of a request in estimates, whatever the limit of the server is. Unit: bytes.
const REQUEST: u64 = 3 * 1024 * 1024;

/// Quotes, brackets or braces. Unit: bytes.
const AROUND: u64 = 2;

/// Maximum number of bytes of a letter. `maxLength` counts letters.
const WIDEST_LETTER: u64 = 4;

/// Shortest and longest texts of a format in JSON. Unit: bytes.
const DURATION: (u64, u64) = (3, 32);
const DATE: (u64, u64) = (12, 12);
const DATE_TIME: (u64, u64) = (21, 32);

/// Target of a path: a value, or a key of a map.
#[derive(Debug, Clone, Copy)]
pub(super) enum Target<'a> {
    Value(&'a Schema),
    /// Key of a map. No schema limits its length.
    Key,
}

impl<'a> Target<'a> {
    /// Returns the target one step further, if there is one.
    pub(super) fn step(self, step: &Step) -> Option<Self> {
        let Self::Value(schema) = self else { return None };
        match (&schema.kind, step) {
            (Kind::List(list), Step::Entry) => Some(Self::Value(&list.items)),
            (Kind::Object(object), step) => match (&object.additional, step) {
                (Some(free), Step::Entry) => Some(Self::Value(free)),
                (Some(_), Step::Key) => Some(Self::Key),
                (None, Step::Field(name)) => types::field(object, name).map(Self::Value),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the largest number of entries or letters.
    pub(super) fn most(self) -> u64 {
        match self {
            Self::Value(schema) => most(schema),
            Self::Key => 0,
        }
    }
}

/// Returns the largest number of entries or letters. Objects with named fields have none.
fn most(schema: &Schema) -> u64 {
    match &schema.kind {
        Kind::Any | Kind::Boolean | Kind::Integer(_) | Kind::Number(_) => 0,
        Kind::IntegerOrText(text, _) => text.most.map_or(REQUEST - AROUND, in_bytes),
        Kind::List(list) => {
            list.most.unwrap_or_else(|| (REQUEST - AROUND) / least_bytes(&list.items).saturating_add(1))
        }
        Kind::Object(object) => object.additional.as_ref().map_or(0, |free| {
            // A key has quotes and two letters, followed by a colon and a comma.
            let fitting = || (REQUEST - AROUND) / least_bytes(free).saturating_add(6);
            object.most.unwrap_or_else(fitting)
        }),
        Kind::Text(text) => match text.format.map(|format| format.name()) {
            Some("byte") => text.most.unwrap_or(REQUEST - AROUND),
            Some("duration") => DURATION.1,
            Some("date") => DATE.1,
            Some("date-time") => DATE_TIME.1,
            _ => text.most.map_or_else(|| longest_allowed(schema), in_bytes),
        },
    }
}

fn in_bytes(letters: u64) -> u64 {
    letters.saturating_mul(WIDEST_LETTER)
}

fn longest_allowed(schema: &Schema) -> u64 {
    if schema.allowed.is_empty() {
        return REQUEST - AROUND;
    }
    let texts = schema.allowed.iter().filter_map(serde_json::Value::as_str);
    texts.map(str::len).max().and_then(|longest| u64::try_from(longest).ok()).unwrap_or_default()
}

/// Returns the shortest length of a value in JSON. Unit: bytes.
fn least_bytes(schema: &Schema) -> u64 {
    match &schema.kind {
        Kind::Any | Kind::IntegerOrText(..) | Kind::Integer(_) | Kind::Number(_) => 1,
        Kind::Boolean => 4,
        Kind::List(_) => AROUND,
        Kind::Object(object) if object.additional.is_some() => AROUND,
        Kind::Object(object) => object.in_rules.least_bytes(|| {
            // A field with a default is absent from the request.
            let present = |name: &&String| {
                let schema = object.properties.get(*name)?;
                (types::is_seen(schema) && schema.default.as_ref().is_none_or(serde_json::Value::is_null))
                    .then_some((name.len(), schema))
            };
            let names: std::collections::BTreeSet<&String> = object.required.iter().collect();
            let fields = names.iter().filter_map(present).map(|(length, schema)| {
                // Quotes, a colon and a comma.
                let name = u64::try_from(length).unwrap_or(u64::MAX).saturating_add(4);
                name.saturating_add(least_bytes(schema))
            });
            fields.fold(AROUND, u64::saturating_add)
        }),
        Kind::Text(text) => match text.format.map(|format| format.name()) {
            Some("duration") => DURATION.0,
            Some("date") => DATE.0,
            Some("date-time") => DATE_TIME.0,
            _ => AROUND,
        },
    }
}

/// Returns how many values of a schema one request can hold at most.
pub(crate) fn most_in_a_request(schema: &Schema) -> u64 {
    REQUEST / least_bytes(schema).saturating_add(1)
}
