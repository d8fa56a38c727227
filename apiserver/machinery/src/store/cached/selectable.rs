//! Fields of a cached object that selectors read.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::object;
use crate::resource::Resource;
use crate::selectors::{FieldSelector, LabelSelector};

/// Fields that selectors read, in one compact allocation: there is one for every object, and each write creates one.
///
/// Texts, each after its length: the name, the namespace, keys and values of the labels, and paths and values of the
/// other selectable fields of the kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selectable {
    texts: Box<[u8]>,
    /// Offset of the end of the labels.
    labels: usize,
}

impl Selectable {
    pub(crate) fn of(resource: &Resource, object: &Value) -> Self {
        let labels = object::labels(object).into_iter().flatten();
        let labels = labels.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)));
        let mut texts = Texts::of(object::name(object), object::namespace(object), labels);
        for path in &resource.selectable {
            let other;
            let value = match object::at(object, path) {
                None | Some(Value::Null) => "",
                Some(Value::String(text)) => text,
                Some(value) => {
                    other = value.to_string();
                    &other
                }
            };
            texts.push(path);
            texts.push(value);
        }
        texts.into_selectable()
    }

    /// Creates it for a kind with no other selectable fields.
    pub(crate) fn of_parts(labels: &BTreeMap<String, String>, name: &str, namespace: &str) -> Self {
        let labels = labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        Texts::of(name, namespace, labels).into_selectable()
    }

    /// Creates it for an object of which only the name is known.
    pub(crate) fn named(name: &str) -> Self {
        Texts::of(name, "", std::iter::empty()).into_selectable()
    }

    /// Returns the memory outside of the structure, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.texts.len()
    }

    /// The object's name.
    pub(crate) fn name(&self) -> Option<&str> {
        texts(&self.texts).next().and_then(text)
    }

    /// Returns true if both selectors select it.
    pub(crate) fn is_selected(&self, labels: &LabelSelector, fields: &FieldSelector) -> bool {
        (labels.is_empty() || labels.selects(|key| self.label(key)))
            && (fields.is_empty() || fields.matches(|path| self.field(path).map(str::to_owned)))
    }

    fn label(&self, key: &str) -> Option<&str> {
        value(texts(self.texts.get(..self.labels)?).skip(NAMES), key)
    }

    fn field(&self, path: &str) -> Option<&str> {
        match path {
            "metadata.name" => self.name(),
            "metadata.namespace" => texts(&self.texts).nth(1).and_then(text),
            _ => value(texts(self.texts.get(self.labels..)?), path),
        }
    }
}

/// Number of texts before the labels: name and namespace.
const NAMES: usize = 2;

/// Bytes of a length.
const LENGTH: usize = size_of::<u32>();

/// Capacity for most objects: two names, and three labels whose keys have a domain.
const TYPICAL: usize = 256;

/// Builder of a [`Selectable`].
struct Texts {
    all: Vec<u8>,
    labels: usize,
}

impl Texts {
    fn of<'a>(name: &str, namespace: &str, labels: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut texts = Self { all: Vec::with_capacity(TYPICAL), labels: 0 };
        texts.push(name);
        texts.push(namespace);
        for (key, value) in labels {
            texts.push(key);
            texts.push(value);
        }
        texts.labels = texts.all.len();
        texts
    }

    /// Adds a text. No part of a request is longer than 4 GiB.
    fn push(&mut self, text: &str) {
        let (length, text) = u32::try_from(text.len()).map_or((0, ""), |length| (length, text));
        self.all.extend_from_slice(&length.to_le_bytes());
        self.all.extend_from_slice(text.as_bytes());
    }

    fn into_selectable(self) -> Selectable {
        Selectable { texts: self.all.into_boxed_slice(), labels: self.labels }
    }
}

/// Returns the texts in order.
fn texts(mut rest: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, after) = rest.split_first_chunk::<LENGTH>()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let (text, after) = after.split_at_checked(length)?;
        rest = after;
        Some(text)
    })
}

/// Returns the value of this name in alternating names and values.
fn value<'a>(mut pairs: impl Iterator<Item = &'a [u8]>, name: &str) -> Option<&'a str> {
    loop {
        let (found, value) = (pairs.next()?, pairs.next()?);
        if found == name.as_bytes() {
            return text(value);
        }
    }
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resource::tests::gadget;

    fn is_selected(object: &Value, labels: &str, fields: &str) -> bool {
        let mut resource = gadget();
        resource.selectable = vec!["spec.colour", "spec.size", "spec.none"];
        let fields = FieldSelector::parse(fields, &resource.selectable).unwrap();
        Selectable::of(&resource, object).is_selected(&LabelSelector::parse(labels).unwrap(), &fields)
    }

    #[test]
    fn labels_and_fields_of_equal_text_are_distinguished() {
        let object = json!({"metadata": {"name": "a", "namespace": "n",
            "labels": {"a": "n", "b": "", "n": "metadata.name", "spec.size": "0"}},
            "spec": {"colour": "n", "size": 17}});
        for (labels, fields) in [
            ("a=n", ""),
            ("b", ""),
            ("b=", ""),
            ("n=metadata.name,spec.size=0", "metadata.name=a,metadata.namespace=n"),
            ("!spec.colour,!0", "spec.colour=n,spec.size=17,spec.none="),
        ] {
            assert!(is_selected(&object, labels, fields), "{labels} {fields}");
        }
        for (labels, fields) in [
            ("a=b", ""),
            ("!b", ""),
            ("metadata.name", ""),
            ("spec.colour", ""),
            ("", "metadata.name=n"),
            ("", "spec.size=0"),
            ("", "spec.none=17"),
        ] {
            assert!(!is_selected(&object, labels, fields), "{labels} {fields}");
        }
    }

    #[test]
    fn a_selectable_with_only_a_name_matches_only_by_name() {
        assert_eq!(Selectable::named("a").name(), Some("a"));
        assert_eq!(Selectable::default().name(), None);
        let fields = FieldSelector::parse("metadata.namespace=n", &[]).unwrap();
        assert!(!Selectable::named("a").is_selected(&LabelSelector::parse("").unwrap(), &fields));
    }
}
