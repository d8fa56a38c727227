//! Provider `kms` (version 2): seeds that a plug-in seals, and keys derived from them.
//!
//! Shape: `k8s:enc:kms:v2:<name>:`, followed by a protobuf message. It has the sealed value as in form `aesgcm:v2` of
//! [`super::local`], the key id of the plug-in, the seed as the plug-in sealed it, and the plug-in's annotations.
//!
//! A process seals all values with one seed per key id of the plug-in. It keeps the seed in memory, so the plug-in is
//! called about once a minute, however many values are written.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aws_lc_rs::aead::AES_256_GCM;
use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use prost::Message;

use super::EncryptionError;
use super::local::Seed;

const PREFIX: &str = "k8s:enc:kms:v2:";

/// Length of a seed.
pub const SEED: usize = 32;

/// Time after the last good status for which a seed still seals. Upstream's value.
const SEALS_FOR: Duration = Duration::from_secs(3 * 60);

/// Time after its last use for which a seed that only opens values stays in memory. Upstream's value.
const OPENS_FOR: Duration = Duration::from_hours(24);

/// Pause after a plug-in did not open a seed, during which all other seeds that are not in memory fail at once. Otherwise
/// each of many values would wait for the plug-in.
const PAUSE: Duration = Duration::from_secs(5);

/// Largest key id in bytes. Upstream's value.
const KEY_ID: usize = 1024;

/// Largest size of all annotations in bytes. Upstream's value.
const ANNOTATIONS: usize = 32 * 1024;

/// Largest sealed seed in bytes. Upstream's value.
const SEALED_SEED: usize = 1024;

/// Seed as the plug-in has sealed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedSeed {
    /// Identity of the key in the plug-in's system.
    pub key_id: String,
    /// The sealed seed.
    pub ciphertext: Vec<u8>,
    /// Data that the plug-in needs to open it.
    pub annotations: BTreeMap<String, Vec<u8>>,
}

impl SealedSeed {
    /// Checks the sizes, which are limited because each value has a copy.
    ///
    /// # Errors
    /// A text that names the part and the limit.
    pub fn check(&self) -> Result<(), String> {
        let annotations: usize =
            self.annotations.iter().map(|(name, value)| name.len().saturating_add(value.len())).sum();
        for (part, size, limit) in [
            ("key id", self.key_id.len(), KEY_ID),
            ("sealed seed", self.ciphertext.len(), SEALED_SEED),
            ("annotations", annotations, ANNOTATIONS),
        ] {
            if size > limit {
                return Err(format!("its {part} has {size} bytes; at most {limit} are allowed"));
            }
        }
        if self.key_id.is_empty() || self.ciphertext.is_empty() {
            return Err("its answer lacks the key id or the sealed seed".to_owned());
        }
        Ok(())
    }
}

/// Plug-in of a key management system. Each call waits for the plug-in, for as long as its configuration allows.
pub trait KmsPlugin: Send + Sync + std::fmt::Debug {
    /// Opens a sealed seed.
    ///
    /// # Errors
    /// The plug-in's own words.
    fn open(&self, sealed: &SealedSeed) -> Result<Vec<u8>, String>;

    /// Gets the present seed at once, because there is none that seals.
    fn hasten(&self);
}

/// Value in the store, as upstream encodes it.
#[derive(Clone, PartialEq, Message)]
struct Envelope {
    #[prost(bytes = "vec", tag = "1")]
    sealed: Vec<u8>,
    #[prost(string, tag = "2")]
    key_id: String,
    #[prost(bytes = "vec", tag = "3")]
    seed: Vec<u8>,
    #[prost(btree_map = "string, bytes", tag = "4")]
    annotations: BTreeMap<String, Vec<u8>>,
    /// Use of the seed; 1: HKDF-SHA256 derives the key of the value.
    #[prost(int32, tag = "5")]
    kind: i32,
}

/// Use of the seed that this program writes and reads.
const DERIVES: i32 = 1;

/// Seed that seals values.
struct Current {
    seed: Arc<Seed>,
    sealed: SealedSeed,
    /// Last good status of the plug-in with this key id.
    confirmed: Instant,
}

#[derive(Default)]
struct State {
    current: Option<Current>,
    /// Seeds by the digest of their sealed form, with their last use.
    opened: HashMap<Vec<u8>, (Arc<Seed>, Instant)>,
    /// Last failure of the plug-in to open a seed.
    failed: Option<(Instant, String)>,
}

/// Provider with a plug-in.
#[derive(Debug)]
pub struct KmsProvider {
    name: String,
    plugin: Arc<dyn KmsPlugin>,
    seeds: KmsSeeds,
}

/// Seeds of a provider. Clones share them.
#[derive(Clone, Default)]
pub struct KmsSeeds(Arc<Mutex<State>>);

impl std::fmt::Debug for KmsSeeds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KmsSeeds")
    }
}

impl KmsSeeds {
    // Each change is one assignment, which cannot leave a partial result.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Confirms that the plug-in is well and has this key id. Returns false if the present seed is of another one: then a
    /// new seed is needed.
    pub fn confirm(&self, key_id: &str, now: Instant) -> bool {
        match &mut self.state().current {
            Some(current) if current.sealed.key_id == key_id => {
                current.confirmed = now;
                true
            }
            _ => false,
        }
    }

    /// Seals new values with this seed from now on. The former one opens its values.
    pub fn replace(&self, secret: &[u8; SEED], sealed: SealedSeed, now: Instant) {
        let seed = Arc::new(Seed::new(secret, &AES_256_GCM));
        let mut state = self.state();
        state.opened.insert(digest_of(&sealed), (Arc::clone(&seed), now));
        state.current = Some(Current { seed, sealed, confirmed: now });
        state.failed = None;
    }

    /// Reports whether new values can be sealed now.
    pub fn seals(&self, now: Instant) -> bool {
        self.state().current.as_ref().is_some_and(|current| current.seals(now))
    }

    /// Removes seeds that were not used for a day.
    pub fn forget_unused(&self, now: Instant) {
        self.state().opened.retain(|_, (_, used)| now.saturating_duration_since(*used) < OPENS_FOR);
    }

    fn known(&self, digest: &[u8], now: Instant) -> Option<Arc<Seed>> {
        let mut state = self.state();
        let (seed, used) = state.opened.get_mut(digest)?;
        *used = now;
        Some(Arc::clone(seed))
    }
}

impl Current {
    fn seals(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.confirmed) < SEALS_FOR
    }
}

impl KmsProvider {
    /// Creates the provider of a plug-in, with the seeds that another part renews.
    pub fn new(name: String, plugin: Arc<dyn KmsPlugin>, seeds: KmsSeeds) -> Self {
        Self { name, plugin, seeds }
    }

    /// Name of the provider in records, as fingerprints name other keys.
    pub(super) fn id(&self) -> String {
        format!("kms:{}", self.name)
    }

    /// Reports whether new values can be sealed now.
    pub fn is_well(&self) -> bool {
        self.seeds.seals(Instant::now())
    }

    pub(super) fn seal(&self, key: &str, value: &[u8]) -> Result<Bytes, EncryptionError> {
        if !self.is_well() {
            self.plugin.hasten();
        }
        let (seed, sealed_seed) = match &self.seeds.state().current {
            Some(current) if current.seals(Instant::now()) => {
                (Arc::clone(&current.seed), current.sealed.clone())
            }
            Some(_) => return Err(self.error(key, "its status was not good for three minutes")),
            None => return Err(self.error(key, "it has sealed no seed yet")),
        };
        let SealedSeed { key_id, ciphertext, annotations } = sealed_seed;
        let sealed = seed.seal(key, value)?;
        let envelope = Envelope { sealed, key_id, seed: ciphertext, annotations, kind: DERIVES };
        let stored = [PREFIX.as_bytes(), self.name.as_bytes(), b":", &envelope.encode_to_vec()].concat();
        Ok(Bytes::from(stored))
    }

    pub(super) fn open(&self, key: &str, stored: &[u8]) -> Option<Result<Bytes, EncryptionError>> {
        let envelope = self.envelope(stored)?;
        Some(envelope.ok_or_else(|| EncryptionError::Damaged(key.to_owned())).and_then(|envelope| {
            let Envelope { sealed, key_id, seed, annotations, .. } = envelope;
            self.seed(key, &SealedSeed { key_id, ciphertext: seed, annotations })?.open(key, &sealed)
        }))
    }

    /// Returns true if a value has the key id with which new ones are sealed.
    pub(super) fn is_current(&self, stored: &[u8]) -> bool {
        let key_id = self.envelope(stored).flatten().map(|envelope| envelope.key_id);
        let state = self.seeds.state();
        key_id.is_some() && key_id.as_ref() == state.current.as_ref().map(|current| &current.sealed.key_id)
    }

    /// Returns the parsed value; `None` if it is of another provider, `Some(None)` if it cannot be parsed.
    fn envelope(&self, stored: &[u8]) -> Option<Option<Envelope>> {
        let rest = stored.strip_prefix(PREFIX.as_bytes())?.strip_prefix(self.name.as_bytes())?;
        let envelope = Envelope::decode(rest.strip_prefix(b":")?).ok();
        Some(envelope.filter(|envelope| envelope.kind == DERIVES))
    }

    fn seed(&self, key: &str, sealed: &SealedSeed) -> Result<Arc<Seed>, EncryptionError> {
        let digest = digest_of(sealed);
        if let Some(known) = self.seeds.known(&digest, Instant::now()) {
            return Ok(known);
        }
        sealed.check().map_err(|detail| self.error(key, &detail))?;
        if let Some((at, detail)) = self.seeds.state().failed.clone()
            && at.elapsed() < PAUSE
        {
            return Err(self.error(key, &detail));
        }
        let opened = self.plugin.open(sealed).and_then(|seed| match seed.len() {
            SEED => Ok(seed),
            other => Err(format!("it returned a seed of {other} bytes instead of {SEED}")),
        });
        let mut state = self.seeds.state();
        match opened {
            Ok(seed) => {
                let seed = Arc::new(Seed::new(&seed, &AES_256_GCM));
                state.opened.insert(digest, (Arc::clone(&seed), Instant::now()));
                Ok(seed)
            }
            Err(detail) => {
                state.failed = Some((Instant::now(), detail.clone()));
                Err(self.error(key, &detail))
            }
        }
    }

    fn error(&self, key: &str, detail: &str) -> EncryptionError {
        EncryptionError::Kms { key: key.to_owned(), plugin: self.name.clone(), detail: detail.to_owned() }
    }
}

/// Returns the digest of a sealed seed, which names it in memory.
fn digest_of(sealed: &SealedSeed) -> Vec<u8> {
    let SealedSeed { key_id, ciphertext, annotations } = sealed;
    let (key_id, ciphertext, annotations) = (key_id.clone(), ciphertext.clone(), annotations.clone());
    let parts = Envelope { sealed: Vec::new(), key_id, seed: ciphertext, annotations, kind: DERIVES };
    digest(&SHA256, &parts.encode_to_vec()).as_ref().to_vec()
}
