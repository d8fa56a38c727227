//! Decision about one value: whether a write would give it another form now. It is pure.

use apiserver_machinery::encryption::{Encryption, EncryptionError};
use apiserver_machinery::resource::{ROOT, Registry};
use bytes::Bytes;
use serde_json::Value;
use storage_contract::Entry;

use crate::sealed_values;

/// Decision about a value.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// The value has the present form.
    Leave,
    /// These bytes replace it.
    Replace(Bytes),
}

/// Returns the kind of a key, as the qualified plural. Values of the server itself are sealed by the rule of Secrets.
pub(crate) fn kind(encryption: &Encryption, entry: &Entry) -> String {
    let rest = entry.key.as_str().strip_prefix(ROOT).unwrap_or_default();
    let mut parts = rest.splitn(3, '/');
    let kind = match (parts.next(), parts.next(), parts.next()) {
        (Some("core"), Some(plural), Some(_)) => plural.to_owned(),
        (Some(group), Some(plural), Some(_)) => format!("{plural}.{group}"),
        _ => rest.to_owned(),
    };
    let has_rule = encryption.resources().contains(&kind);
    if !has_rule && Encryption::is_sealed(&entry.value) { sealed_values::RULE.to_owned() } else { kind }
}

/// Decides about a value of a kind.
///
/// # Errors
/// A value that cannot be opened, decoded, converted or sealed. The error names the key.
pub(super) fn decide(
    encryption: &Encryption,
    registry: Option<&Registry>,
    kind: &str,
    entry: &Entry,
) -> Result<Decision, EncryptionError> {
    let key = entry.key.as_str();
    let plain = encryption.open(kind, key, &entry.value);
    let plain = match plain {
        // The rule may be newer than the value: a value that is not sealed is sealed now.
        Err(EncryptionError::Plain(_)) => entry.value.clone(),
        other => other?,
    };
    let converted = registry.and_then(|registry| converted(registry, kind, &plain));
    if converted.is_none() && encryption.is_sealed_as_now(kind, key, &entry.value)? {
        return Ok(Decision::Leave);
    }
    let sealed = encryption.seal(kind, key, converted.unwrap_or(plain))?;
    Ok(if sealed == entry.value { Decision::Leave } else { Decision::Replace(sealed) })
}

/// Returns an object in the version that is stored now, if it is stored in another one.
fn converted(registry: &Registry, kind: &str, plain: &Bytes) -> Option<Bytes> {
    let stored = registry.stored().iter().find(|it| it.qualified_plural() == kind)?;
    let object: Value = serde_json::from_slice(plain).ok()?;
    let version = object.get("apiVersion")?.as_str()?;
    if version == stored.api_version() {
        return None;
    }
    let is_of_then = |it: &&std::sync::Arc<apiserver_machinery::resource::Resource>| {
        it.qualified_plural() == kind && it.api_version() == version
    };
    let then = registry.resources().iter().find(is_of_then)?;
    let object = then.conversion.as_ref()?.stored(object).ok()?;
    serde_json::to_vec(&object).ok().map(Bytes::from)
}
