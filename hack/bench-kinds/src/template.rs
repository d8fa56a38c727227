//! JSON that is written once, with places for what differs from one object to the next. A load generator that makes a
//! tree for every request takes from the servers the time that it needs for that.

use bytes::Bytes;
use serde_json::Value;

/// What differs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) shard: usize,
    pub(crate) revision: &'a str,
    pub(crate) turn: u64,
}

/// In a template's values: where a field goes, however often. No value is escaped: names and numbers need not be.
pub(crate) const NAMESPACE: &str = "<namespace>";
pub(crate) const NAME: &str = "<name>";
pub(crate) const SHARD: &str = "<shard>";
pub(crate) const REVISION: &str = "<revision>";
pub(crate) const TURN: &str = "<turn>";

const MARKS: [&str; 5] = [NAMESPACE, NAME, SHARD, REVISION, TURN];

/// Text, and each time the mark of what follows it.
#[derive(Debug)]
pub(crate) struct Template {
    pieces: Vec<(String, &'static str)>,
    last: String,
}

impl Template {
    /// Of a value with marks.
    pub(crate) fn new(value: &Value) -> Self {
        let text = value.to_string();
        let (mut rest, mut pieces) = (text.as_str(), Vec::new());
        while let Some((place, mark)) = first_mark(rest) {
            pieces.push((rest[..place].to_owned(), mark));
            rest = &rest[place + mark.len()..];
        }
        Self { pieces, last: rest.to_owned() }
    }

    /// The text with its fields.
    pub(crate) fn filled(&self, fields: Fields<'_>) -> Bytes {
        let (shard, turn) = (fields.shard.to_string(), fields.turn.to_string());
        let field = |mark: &str| match mark {
            NAMESPACE => fields.namespace,
            NAME => fields.name,
            SHARD => &shard,
            REVISION => fields.revision,
            _ => &turn,
        };
        let fixed: usize = self.pieces.iter().map(|(text, mark)| text.len() + field(mark).len()).sum();
        let mut filled = String::with_capacity(fixed + self.last.len());
        for (text, mark) in &self.pieces {
            filled.push_str(text);
            filled.push_str(field(mark));
        }
        filled.push_str(&self.last);
        Bytes::from(filled)
    }
}

fn first_mark(text: &str) -> Option<(usize, &'static str)> {
    MARKS.into_iter().filter_map(|mark| Some((text.find(mark)?, mark))).min()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_go_where_their_marks_are() {
        let value = json!({
            "at": format!("{NAMESPACE}/{NAME}"), "named": NAME, "plain": "<b>",
            "text": json!({"turn": TURN}).to_string(), "revision": REVISION, "shard": SHARD});
        let fields = Fields { namespace: "lab", name: "m-1", shard: 1, revision: "17", turn: 3 };
        let filled: Value = serde_json::from_slice(&Template::new(&value).filled(fields)).unwrap();
        let expected = json!({
            "at": "lab/m-1", "named": "m-1", "plain": "<b>", "text": "{\"turn\":\"3\"}", "revision": "17",
            "shard": "1"});
        assert_eq!(filled, expected);
    }
}
