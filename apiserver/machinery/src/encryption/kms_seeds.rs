//! Seeds of a KMS provider: the one that seals new values, and those that open stored ones.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aws_lc_rs::aead::AES_256_GCM;
use aws_lc_rs::digest::{SHA256, digest};
use prost::Message;

use super::kms::{DERIVES, Envelope, OpenError};
use super::local::Seed;

/// Length of a seed.
pub const SEED: usize = 32;

/// Time after the last good status for which a seed still seals. Upstream's value.
const SEALS_FOR: Duration = Duration::from_secs(3 * 60);

/// Time after its last use for which a seed that only opens values stays in memory. Upstream's value.
const OPENS_FOR: Duration = Duration::from_hours(24);

/// Pause after a plug-in did not answer, during which all seeds that are not in memory fail at once. Otherwise each of many
/// values would wait for the plug-in. After an answer, only the seed of the answer has the pause.
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
        check_key_id(&self.key_id)?;
        check_size("sealed seed", self.ciphertext.len(), SEALED_SEED)?;
        check_size("annotations", annotations, ANNOTATIONS)?;
        if self.ciphertext.is_empty() {
            return Err("its answer lacks the sealed seed".to_owned());
        }
        Ok(())
    }
}

/// Checks a key id, which each value has.
///
/// # Errors
/// A text that says that it is missing, or names the limit.
pub fn check_key_id(key_id: &str) -> Result<(), String> {
    if key_id.is_empty() {
        return Err("its answer lacks the key id".to_owned());
    }
    check_size("key id", key_id.len(), KEY_ID)
}

fn check_size(part: &str, size: usize, limit: usize) -> Result<(), String> {
    if size > limit {
        return Err(format!("its {part} has {size} bytes; at most {limit} are allowed"));
    }
    Ok(())
}

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
    /// Last failure of the plug-in to answer.
    failed: Option<(Instant, String)>,
    /// Seeds that the plug-in refused to open, by their digest, with its words.
    refused: HashMap<Vec<u8>, (Instant, String)>,
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

    /// Seals new values with this seed from now on. The former one opens its values, which may have been written just now.
    pub fn replace(&self, secret: &[u8; SEED], sealed: SealedSeed, now: Instant) {
        let seed = Arc::new(Seed::new(secret, &AES_256_GCM));
        let mut state = self.state();
        let former = state.current.as_ref().map(|current| digest_of(&current.sealed));
        if let Some(former) = former
            && let Some((_, used)) = state.opened.get_mut(&former)
        {
            *used = now;
        }
        state.opened.insert(digest_of(&sealed), (Arc::clone(&seed), now));
        state.current = Some(Current { seed, sealed, confirmed: now });
        state.failed = None;
    }

    /// Reports whether new values can be sealed now.
    pub fn seals(&self, now: Instant) -> bool {
        self.state().current.as_ref().is_some_and(|current| current.seals(now))
    }

    /// Removes seeds that were not used for a day, and the errors of earlier attempts. The seed that seals stays: values
    /// that were written a moment ago must be readable when the plug-in goes down.
    pub fn forget_unused(&self, now: Instant) {
        let mut state = self.state();
        let present = state.current.as_ref().map(|current| digest_of(&current.sealed));
        state.opened.retain(|digest, (_, used)| {
            present.as_ref() == Some(digest) || now.saturating_duration_since(*used) < OPENS_FOR
        });
        state.refused.retain(|_, (at, _)| is_recent(*at, now));
    }

    /// Returns the seed that seals now, or the reason why there is none.
    pub(super) fn sealing(&self, now: Instant) -> Result<(Arc<Seed>, SealedSeed), &'static str> {
        match &self.state().current {
            Some(current) if current.seals(now) => Ok((Arc::clone(&current.seed), current.sealed.clone())),
            Some(_) => Err("its status was not good for three minutes"),
            None => Err("it has sealed no seed yet"),
        }
    }

    /// Returns the key id with which new values are sealed.
    pub(super) fn key_id(&self) -> Option<String> {
        self.state().current.as_ref().map(|current| current.sealed.key_id.clone())
    }

    /// Adds a seed that the plug-in has opened.
    pub(super) fn insert(&self, digest: Vec<u8>, secret: &[u8; SEED], now: Instant) -> Arc<Seed> {
        let seed = Arc::new(Seed::new(secret, &AES_256_GCM));
        self.state().opened.insert(digest, (Arc::clone(&seed), now));
        seed
    }

    /// Notes that a seed could not be opened.
    pub(super) fn note_error(&self, digest: Vec<u8>, error: OpenError, now: Instant) {
        let mut state = self.state();
        match error {
            OpenError::NoAnswer(detail) => state.failed = Some((now, detail)),
            OpenError::Refused(detail) => {
                state.refused.insert(digest, (now, detail));
            }
        }
    }

    /// Returns the error of an attempt a moment ago, if another one is too early.
    pub(super) fn recent_error(&self, digest: &[u8], now: Instant) -> Option<OpenError> {
        let state = self.state();
        let recent = |(at, detail): &(Instant, String)| is_recent(*at, now).then(|| detail.clone());
        let refused = state.refused.get(digest).and_then(recent).map(OpenError::Refused);
        refused.or_else(|| state.failed.as_ref().and_then(recent).map(OpenError::NoAnswer))
    }

    pub(super) fn known(&self, digest: &[u8], now: Instant) -> Option<Arc<Seed>> {
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

fn is_recent(at: Instant, now: Instant) -> bool {
    now.saturating_duration_since(at) < PAUSE
}

/// Returns the digest of a sealed seed, which names it in memory.
pub(super) fn digest_of(sealed: &SealedSeed) -> Vec<u8> {
    let SealedSeed { key_id, ciphertext, annotations } = sealed;
    let (key_id, ciphertext, annotations) = (key_id.clone(), ciphertext.clone(), annotations.clone());
    let parts = Envelope { sealed: Vec::new(), key_id, seed: ciphertext, annotations, kind: DERIVES };
    digest(&SHA256, &parts.encode_to_vec()).as_ref().to_vec()
}
