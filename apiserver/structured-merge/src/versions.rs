//! Versions of a kind, as far as field ownership needs them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::compare::{Comparison, compare, compare_without};
use crate::element::Element;
use crate::schema::Type;
use crate::set::Set;

/// Error of an object that cannot be converted to a version that one of its field managers wrote in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct VersionError(pub String);

/// Versions of one kind, and the conversion between them.
pub trait Versions: Send + Sync {
    /// Returns the type of its objects in `api_version`; `None` when there is no such version.
    fn of_version(&self, api_version: &str) -> Option<Arc<Type>>;

    /// Converts the object from version `from` to version `to`; both are known.
    ///
    /// # Errors
    /// When the object cannot be expressed in that version.
    fn convert(&self, object: Value, from: &str, to: &str) -> Result<Value, VersionError>;
}

/// Returns `object` in version `to`, without the fields that this version does not declare: a field that only the
/// newer version has must not affect the field managers of the older one.
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

/// Two states of an object and their differences, in every requested version.
pub(crate) struct Compared<'a> {
    versions: &'a dyn Versions,
    version: &'a str,
    states: [&'a Value; 2],
    /// Fields that no field manager owns through this endpoint.
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

    /// Returns the differences in the version of the states themselves.
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
        // Upstream knows only in the version of the request that the object's own endpoint does not write `status`,
        // and clients see it: a field manager of another version that owns part of it loses that to a write with
        // another value, although the write changes nothing.
        let known = self.reset.has(&[Element::field("spec")]);
        Ok(Some(if known { compare_without(&of, &old, &new, self.reset) } else { compare(&of, &old, &new) }))
    }
}
