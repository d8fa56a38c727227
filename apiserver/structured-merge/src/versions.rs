//! A kind in all its versions, as far as owning fields needs them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::compare::{Comparison, compare, compare_without};
use crate::element::Element;
use crate::schema::Type;
use crate::set::Set;

/// An object that cannot be shown in a version that one of its owners wrote in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct VersionError(pub String);

/// The versions of one kind, and the way between them.
pub trait Versions: Send + Sync {
    /// The type of its objects in `api_version`; `None` when there is no such version.
    fn of_version(&self, api_version: &str) -> Option<Arc<Type>>;

    /// The object, which is in version `from`, in version `to`; both are known.
    ///
    /// # Errors
    /// When there is no way to say it in that version.
    fn convert(&self, object: Value, from: &str, to: &str) -> Result<Value, VersionError>;
}

/// `object` in version `to`, without what that version does not declare: a field that only the
/// newer version has must not stand in the way of those who wrote in the older one.
pub(crate) fn converted(
    versions: &dyn Versions,
    object: &Value,
    from: &str,
    to: &str,
    of: &Type,
) -> Result<Value, VersionError> {
    if from == to {
        return Ok(object.clone());
    }
    let mut converted = versions.convert(object.clone(), from, to)?;
    drop_undeclared(of, &mut converted);
    Ok(converted)
}

fn drop_undeclared(of: &Type, value: &mut Value) {
    match (of, value) {
        (Type::Map(map), Value::Object(fields)) => {
            fields.retain(|name, _| map.element.is_some() || map.fields.contains_key(name));
            fields.iter_mut().for_each(|(name, field)| drop_undeclared(map.field(name), field));
        }
        (Type::List(list), Value::Array(items)) => {
            items.iter_mut().for_each(|item| drop_undeclared(&list.element, item));
        }
        _ => {}
    }
}

/// Two states of an object and what is different between them, in every version asked for.
pub(crate) struct Compared<'a> {
    versions: &'a dyn Versions,
    version: &'a str,
    states: [&'a Value; 2],
    /// What nobody owns through this endpoint.
    reset: &'a Set,
    /// `None` for a version that does not exist.
    known: BTreeMap<String, Option<Comparison>>,
}

impl<'a> Compared<'a> {
    pub(crate) fn new(
        versions: &'a dyn Versions,
        version: &'a str,
        states: [&'a Value; 2],
        reset: &'a Set,
    ) -> Self {
        Self { versions, version, states, reset, known: BTreeMap::new() }
    }

    pub(crate) fn within(&mut self, version: &str) -> Result<Option<&Comparison>, VersionError> {
        if !self.known.contains_key(version) {
            let comparison = self.compare(version)?;
            self.known.insert(version.to_owned(), comparison);
        }
        Ok(self.known.get(version).and_then(Option::as_ref))
    }

    /// What is different in the version of the states themselves.
    pub(crate) fn into_own(mut self) -> Result<Option<Comparison>, VersionError> {
        self.within(self.version)?;
        Ok(self.known.remove(self.version).flatten())
    }

    fn compare(&self, version: &str) -> Result<Option<Comparison>, VersionError> {
        let Some(of) = self.versions.of_version(version) else { return Ok(None) };
        let [old, new] = self.states;
        if version == self.version {
            return Ok(Some(compare_without(&of, old, new, self.reset)));
        }
        let convert = |state| converted(self.versions, state, self.version, version, &of);
        let (old, new) = (convert(old)?, convert(new)?);
        // That the object's own endpoint does not write `status` is known upstream in the version of
        // the request alone, and clients see it: who owns part of it through another version loses
        // that to a write which says otherwise, and changes nothing.
        let known = self.reset.has(&[Element::field("spec")]);
        Ok(Some(if known { compare_without(&of, &old, &new, self.reset) } else { compare(&of, &old, &new) }))
    }
}
