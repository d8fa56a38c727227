//! Identity of the host cluster: the pinned uid, and the last version of an object that the host rarely changes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use k8s_openapi::api::core::v1::ConfigMap;
use serde::{Deserialize, Serialize};

/// Version of the ConfigMap of the front proxy. A host that was restored from an older backup has a lower one with
/// other data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostVersion {
    /// Resource version.
    pub version: u64,
    /// Hash of the data.
    pub hash: String,
}

impl HostVersion {
    /// Returns the version of a ConfigMap; `None` if its resource version is no number.
    pub(crate) fn of(found: &ConfigMap) -> Option<Self> {
        let version = found.metadata.resource_version.as_deref()?.parse().ok()?;
        let data = serde_json::to_vec(&found.data).ok()?;
        let hash = URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, &data));
        Some(Self { version, hash })
    }

    /// Returns true if a host with this version is older than one with the version `known`.
    fn is_older_than(&self, known: &Self) -> bool {
        self.version < known.version && self.hash != known.hash
    }
}

/// Identity of the host: the uid of the namespace `kube-system` at the first contact. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct HostPin {
    known: Arc<Mutex<Known>>,
    /// Uid that replaces the pinned one, as the operator has set it.
    accepted: Option<String>,
    /// Version of an older host that the operator has accepted.
    accepted_version: Option<u64>,
}

#[derive(Debug, Default)]
struct Known {
    uid: Option<String>,
    version: Option<HostVersion>,
}

impl HostPin {
    /// Creates a pin. `accepted` is `UID` or `UID@VERSION`. A host with this uid replaces the pinned one. A host with
    /// this version is used although it is older than the known one.
    pub fn new(accepted: Option<&str>) -> Self {
        let (accepted, version) = match accepted.map(|text| (text, text.split_once('@'))) {
            Some((_, Some((uid, version)))) => (Some(uid), version.parse::<u64>().ok()),
            Some((uid, None)) => (Some(uid), None),
            None => (None, None),
        };
        Self { known: Arc::default(), accepted: accepted.map(str::to_owned), accepted_version: version }
    }

    /// Returns the pinned uid.
    pub fn uid(&self) -> Option<String> {
        self.lock().uid.clone()
    }

    /// Returns the uid that the operator has accepted.
    pub fn accepted(&self) -> Option<&str> {
        self.accepted.as_deref()
    }

    /// Sets the pin to the record of an earlier process, which counts more than a contact of this one. A contact with
    /// the accepted host counts more than the record.
    pub fn restore(&self, uid: String) {
        let mut known = self.lock();
        if known.uid.is_none() || known.uid != self.accepted {
            known.uid = Some(uid);
        }
    }

    /// Returns the last version of the host.
    pub fn version(&self) -> Option<HostVersion> {
        self.lock().version.clone()
    }

    /// Sets the version to the record of an earlier process, unless this process has seen a higher one.
    pub fn restore_version(&self, version: HostVersion) {
        let mut known = self.lock();
        if known.version.as_ref().is_none_or(|known| known.version < version.version) {
            known.version = Some(version);
        }
    }

    /// Returns true if a stored uid may be replaced by the pinned one.
    pub fn replaces(&self, stored: &str) -> bool {
        let pinned = self.uid();
        pinned.is_some() && pinned == self.accepted && pinned.as_deref() != Some(stored)
    }

    /// Returns true if a host with this uid is the pinned one. The first one is pinned.
    pub(crate) fn admits(&self, found: &str) -> bool {
        let mut known = self.lock();
        let is_known = known.uid.as_deref() == Some(found);
        if !is_known && (known.uid.is_none() || self.accepted.as_deref() == Some(found)) {
            *known = Known { uid: Some(found.to_owned()), version: None };
            return true;
        }
        is_known
    }

    /// Returns true if a host with this version is not older than the known one, or if the operator has accepted it.
    pub(crate) fn admits_version(&self, found: &HostVersion) -> bool {
        let mut known = self.lock();
        let is_older = known.version.as_ref().is_some_and(|known| found.is_older_than(known));
        if is_older && self.accepted_version != Some(found.version) {
            return false;
        }
        known.version = Some(found.clone());
        true
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(version: u64, hash: &str) -> HostVersion {
        HostVersion { version, hash: hash.to_owned() }
    }

    #[test]
    fn ho_03_a_lower_version_with_other_data_is_an_older_host() {
        let pin = HostPin::default();
        assert!(pin.admits("u1") && pin.admits_version(&version(900, "new")));
        assert!(!pin.admits_version(&version(100, "old")));
        assert_eq!(pin.version(), Some(version(900, "new")), "the older one is not known");
        assert!(pin.admits_version(&version(901, "other")), "a rotation");
        assert!(pin.admits_version(&version(150, "other")), "the same data");
        pin.restore_version(version(100, "old"));
        assert_eq!(pin.version(), Some(version(150, "other")));
        pin.restore_version(version(900, "new"));
        assert!(!pin.admits_version(&version(150, "other")), "an earlier process has seen a later one");
    }

    #[test]
    fn ho_03_an_older_host_is_used_if_the_operator_accepts_its_version() {
        let pin = HostPin::new(Some("u1@100"));
        assert!(pin.admits("u1") && pin.admits_version(&version(900, "new")));
        assert!(!pin.admits_version(&version(99, "old")) && pin.admits_version(&version(100, "old")));
        assert_eq!((pin.version(), pin.accepted()), (Some(version(100, "old")), Some("u1")));
    }

    #[test]
    fn ho_03_another_host_begins_without_a_version_and_its_pin_stays() {
        let pin = HostPin::new(Some("u2"));
        pin.restore("u1".to_owned());
        assert!(pin.admits("u1") && pin.admits_version(&version(900, "new")));
        assert!(pin.admits("u2") && pin.admits_version(&version(1, "old")));
        pin.restore("u1".to_owned());
        assert_eq!(pin.uid().as_deref(), Some("u2"), "a store that answers late has the old pin");
        assert!(!pin.admits("u1"));
    }

    #[test]
    fn the_version_of_a_config_map_depends_on_its_data() {
        let map = |version: &str, text: &str| -> ConfigMap {
            let value = serde_json::json!({"metadata": {"resourceVersion": version}, "data": {"a": text}});
            serde_json::from_value(value).unwrap()
        };
        let [first, second, same] = [("1", "x"), ("2", "y"), ("3", "x")]
            .map(|(version, text)| HostVersion::of(&map(version, text)).unwrap());
        assert!(first.is_older_than(&second) && !first.is_older_than(&same) && !second.is_older_than(&first));
        assert_eq!(HostVersion::of(&map("x", "x")), None);
    }
}
