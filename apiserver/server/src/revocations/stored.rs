//! Stored CertificateRevocation, read as far as possible: one that is damaged must not stop the others.

use apiserver_access::Revocation;
use apiserver_machinery::selectors::{FieldSelector, LabelSelector};
use apiserver_machinery::status::ApiError;
use apiserver_machinery::store::{Freshness, ListRequest, ObjectStore, RevisionMatch};
use apiserver_types::{CertificateRevocation, Described};
use jiff::Timestamp;
use serde_json::Value;

/// Remedy of an object that cannot be read. The API cannot delete one that cannot be decoded.
const REMEDY: &str = "Create another one for the same certificates";

/// Stored revocation, as far as it can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredRevocation {
    /// Selection of certificates; `None` if the object has none that can be read.
    pub(super) selection: Option<Revocation>,
    /// Text for the log if a part of the object cannot be read.
    pub(super) error: Option<String>,
}

impl StoredRevocation {
    /// Reads an object. If only its time cannot be read, it selects all certificates of its user or group.
    pub(super) fn read(object: &Value) -> Self {
        let time = issued_before(object);
        let selection = selection(object, time.unwrap_or(i64::MAX));
        let effect = match &selection {
            None => Some("it names no certificate that can be read, and revokes nothing"),
            Some(Revocation::User { .. } | Revocation::Group { .. }) if time.is_none() => {
                Some("its time cannot be read, and it revokes all certificates of its user or group")
            }
            Some(_) => None,
        };
        let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let error = effect
            .map(|effect| format!("CertificateRevocation {name}: {effect}. {REMEDY}, and delete this one"));
        Self { selection, error }
    }

    /// Creates a revocation that cannot be decoded at all.
    pub(super) fn undecodable(why: &str) -> Self {
        let error =
            format!("a CertificateRevocation cannot be decoded, and revokes nothing: {why}. {REMEDY}");
        Self { selection: None, error: Some(error) }
    }
}

/// Returns the certificates that an object selects; `None` if it selects none, which validation refuses.
fn selection(object: &Value, issued_before: i64) -> Option<Revocation> {
    let spec = object.get("spec")?;
    let text = |field: &str| spec.get(field).and_then(Value::as_str).map(str::to_owned);
    if let Some(fingerprint) = text("fingerprint") {
        return Some(Revocation::Fingerprint(fingerprint));
    }
    if let Some((issuer, number)) = text("issuer").zip(text("serialNumber")) {
        return Some(Revocation::Serial { issuer, number });
    }
    if let Some(name) = text("user") {
        return Some(Revocation::User { name, issued_before });
    }
    let name = text("group")?;
    Some(Revocation::Group { name, issued_before })
}

/// Returns the time before which the revoked certificates were issued, in seconds since 1970. Default: the creation of
/// the object. `None` if it cannot be read.
fn issued_before(object: &Value) -> Option<i64> {
    let given = object.pointer("/spec/issuedBefore").filter(|time| !time.is_null());
    let time = given.or_else(|| object.pointer("/metadata/creationTimestamp"))?;
    time.as_str()?.parse::<Timestamp>().ok().map(Timestamp::as_second)
}

/// Reads all revocations from the store. Unlike a list of the API, it does not fail as a whole because of one object
/// that cannot be decoded. `None` if the store does not answer, or if an object may be readable later.
pub(super) async fn all(objects: &ObjectStore) -> Option<Vec<StoredRevocation>> {
    // Before that, the cache is empty.
    if !objects.is_ready() {
        return None;
    }
    let kind = CertificateRevocation::DESCRIPTOR;
    let kind = objects.kind_of(kind.group, kind.plural)?;
    let request = ListRequest {
        namespace: String::new(),
        labels: LabelSelector::default(),
        fields: FieldSelector::default(),
        limit: 0,
        token: None,
        revision: RevisionMatch::AtLeast(Freshness::Consistent),
    };
    let listing = objects.list(kind, &request).await.ok()?;
    let read = listing.items.iter().map(|item| match item.to_value() {
        Ok(object) => Some(StoredRevocation::read(&object)),
        // An encryption key is missing for the moment: all certificates wait for it.
        Err(error) if ApiError::from(&error).code == 503 => None,
        Err(error) => Some(StoredRevocation::undecodable(&error.to_string())),
    });
    read.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns the selection of an object with this spec, and whether it has an error.
    fn read(spec: &Value) -> (Option<Revocation>, bool) {
        let metadata = json!({"name": "left", "creationTimestamp": "1970-01-01T00:00:50Z"});
        let found = StoredRevocation::read(&json!({"metadata": metadata, "spec": spec}));
        if let Some(error) = &found.error {
            assert!(error.starts_with("CertificateRevocation left: "), "{error}");
        }
        (found.selection, found.error.is_some())
    }

    #[test]
    fn an_object_is_read_as_far_as_possible() {
        let user = |issued_before| Some(Revocation::User { name: "alice".to_owned(), issued_before });
        let group = |issued_before| Some(Revocation::Group { name: "ops".to_owned(), issued_before });
        let serial = Revocation::Serial { issuer: "ca".to_owned(), number: "1f".to_owned() };
        for (spec, expected, has_error) in [
            (json!({"user": "alice"}), user(50), false),
            (json!({"user": "alice", "issuedBefore": null}), user(50), false),
            (json!({"user": "alice", "issuedBefore": "1970-01-01T00:01:00Z"}), user(60), false),
            (json!({"user": "alice", "issuedBefore": 60}), user(i64::MAX), true),
            (json!({"group": "ops", "issuedBefore": "soon"}), group(i64::MAX), true),
            (json!({"group": "ops"}), group(50), false),
            (json!({"fingerprint": "ab"}), Some(Revocation::Fingerprint("ab".to_owned())), false),
            (json!({"serialNumber": "1f", "issuer": "ca", "reason": 5}), Some(serial), false),
            (json!({"serialNumber": 31, "issuer": "ca"}), None, true),
            (json!({"user": ["alice"]}), None, true),
            (json!("alice"), None, true),
            (Value::Null, None, true),
        ] {
            assert_eq!(read(&spec), (expected, has_error), "{spec}");
        }
        let without_time = StoredRevocation::read(&json!({"spec": {"user": "alice"}}));
        assert_eq!(without_time.selection, user(i64::MAX));
    }
}
