//! Encryption of values at rest: plain JSON, or JSON that one of several providers sealed.
//!
//! Shape: `k8s:enc:<provider>:<version>:<name>:`, followed by the sealed value. Each provider describes its own.

mod error;
mod kms;
mod kms_seeds;
mod local;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;

pub use self::error::EncryptionError;
pub use self::kms::{KmsPlugin, KmsProvider, OpenError};
pub use self::kms_seeds::{KmsSeeds, SEED, SealedSeed, check_key_id};
pub use self::local::{LocalKey, fingerprint};

const PREFIX: &[u8] = b"k8s:enc:";

/// One way to seal values.
#[derive(Debug)]
pub enum Provider {
    /// No encryption.
    Identity,
    /// Key of the configuration file.
    Local(LocalKey),
    /// Key of a key management system.
    Kms(Arc<KmsProvider>),
}

impl Provider {
    /// Creates an AES-GCM provider from a key of 16 or 32 bytes.
    ///
    /// # Errors
    /// `KeyLength`.
    pub fn aes_gcm(name: &str, key: &[u8]) -> Result<Self, EncryptionError> {
        LocalKey::aes_gcm(name, key).map(Self::Local)
    }

    /// Creates an AES-CBC provider from a key of 16 or 32 bytes. It only opens values.
    ///
    /// # Errors
    /// `KeyLength`.
    pub fn aes_cbc(name: &str, key: &[u8]) -> Result<Self, EncryptionError> {
        LocalKey::aes_cbc(name, key).map(Self::Local)
    }

    /// Returns the name of the key in records: its fingerprint, or `kms:` and the name of the plug-in.
    fn id(&self) -> Option<String> {
        match self {
            Self::Identity => None,
            Self::Local(key) => Some(key.fingerprint().to_owned()),
            Self::Kms(kms) => Some(kms.id()),
        }
    }

    fn seal(&self, key: &str, value: Bytes, derived: bool) -> Result<Bytes, EncryptionError> {
        match self {
            Self::Identity => Ok(value),
            Self::Local(local) => local.seal(key, &value, derived),
            Self::Kms(kms) => kms.seal(key, &value),
        }
    }

    /// Opens a sealed value. `None`, if another provider has sealed it.
    fn open(&self, key: &str, stored: &[u8]) -> Option<Result<Bytes, EncryptionError>> {
        match self {
            Self::Identity => None,
            Self::Local(local) => local.open(key, stored),
            Self::Kms(kms) => kms.open(key, stored),
        }
    }

    fn is_current(&self, stored: &[u8], derived: bool) -> bool {
        match self {
            Self::Identity => !stored.starts_with(PREFIX),
            Self::Local(local) => local.is_current(stored, derived),
            Self::Kms(kms) => kms.is_current(stored),
        }
    }

    /// Reports whether the provider seals values.
    pub fn seals(&self) -> bool {
        match self {
            Self::Identity | Self::Kms(_) => true,
            Self::Local(local) => local.seals(),
        }
    }
}

/// Providers by qualified plural, e.g. `secrets` or `machines.cluster.x-k8s.io`.
pub type Rules = BTreeMap<String, Vec<Provider>>;

/// Encryption rules of all resources. One provider of a resource writes, all of them read: the promoted key if the
/// resource lists it, and else the first provider. The rules may change at any time.
#[derive(Debug, Default)]
pub struct Encryption {
    rules: RwLock<Arc<Rules>>,
    /// Key that seals values wherever it is listed.
    promoted: RwLock<Option<String>>,
    /// Local keys seal with derived keys.
    derived: AtomicBool,
    /// No value is sealed: other servers could not open it.
    withheld: AtomicBool,
}

impl Encryption {
    /// Creates the encryption with these rules.
    pub fn new(rules: Rules) -> Self {
        Self { rules: RwLock::new(Arc::new(rules)), ..Self::default() }
    }

    /// Replaces the rules.
    pub fn replace(&self, rules: Rules) {
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
    }

    // The locks are held for one assignment, which cannot leave a partial result.
    fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Seals new values with this key from now on, where a rule lists it. Returns true if that is a change.
    pub fn promote(&self, key: Option<&str>) -> bool {
        let mut promoted = self.promoted.write().unwrap_or_else(PoisonError::into_inner);
        let is_new = promoted.as_deref() != key;
        *promoted = key.map(str::to_owned);
        is_new
    }

    /// Sets whether local keys seal each value with a derived key (form 4) or with the key itself (form 3). Both are read.
    pub fn derive_keys(&self, derived: bool) {
        self.derived.store(derived, Ordering::Release);
    }

    fn is_derived(&self) -> bool {
        self.derived.load(Ordering::Acquire)
    }

    /// Sets whether values that have a rule are refused instead of sealed. It is so while the server lacks a key of the store
    /// and would seal with a key that no other server has.
    pub fn withhold(&self, withheld: bool) {
        self.withheld.store(withheld, Ordering::Release);
    }

    /// Returns the provider that seals values of a rule.
    fn sealing<'r>(&self, providers: &'r [Provider]) -> Option<&'r Provider> {
        let promoted = self.promoted.read().unwrap_or_else(PoisonError::into_inner);
        let is_promoted = |it: &&Provider| it.seals() && promoted.is_some() && it.id() == *promoted;
        providers.iter().find(is_promoted).or_else(|| providers.first())
    }

    /// Seals a value for the store.
    ///
    /// # Errors
    /// `Seal`; `OnlyReads`; `Kms`; `Withheld`.
    pub fn seal(&self, resource: &str, key: &str, value: Bytes) -> Result<Bytes, EncryptionError> {
        let rules = self.rules();
        match rules.get(resource).and_then(|providers| self.sealing(providers)) {
            None => Ok(value),
            Some(_) if self.withheld.load(Ordering::Acquire) => {
                Err(EncryptionError::Withheld(key.to_owned()))
            }
            Some(provider) => provider.seal(key, value, self.is_derived()),
        }
    }

    /// Opens stored bytes. A resource without a rule is stored as it is.
    ///
    /// # Errors
    /// `UnknownKey`; `Damaged`; `Plain`; `Kms`; `KmsRefused`.
    pub fn open(&self, resource: &str, key: &str, stored: &Bytes) -> Result<Bytes, EncryptionError> {
        let rules = self.rules();
        let providers = rules.get(resource);
        if !stored.starts_with(PREFIX) {
            let is_accepted =
                providers.is_none_or(|providers| providers.iter().any(|it| matches!(it, Provider::Identity)));
            return if is_accepted {
                Ok(stored.clone())
            } else {
                Err(EncryptionError::Plain(key.to_owned()))
            };
        }
        open_with(providers.into_iter().flatten(), key, stored)
    }

    /// Returns the resources that have a rule.
    pub fn resources(&self) -> Vec<String> {
        self.rules().keys().cloned().collect()
    }

    /// Returns the names of the keys that seal new values: fingerprints, and the names of plug-ins after `kms:`.
    pub fn sealing_keys(&self) -> BTreeSet<String> {
        self.rules().values().filter_map(|providers| self.sealing(providers)?.id()).collect()
    }

    /// Returns true if each rule seals new values with one of these keys.
    pub fn seals_only_with(&self, is_one: impl Fn(&str) -> bool) -> bool {
        let is_known = |provider: &Provider| provider.id().is_some_and(|id| is_one(&id));
        self.rules().values().filter_map(|providers| self.sealing(providers)).all(is_known)
    }

    /// Returns the names of all keys that open values.
    pub fn opening_keys(&self) -> BTreeSet<String> {
        self.rules().values().flatten().filter_map(Provider::id).collect()
    }

    /// Seals a value with the key of this name, so that each release can open it: a downgrade does not rewrite it. `None`
    /// if there is no such key that seals.
    ///
    /// # Errors
    /// `Seal`; `Kms`.
    pub fn seal_with(&self, id: &str, key: &str, value: &[u8]) -> Result<Option<Bytes>, EncryptionError> {
        let rules = self.rules();
        let mut all = rules.values().flatten();
        let found = all.find(|it| it.seals() && it.id().as_deref() == Some(id));
        let sealed = found.map(|it| it.seal(key, Bytes::copy_from_slice(value), false));
        sealed.transpose()
    }

    /// Opens stored bytes with any key of any rule.
    ///
    /// # Errors
    /// `UnknownKey`; `Damaged`; `Kms`; `KmsRefused`.
    pub fn open_with_any(&self, key: &str, stored: &Bytes) -> Result<Bytes, EncryptionError> {
        open_with(self.rules().values().flatten(), key, stored)
    }

    /// Returns true if stored bytes have the form that a write would give them now, as their prefix says.
    pub fn is_current(&self, resource: &str, stored: &Bytes) -> bool {
        let rules = self.rules();
        match rules.get(resource).and_then(|providers| self.sealing(providers)) {
            None => !stored.starts_with(PREFIX),
            Some(provider) => provider.is_current(stored, self.is_derived()),
        }
    }

    /// Returns true if stored bytes have the form that a write would give them now, and the key that seals new values
    /// opens them. Several keys may have one name, so the prefix alone does not prove it.
    ///
    /// # Errors
    /// `Kms`.
    pub fn is_sealed_as_now(
        &self,
        resource: &str,
        key: &str,
        stored: &Bytes,
    ) -> Result<bool, EncryptionError> {
        if !self.is_current(resource, stored) {
            return Ok(false);
        }
        let rules = self.rules();
        let provider = rules.get(resource).and_then(|providers| self.sealing(providers));
        match provider.and_then(|provider| provider.open(key, stored)) {
            Some(Err(error)) if error.is_temporary() => Err(error),
            Some(result) => Ok(result.is_ok()),
            None => Ok(true),
        }
    }

    /// Reports whether stored bytes are sealed.
    pub fn is_sealed(stored: &[u8]) -> bool {
        stored.starts_with(PREFIX)
    }

    /// Reports whether each KMS plug-in can seal new values.
    pub fn kms_is_well(&self) -> bool {
        self.rules().values().flatten().all(|provider| match provider {
            Provider::Kms(kms) => kms.is_well(),
            _ => true,
        })
    }
}

/// Opens a sealed value with the keys of its name. Several keys may have the same name.
fn open_with<'a>(
    providers: impl Iterator<Item = &'a Provider>,
    key: &str,
    stored: &Bytes,
) -> Result<Bytes, EncryptionError> {
    let mut result = Err(EncryptionError::UnknownKey(key.to_owned()));
    for opened in providers.filter_map(|provider| provider.open(key, stored)) {
        result = opened;
        if result.is_ok() {
            break;
        }
    }
    result
}
