//! Public keys of the host's service accounts, kept for the time in which the host does not answer.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use apiserver_oidc::PublicKeys;
use jiff::Timestamp;
use kube::Client;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use super::issuer::DOCUMENT;
use crate::contact::Contact;
use crate::health::HostHealth;
use crate::host_status::MirrorFacts;

/// Document with the keys.
const KEYS: &str = "/openid/v1/jwks";

/// Interval at which the keys of a host that is up are read again: a host publishes a key before it signs.
const INTERVAL: Duration = Duration::from_secs(3600);

/// Pause after an attempt that failed, and the shortest time between two attempts for an unknown key: anybody can send
/// tokens of an unknown key.
const PAUSE: Duration = Duration::from_secs(60);

/// Longest wait for the keys: a request is waiting.
const PATIENCE: Duration = Duration::from_secs(2);

/// Longest age of the keys.
pub(super) const BOUND: Duration = Duration::from_secs(24 * 3600);

/// Keys as they are kept in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptKeys {
    /// Issuer in the tokens.
    pub issuer: String,
    /// JSON Web Key Set.
    pub document: String,
    /// Time at which the host had them, in Unix seconds.
    pub at: i64,
}

/// Keys of the host. Clones share them.
#[derive(Clone)]
pub struct HostKeys(Arc<Shared>);

struct Shared {
    client: Client,
    health: HostHealth,
    known: RwLock<Option<Known>>,
    /// Begin of the last attempt. The lock is held during an attempt, so that all who wait share it.
    attempt: tokio::sync::Mutex<Option<Instant>>,
    changes: watch::Sender<u64>,
}

#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) keys: PublicKeys,
    pub(super) kept: KeptKeys,
    contact: Contact,
}

impl Known {
    fn of(kept: KeptKeys, contact: Contact) -> Result<Self, String> {
        Ok(Self { keys: PublicKeys::read(kept.document.as_bytes())?, kept, contact })
    }

    pub(super) fn age(&self) -> Duration {
        self.contact.age()
    }
}

impl std::fmt::Debug for HostKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostKeys").finish_non_exhaustive()
    }
}

impl HostKeys {
    /// Creates an empty set of keys. [`HostKeys::follow`] fills it.
    pub fn new(client: Client, health: HostHealth) -> Self {
        let (known, attempt) = (RwLock::default(), tokio::sync::Mutex::default());
        Self(Arc::new(Shared { client, health, known, attempt, changes: watch::Sender::new(0) }))
    }

    /// Sets the keys that an earlier process has kept, unless this one has newer ones.
    pub fn restore(&self, kept: KeptKeys) {
        let contact = Timestamp::from_second(kept.at).map_or_else(|_| Contact::never(), Contact::of);
        match Known::of(kept, contact) {
            Ok(restored) => {
                let mut known = self.0.known.write().unwrap_or_else(PoisonError::into_inner);
                known.get_or_insert(restored);
            }
            Err(error) => tracing::warn!(error, "the kept keys of the host cluster's tokens cannot be used"),
        }
    }

    /// Returns the keys to keep, if there are any.
    pub fn kept(&self) -> Option<KeptKeys> {
        self.known().map(|known| known.kept)
    }

    /// Returns the number of the documents with keys, and their age.
    pub fn copies(&self) -> MirrorFacts {
        let known = self.known();
        let age = known.as_ref().map_or(Duration::MAX, Known::age);
        MirrorFacts::new("token-keys", usize::from(known.is_some()), age, Some(BOUND))
    }

    /// Returns a receiver that is notified after each read.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    pub(super) fn known(&self) -> Option<Known> {
        self.0.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the keys now and then, while the host is reachable. Never returns.
    pub async fn follow(&self) {
        let health = &self.0.health;
        health
            .while_reachable(|| async {
                loop {
                    // The keys of another host are not believed.
                    health.up().await;
                    let pause = if self.read().await { INTERVAL } else { PAUSE };
                    tokio::time::sleep(pause).await;
                }
            })
            .await
    }

    /// Reads the keys for a token whose key is unknown, unless that was tried a short time ago.
    pub(super) async fn read_for_unknown_key(&self) {
        if !self.0.health.state().believes_reviews() {
            return;
        }
        let mut attempt = self.0.attempt.lock().await;
        if attempt.is_none_or(|at| at.elapsed() >= PAUSE) {
            *attempt = Some(Instant::now());
            self.read().await;
        }
    }

    /// Reads the keys. Returns true if they could be read.
    async fn read(&self) -> bool {
        let found = tokio::time::timeout(PATIENCE, self.fetch()).await;
        let found = found.unwrap_or_else(|_| Err("the host did not answer in time".to_owned()));
        let report = |age| self.0.health.metrics().set_mirror_age("keys", age);
        match found {
            Ok(known) => {
                *self.0.known.write().unwrap_or_else(PoisonError::into_inner) = Some(known);
                self.0.changes.send_modify(|count| *count += 1);
                report(Duration::ZERO);
                true
            }
            Err(error) => {
                tracing::warn!(
                    "the keys of the host cluster's tokens cannot be read: {error}. Its tokens are not verified while it \
                     does not answer; apply the output of `capstan host manifests --mirror`"
                );
                report(self.known().map_or(Duration::MAX, |known| known.age()));
                false
            }
        }
    }

    async fn fetch(&self) -> Result<Known, String> {
        let discovery: Value = self.get(DOCUMENT).await?;
        let issuer = discovery.get("issuer").and_then(Value::as_str).filter(|issuer| !issuer.is_empty());
        let issuer = issuer.ok_or_else(|| format!("{DOCUMENT} names no issuer"))?.to_owned();
        let document = self.get(KEYS).await?.to_string();
        let at = Timestamp::now().as_second();
        Known::of(KeptKeys { issuer, document, at }, Contact::now())
            .map_err(|error| format!("{KEYS}: {error}"))
    }

    async fn get(&self, path: &str) -> Result<Value, String> {
        let request = http::Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
        self.0.client.request(request).await.map_err(|error| format!("{path}: {error}"))
    }
}
