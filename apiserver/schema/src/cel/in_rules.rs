//! What rules ask of an object's schema for each mention of it, kept with the schema: who may write a schema and
//! rules could else have one walk through tens of thousands of fields for each of thousands of names.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use super::value::escaped;
use crate::ObjectSchema;

/// What was found so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct InRules {
    least_bytes: OnceLock<u64>,
    escaped: OnceLock<BTreeMap<String, String>>,
}

impl InRules {
    /// The shortest that the object can be in JSON. Unit: bytes.
    pub(super) fn least_bytes(&self, find: impl FnOnce() -> u64) -> u64 {
        *self.least_bytes.get_or_init(find)
    }
}

impl ObjectSchema {
    /// The property that expressions have this name for, where that is not its own.
    pub(super) fn escaped_property(&self, name: &str) -> Option<&str> {
        let names = self.in_rules.escaped.get_or_init(|| {
            let others = self.properties.keys().filter_map(|key| {
                let escaped = escaped(key);
                (escaped != *key).then(|| (escaped, key.clone()))
            });
            // Of several with one name the first counts, so it is put in last.
            others.rev().collect()
        });
        names.get(name).map(String::as_str)
    }
}
