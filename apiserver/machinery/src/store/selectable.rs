//! What selectors look at of an object in the cache.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::object;
use crate::resource::Resource;
use crate::selectors::{FieldSelector, LabelSelector};

/// What selectors look at, as small as it can be: there is one of these for every object.
#[derive(Debug, Clone, Default)]
pub(super) struct Selectable {
    labels: Box<[(Box<str>, Box<str>)]>,
    fields: Box<[(&'static str, Box<str>)]>,
}

impl Selectable {
    pub(super) fn of(resource: &Resource, object: &Value) -> Self {
        let labels = object::labels(object).into_iter().flatten();
        Self {
            labels: labels
                .filter_map(|(key, value)| Some((Box::from(key.as_str()), Box::from(value.as_str()?))))
                .collect(),
            fields: fields(resource, object),
        }
    }

    /// The same, of a kind whose objects can be selected by nothing else.
    pub(super) fn of_parts(labels: BTreeMap<String, String>, name: &str, namespace: &str) -> Self {
        let labels = labels.into_iter().map(|(key, value)| (key.into_boxed_str(), value.into_boxed_str()));
        let fields = [(NAME, Box::from(name)), (NAMESPACE, Box::from(namespace))];
        Self { labels: labels.collect(), fields: Box::from(fields) }
    }

    /// The same, of what only the name is known of.
    pub(super) fn named(name: &str) -> Self {
        Self { fields: Box::from([(NAME, Box::from(name))]), ..Self::default() }
    }

    /// The object's name.
    pub(super) fn name(&self) -> Option<&str> {
        self.field(NAME)
    }

    /// Whether both selectors select it.
    pub(super) fn is_selected(&self, labels: &LabelSelector, fields: &FieldSelector) -> bool {
        (labels.is_empty() || labels.selects(|key| self.label(key)))
            && (fields.is_empty() || fields.matches(|path| self.field(path).map(str::to_owned)))
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.labels.iter().find(|(name, _)| **name == *key).map(|(_, value)| &**value)
    }

    fn field(&self, path: &str) -> Option<&str> {
        self.fields.iter().find(|(name, _)| *name == path).map(|(_, value)| &**value)
    }
}

/// The field that every selector knows.
const NAME: &str = "metadata.name";

/// The other one.
const NAMESPACE: &str = "metadata.namespace";

/// The values that field selectors may ask for.
fn fields(resource: &Resource, object: &Value) -> Box<[(&'static str, Box<str>)]> {
    let mut fields: Vec<(&'static str, Box<str>)> =
        vec![(NAME, Box::from(object::name(object))), (NAMESPACE, Box::from(object::namespace(object)))];
    for path in &resource.selectable {
        let value = match object::at(object, path) {
            None | Some(Value::Null) => Box::default(),
            Some(Value::String(text)) => Box::from(text.as_str()),
            Some(other) => other.to_string().into_boxed_str(),
        };
        fields.push((path, value));
    }
    fields.into_boxed_slice()
}
