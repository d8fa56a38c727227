//! Provider `kms` (version 2): seeds that a plug-in seals, and keys derived from them.
//!
//! Shape: `k8s:enc:kms:v2:<name>:`, followed by a protobuf message. It has the sealed value as in form `aesgcm:v2` of
//! [`super::local`], the key id of the plug-in, the seed as the plug-in sealed it, and the plug-in's annotations.
//!
//! A process seals all values with one seed per key id of the plug-in. It keeps the seed in memory, so the plug-in is
//! called about once a minute, however many values are written.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use prost::Message;

use super::EncryptionError;
use super::kms_seeds::{KmsSeeds, SEED, SealedSeed, digest_of};
use super::local::Seed;

const PREFIX: &str = "k8s:enc:kms:v2:";

/// Error of a plug-in that did not open a seed, in its own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenError {
    /// It did not answer, or it cannot work now. This concerns all seeds.
    NoAnswer(String),
    /// It answered that it cannot open this seed, for example because the key was destroyed.
    Refused(String),
}

impl OpenError {
    /// Returns the plug-in's own words.
    pub fn into_detail(self) -> String {
        match self {
            Self::NoAnswer(detail) | Self::Refused(detail) => detail,
        }
    }
}

/// Plug-in of a key management system. Each call waits for the plug-in, for as long as its configuration allows.
pub trait KmsPlugin: Send + Sync + std::fmt::Debug {
    /// Opens a sealed seed.
    ///
    /// # Errors
    /// `NoAnswer`; `Refused`.
    fn open(&self, sealed: &SealedSeed) -> Result<Vec<u8>, OpenError>;

    /// Gets the present seed at once, because there is none that seals.
    fn hasten(&self);
}

/// Value in the store, as upstream encodes it.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Envelope {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) sealed: Vec<u8>,
    #[prost(string, tag = "2")]
    pub(super) key_id: String,
    #[prost(bytes = "vec", tag = "3")]
    pub(super) seed: Vec<u8>,
    #[prost(btree_map = "string, bytes", tag = "4")]
    pub(super) annotations: BTreeMap<String, Vec<u8>>,
    /// Use of the seed; 1: HKDF-SHA256 derives the key of the value.
    #[prost(int32, tag = "5")]
    pub(super) kind: i32,
}

/// Use of the seed that this program writes and reads.
pub(super) const DERIVES: i32 = 1;

/// Provider with a plug-in.
#[derive(Debug)]
pub struct KmsProvider {
    name: String,
    plugin: Arc<dyn KmsPlugin>,
    seeds: KmsSeeds,
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
        let (seed, sealed_seed) =
            self.seeds.sealing(Instant::now()).map_err(|detail| self.error(key, detail))?;
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
        key_id.is_some() && key_id == self.seeds.key_id()
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
        sealed.check().map_err(|detail| self.open_error(key, OpenError::Refused(detail)))?;
        if let Some(error) = self.seeds.recent_error(&digest, Instant::now()) {
            return Err(self.open_error(key, error));
        }
        let opened = self.plugin.open(sealed).and_then(|seed| {
            let wrong = |seed: Vec<u8>| {
                let size = seed.len();
                OpenError::Refused(format!("it returned a seed of {size} bytes instead of {SEED}"))
            };
            <[u8; SEED]>::try_from(seed).map_err(wrong)
        });
        match opened {
            Ok(seed) => Ok(self.seeds.insert(digest, &seed, Instant::now())),
            Err(error) => {
                self.seeds.note_error(digest, error.clone(), Instant::now());
                Err(self.open_error(key, error))
            }
        }
    }

    fn open_error(&self, key: &str, error: OpenError) -> EncryptionError {
        match error {
            OpenError::NoAnswer(detail) => self.error(key, &detail),
            OpenError::Refused(detail) => {
                EncryptionError::KmsRefused { key: key.to_owned(), plugin: self.name.clone(), detail }
            }
        }
    }

    fn error(&self, key: &str, detail: &str) -> EncryptionError {
        EncryptionError::Kms { key: key.to_owned(), plugin: self.name.clone(), detail: detail.to_owned() }
    }
}
