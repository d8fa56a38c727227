//! Check for duplicate keys in the YAML maps of an apply: the last one counts, and the author may have meant the first.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Options, Spanned};

/// Maximum number of keys that are reported, as for JSON.
const MOST: usize = 100;

/// Returns a warning for each duplicate key, in the order of the decoded maps. Invalid YAML has none.
pub(super) fn warnings(text: &str, options: Options) -> Vec<String> {
    serde_saphyr::from_str_with_options::<Keys>(text, options).map(|keys| keys.0).unwrap_or_default()
}

/// Warnings about the keys of a value.
struct Keys(Vec<String>);

impl Keys {
    fn extend(&mut self, more: Vec<String>) {
        let room = MOST.saturating_sub(self.0.len());
        self.0.extend(more.into_iter().take(room));
    }
}

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
        decoder.deserialize_any(Node)
    }
}

struct Node;

/// Returns no warnings: the value has no keys.
fn nothing<E>() -> Result<Keys, E> {
    Ok(Keys(Vec::new()))
}

impl<'de> Visitor<'de> for Node {
    type Value = Keys;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any YAML value")
    }

    fn visit_unit<E: Error>(self) -> Result<Keys, E> {
        nothing()
    }

    fn visit_none<E: Error>(self) -> Result<Keys, E> {
        nothing()
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Keys, E> {
        nothing()
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Keys, E> {
        nothing()
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Keys, E> {
        nothing()
    }

    fn visit_i128<E: Error>(self, _: i128) -> Result<Keys, E> {
        nothing()
    }

    fn visit_u128<E: Error>(self, _: u128) -> Result<Keys, E> {
        nothing()
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Keys, E> {
        nothing()
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Keys, E> {
        nothing()
    }

    fn visit_bytes<E: Error>(self, _: &[u8]) -> Result<Keys, E> {
        nothing()
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Keys, A::Error> {
        let mut all = Keys(Vec::new());
        while let Some(item) = items.next_element::<Keys>()? {
            all.extend(item.0);
        }
        Ok(all)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Keys, A::Error> {
        let (mut all, mut seen) = (Keys(Vec::new()), HashSet::new());
        while let Some(key) = fields.next_key::<String>()? {
            let value = fields.next_value::<Spanned<Keys>>()?;
            all.extend(value.value.0);
            // Upstream names the line of the value.
            let text = || format!("line {}: key {key:?} already set in map", value.referenced.line());
            if seen.contains(&key) {
                all.extend(vec![text()]);
            }
            seen.insert(key);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts are those of kube-apiserver 1.36.3.
    #[test]
    fn each_repetition_of_a_key_is_reported() {
        let options = || {
            let mut options = crate::request::yaml::options();
            options.duplicate_keys = serde_saphyr::options::DuplicateKeyPolicy::LastWins;
            options
        };
        let of = |text: &str| warnings(text, options());
        let key = |line: u32, key: &str| format!("line {line}: key {key:?} already set in map");
        assert_eq!(of("a: {b: 1}\nc: [x, null, 1.5, true]\n"), [""; 0]);
        assert_eq!(
            of("labels: {a: b, a: c, a: d}\nlabels: {}\n"),
            [key(1, "a"), key(1, "a"), key(2, "labels")]
        );
        assert_eq!(
            of("x: 1\nlist: [{a: 1, a: 2}, {b: 1,\n b: 2}]\nx:\n  2\n"),
            [key(2, "a"), key(3, "b"), key(5, "x")]
        );
        assert_eq!(of("{\"a\":1,\n\"a\":2}"), [key(2, "a")]);
        assert_eq!(of("a: [1"), [""; 0]);
        let many = (0..300).map(|index| format!("k{index}: 1\nk{index}: 2\n")).collect::<String>();
        assert_eq!(of(&many).len(), MOST);
    }
}
