//! Cache of the facts about an object's schema that validation rules need for each mention of the object. Without the
//! cache, the author of a schema and its rules could cause walks through tens of thousands of fields for each of
//! thousands of names.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use super::value::escaped;
use crate::ObjectSchema;

/// Cached facts.
#[derive(Debug, Clone, Default)]
pub(crate) struct InRules {
    least_bytes: OnceLock<u64>,
    escaped: OnceLock<BTreeMap<String, String>>,
}

impl InRules {
    /// Returns the shortest length of the object in JSON. Unit: bytes.
    pub(super) fn least_bytes(&self, find: impl FnOnce() -> u64) -> u64 {
        *self.least_bytes.get_or_init(find)
    }
}

impl ObjectSchema {
    /// Returns the property that expressions call by this name, if its own name differs.
    pub(super) fn escaped_property(&self, name: &str) -> Option<&str> {
        let names = self.in_rules.escaped.get_or_init(|| {
            let others = self.properties.keys().filter_map(|key| {
                let escaped = escaped(key);
                (escaped != *key).then(|| (escaped, key.clone()))
            });
            // If several properties have one escaped name, the first one counts, so it is inserted last.
            others.rev().collect()
        });
        names.get(name).map(String::as_str)
    }
}
