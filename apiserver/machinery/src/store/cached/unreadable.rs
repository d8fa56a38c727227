//! Stored value that cannot be read: its error, and another attempt while a KMS plug-in may open it later.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use storage_contract::Entry;

use super::encoded;
use super::object::CachedObject;
use crate::encryption::{Encryption, EncryptionError};
use crate::resource::{Registry, Resource};
use crate::status::ApiError;

/// Error of a stored value. It names the key.
#[derive(Debug, Clone)]
pub struct Unreadable {
    why: String,
    retry: Option<Arc<Retry>>,
}

impl Unreadable {
    /// Creates the error of a value that stays as it is.
    pub(crate) fn lasting(why: String) -> Self {
        Self { why, retry: None }
    }

    /// Creates the error of a value that may be readable later.
    pub(super) fn passing(error: &EncryptionError, retry: Retry) -> Self {
        Self { why: error.to_string(), retry: Some(Arc::new(retry)) }
    }

    /// Tries to read the value again, if that may succeed. The encryption has pauses between its attempts.
    pub(super) fn retried(&self) -> Option<Arc<CachedObject>> {
        self.retry.as_ref()?.read()
    }

    /// Returns the object of an earlier attempt.
    pub(super) fn known(&self) -> Option<Arc<CachedObject>> {
        let read = self.retry.as_ref()?.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.clone()
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl From<Unreadable> for ApiError {
    fn from(error: Unreadable) -> Self {
        match error.retry {
            Some(_) => Self::unavailable(error.why),
            None => Self::internal(error.why),
        }
    }
}

impl From<&Unreadable> for ApiError {
    fn from(error: &Unreadable) -> Self {
        error.clone().into()
    }
}

/// Entry that is read again, with all that this needs.
#[derive(Debug)]
pub(super) struct Retry {
    pub(super) registry: Arc<Registry>,
    pub(super) resource: Arc<Resource>,
    pub(super) encryption: Arc<Encryption>,
    pub(super) entry: Entry,
    /// The object, once it could be read or is damaged.
    pub(super) read: Mutex<Option<Arc<CachedObject>>>,
}

impl Retry {
    fn read(&self) -> Option<Arc<CachedObject>> {
        let mut read = match self.read.try_lock() {
            Ok(read) => read,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Another request waits for the plug-in. One is enough.
            Err(TryLockError::WouldBlock) => return None,
        };
        if read.is_none() {
            let opened = encoded::open(&self.resource, &self.encryption, &self.entry);
            if opened.as_ref().is_err_and(EncryptionError::may_pass) {
                return None;
            }
            let object = CachedObject::of_opened(&self.registry, &self.resource, &self.entry, opened);
            *read = Some(Arc::new(object));
        }
        read.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Instant;

    use bytes::Bytes;
    use serde_json::json;
    use storage_contract::{Key, Revision};

    use super::*;
    use crate::encryption::{KmsPlugin, KmsProvider, KmsSeeds, OpenError, Provider, Rules, SEED, SealedSeed};
    use crate::resource::tests::gadget;

    /// Plug-in that answers or not.
    #[derive(Debug)]
    struct Plugin(bool);

    impl KmsPlugin for Plugin {
        fn open(&self, _: &SealedSeed) -> Result<Vec<u8>, OpenError> {
            if self.0 { Ok(vec![1; SEED]) } else { Err(OpenError::NoAnswer("no answer".to_owned())) }
        }

        fn hasten(&self) {}
    }

    fn rules(seeds: KmsSeeds, answers: bool) -> Rules {
        let provider = KmsProvider::new("vault".to_owned(), Arc::new(Plugin(answers)), seeds);
        Rules::from([(gadget().qualified_plural(), vec![Provider::Kms(Arc::new(provider))])])
    }

    fn sealed(value: &'static [u8]) -> Entry {
        let (key, seeds) = (Key::new("/capstan/toys/gadgets/n/a").unwrap(), KmsSeeds::default());
        let seed = SealedSeed { key_id: "k".to_owned(), ciphertext: vec![1], annotations: BTreeMap::new() };
        seeds.replace(&[1; SEED], seed, Instant::now());
        let writer = Encryption::new(rules(seeds, true));
        let value = writer.seal(&gadget().qualified_plural(), key.as_str(), Bytes::from_static(value));
        Entry { key, value: value.unwrap(), modified: Revision::new(7), created: Revision::new(7) }
    }

    #[test]
    fn an_object_whose_seed_could_not_be_opened_is_read_once_the_plugin_answers() {
        let resource = Arc::new(gadget());
        let reader = Arc::new(Encryption::new(rules(KmsSeeds::default(), false)));
        let item = |value: &'static [u8]| {
            let registry = Arc::<Registry>::default();
            Arc::new(CachedObject::of_entry(&registry, &resource, &reader, &sealed(value)))
        };
        let object =
            br#"{"apiVersion": "toys.example.com/v1", "metadata": {"name": "a"}, "spec": {"colour": "red"}}"#;
        let (readable, damaged) = (item(object), item(b"{"));
        for pending in [&readable, &damaged] {
            let error = ApiError::from(pending.view(&resource).to_value().unwrap_err());
            assert_eq!(error.code, 503, "{error}");
            assert!(error.message.contains("/capstan/toys/gadgets/n/a"), "{error}");
        }
        reader.replace(rules(KmsSeeds::default(), true));
        let read = readable.view(&resource);
        let mut shown = read.to_value().unwrap();
        assert_eq!(shown["spec"], json!({"colour": "red"}));
        assert_eq!(shown["metadata"].take(), json!({"name": "a", "resourceVersion": "7"}));
        assert!(Arc::ptr_eq(&read, &readable.view(&resource)), "it is read once");
        let deleted = Arc::new(readable.at(Revision::new(9))).view(&resource);
        assert_eq!(deleted.to_value().unwrap()["metadata"]["resourceVersion"], "9");
        let error = ApiError::from(damaged.view(&resource).to_value().unwrap_err());
        assert_eq!(error.code, 500, "{error}");
    }
}
