//! JSON template: text with placeholders, which is built once.
//!
//! A load generator that builds a JSON tree for every request would take processor time from the servers.

use bytes::Bytes;
use serde_json::Value;

/// Variable values of one object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) shard: usize,
    pub(crate) revision: &'a str,
    pub(crate) iteration: u64,
}

/// Placeholders in a template's values; each may occur any number of times. Values are not escaped: names and
/// numbers need no escaping.
pub(crate) const NAMESPACE: &str = "<namespace>";
pub(crate) const NAME: &str = "<name>";
pub(crate) const SHARD: &str = "<shard>";
pub(crate) const REVISION: &str = "<revision>";
pub(crate) const ITERATION: &str = "<iteration>";

const PLACEHOLDERS: [&str; 5] = [NAMESPACE, NAME, SHARD, REVISION, ITERATION];

/// Text pieces, each with the placeholder that follows it, and the last piece.
#[derive(Debug)]
pub(crate) struct Template {
    pieces: Vec<(String, &'static str)>,
    last: String,
}

impl Template {
    /// Creates a template from a value with placeholders.
    pub(crate) fn new(value: &Value) -> Self {
        let text = value.to_string();
        let (mut rest, mut pieces) = (text.as_str(), Vec::new());
        while let Some((position, placeholder)) = first_placeholder(rest) {
            pieces.push((rest[..position].to_owned(), placeholder));
            rest = &rest[position + placeholder.len()..];
        }
        Self { pieces, last: rest.to_owned() }
    }

    /// Returns the text with all values.
    pub(crate) fn filled(&self, fields: Fields<'_>) -> Bytes {
        let (shard, iteration) = (fields.shard.to_string(), fields.iteration.to_string());
        let field = |placeholder: &str| match placeholder {
            NAMESPACE => fields.namespace,
            NAME => fields.name,
            SHARD => &shard,
            REVISION => fields.revision,
            _ => &iteration,
        };
        let fixed: usize =
            self.pieces.iter().map(|(text, placeholder)| text.len() + field(placeholder).len()).sum();
        let mut filled = String::with_capacity(fixed + self.last.len());
        for (text, placeholder) in &self.pieces {
            filled.push_str(text);
            filled.push_str(field(placeholder));
        }
        filled.push_str(&self.last);
        Bytes::from(filled)
    }
}

fn first_placeholder(text: &str) -> Option<(usize, &'static str)> {
    PLACEHOLDERS.into_iter().filter_map(|placeholder| Some((text.find(placeholder)?, placeholder))).min()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_replace_their_placeholders() {
        let value = json!({
            "at": format!("{NAMESPACE}/{NAME}"), "named": NAME, "plain": "<b>",
            "text": json!({"iteration": ITERATION}).to_string(), "revision": REVISION, "shard": SHARD});
        let fields = Fields { namespace: "lab", name: "m-1", shard: 1, revision: "17", iteration: 3 };
        let filled: Value = serde_json::from_slice(&Template::new(&value).filled(fields)).unwrap();
        let expected = json!({
            "at": "lab/m-1", "named": "m-1", "plain": "<b>", "text": "{\"iteration\":\"3\"}", "revision": "17",
            "shard": "1"});
        assert_eq!(filled, expected);
    }
}
