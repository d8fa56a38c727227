//! Signing keys of the tokens: sealed in the store, one generation after the other.
//!
//! Each key has a number. A new one is published a day before it signs, so that programs that keep the published keys
//! for a while know it. An old one is removed when its last token has ended.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use arc_swap::ArcSwap;
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jiff::Timestamp;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::claims::Claims;
use crate::sealed_values::SealedValues;

/// Kind of the values in the store.
const KIND: &str = "keys";

/// Time for which a key signs. As long as the serving certificates of most servers; a token lives a day at most.
const LIFETIME: Duration = Duration::from_hours(90 * 24);

/// Time for which a key is published before it signs.
const NOTICE: Duration = Duration::from_hours(24);

/// Interval at which the keys are read again.
const POLL_INTERVAL: Duration = Duration::from_secs(30);

/// Shortest time between two reads because of a token with an unknown key. Another replica may have made the key, but
/// anybody can send such tokens.
const SHORTEST: Duration = Duration::from_secs(1);

/// Key, as it is stored.
#[derive(Serialize, Deserialize)]
struct StoredKey {
    /// Time of its creation, in Unix seconds.
    created: i64,
    /// Private key in PKCS #8, in base64.
    key: String,
}

/// Key, ready for use.
struct SigningKey {
    created: Timestamp,
    /// Id: the hash of the public key, as upstream makes it.
    id: String,
    x: String,
    y: String,
    private: EncodingKey,
    public: DecodingKey,
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SigningKey").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Signing keys, from the oldest to the newest.
#[derive(Debug)]
pub(super) struct SigningKeys {
    values: SealedValues,
    /// Longest lifetime of a token.
    longest: Duration,
    known: ArcSwap<Vec<(u64, SigningKey)>>,
    read: tokio::sync::Mutex<Option<Instant>>,
}

impl SigningKeys {
    pub(super) fn new(values: SealedValues, longest: Duration) -> Self {
        Self { values, longest, known: ArcSwap::default(), read: tokio::sync::Mutex::default() }
    }

    /// Signs claims with the key of this time.
    ///
    /// # Errors
    /// The keys cannot be read from the store.
    pub(super) async fn sign(&self, claims: &Claims, now: Timestamp) -> anyhow::Result<String> {
        if self.known.load().is_empty() {
            self.refresh(now).await?;
        }
        let keys = self.known.load();
        let created: Vec<Timestamp> = keys.iter().map(|(_, key)| key.created).collect();
        let (_, key) =
            signing(&created, now).and_then(|index| keys.get(index)).context("no key can be used")?;
        let header = Header { kid: Some(key.id.clone()), typ: None, ..Header::new(Algorithm::ES256) };
        Ok(jsonwebtoken::encode(&header, claims, &key.private)?)
    }

    /// Returns the claims of a token with a good signature; `None` for any other token.
    ///
    /// # Errors
    /// The keys cannot be read from the store.
    pub(super) async fn verify(&self, token: &str) -> anyhow::Result<Option<Claims>> {
        let Ok(header) = jsonwebtoken::decode_header(token) else { return Ok(None) };
        let Some(id) = header.kid.filter(|_| header.alg == Algorithm::ES256) else { return Ok(None) };
        if !self.known.load().iter().any(|(_, key)| key.id == id) {
            self.refresh_for_unknown().await?;
        }
        let keys = self.known.load();
        let Some((_, key)) = keys.iter().find(|(_, key)| key.id == id) else { return Ok(None) };
        let mut validation = Validation::new(Algorithm::ES256);
        // The claims are checked by ours, with words that name the claim.
        (validation.validate_exp, validation.validate_aud) = (false, false);
        validation.required_spec_claims.clear();
        Ok(jsonwebtoken::decode(token, &key.public, &validation).ok().map(|data| data.claims))
    }

    /// Returns the public keys as JSON Web Keys.
    pub(super) fn published(&self) -> Vec<Value> {
        let jwk = |key: &SigningKey| json!({"use": "sig", "kty": "EC", "kid": key.id, "crv": "P-256", "alg": "ES256", "x": key.x, "y": key.y});
        self.known.load().iter().map(|(_, key)| jwk(key)).collect()
    }

    /// Reads the keys until `shutdown`, makes a new one in time, and removes those whose tokens have ended.
    pub(super) async fn follow(&self, shutdown: CancellationToken) {
        let mut outage = storage_contract::Outage::default();
        loop {
            match self.refresh(Timestamp::now()).await {
                Ok(()) => outage = storage_contract::Outage::default(),
                Err(error) if outage.should_log() => {
                    tracing::warn!(
                        "the signing keys of service accounts cannot be read; retrying: {error:#}"
                    );
                }
                Err(_) => {}
            }
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
        }
    }

    async fn refresh_for_unknown(&self) -> anyhow::Result<()> {
        let is_due = self.read.lock().await.is_none_or(|at| at.elapsed() >= SHORTEST);
        if is_due { self.refresh(Timestamp::now()).await } else { Ok(()) }
    }

    /// Reads the keys, and makes or removes one if it is time.
    pub(super) async fn refresh(&self, now: Timestamp) -> anyhow::Result<()> {
        let mut read = self.read.lock().await;
        let mut numbers = self.load().await?;
        let newest = self.known.load().last().map(|(number, key)| (*number, key.created));
        let last = numbers.last().copied();
        let is_due = match (last, newest) {
            (None, _) => true,
            // A key that cannot be opened is another server's: this one makes none beside it.
            (Some(last), Some((number, created))) => number == last && is_old(created, now),
            (Some(_), None) => {
                bail!("no key of this server opens the signing keys; compare the encryption files")
            }
        };
        if is_due {
            let number = last.map_or(1, |last| last.saturating_add(1));
            // Another replica may be faster. Its key is as good.
            self.values.create(KIND, &name(number), &StoredKey::generate(now)?).await?;
            numbers = self.load().await?;
        }
        self.values.reseal(KIND).await?;
        if let Some(number) = self.ended(now).filter(|number| numbers.contains(number)) {
            self.values.remove(KIND, &name(number)).await?;
            self.load().await?;
        }
        *read = Some(Instant::now());
        Ok(())
    }

    /// Reads all keys. Returns the numbers of those in the store, also of those that cannot be opened.
    async fn load(&self) -> anyhow::Result<Vec<u64>> {
        let mut numbers = Vec::new();
        self.values.scan(KIND, |name, _| numbers.extend(name.parse::<u64>().ok())).await?;
        numbers.sort_unstable();
        let mut keys = Vec::new();
        for number in &numbers {
            if let Some(stored) = self.values.read::<StoredKey>(KIND, &name(*number)).await? {
                keys.push((*number, stored.open().with_context(|| format!("signing key {number}"))?));
            }
        }
        self.known.store(Arc::new(keys));
        Ok(numbers)
    }

    /// Returns the number of the oldest key, if its last token has ended.
    fn ended(&self, now: Timestamp) -> Option<u64> {
        let keys = self.known.load();
        let ((number, _), (_, next)) = (keys.first()?, keys.get(1)?);
        let end = next.created.checked_add(NOTICE).ok()?.checked_add(self.longest).ok()?;
        (end.checked_add(NOTICE).ok()? < now).then_some(*number)
    }
}

impl StoredKey {
    fn generate(now: Timestamp) -> anyhow::Result<Self> {
        let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        Ok(Self { created: now.as_second(), key: STANDARD.encode(pair.serialize_der()) })
    }

    fn open(&self) -> anyhow::Result<SigningKey> {
        // The errors of the decoders may quote the key.
        let der = STANDARD.decode(&self.key).map_err(|_| anyhow::anyhow!("is not base64"))?;
        let pair = KeyPair::try_from(der.as_slice()).map_err(|_| anyhow::anyhow!("is no private key"))?;
        // A point of the curve: the byte 4 and two numbers of 32 bytes.
        let Some((4, point)) = pair.der_bytes().split_first() else { bail!("is no key of P-256") };
        let (x, y) = point.split_at_checked(32).context("is no key of P-256")?;
        let [x, y] = [x, y].map(|number| URL_SAFE_NO_PAD.encode(number));
        Ok(SigningKey {
            created: Timestamp::from_second(self.created)?,
            id: URL_SAFE_NO_PAD.encode(digest(&SHA256, &pair.subject_public_key_info())),
            public: DecodingKey::from_ec_components(&x, &y)?,
            private: EncodingKey::from_ec_der(&der),
            x,
            y,
        })
    }
}

/// Returns the name of a key in the store; the order of the names is that of the numbers.
fn name(number: u64) -> String {
    format!("{number:08}")
}

fn is_old(created: Timestamp, now: Timestamp) -> bool {
    created.checked_add(LIFETIME).is_ok_and(|end| end <= now)
}

/// Returns the index of the key that signs: the newest that was published long enough, or the first of all.
fn signing(created: &[Timestamp], now: Timestamp) -> Option<usize> {
    let is_known = |at: &Timestamp| at.checked_add(NOTICE).is_ok_and(|from| from <= now);
    created.iter().rposition(is_known).or_else(|| (!created.is_empty()).then_some(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_key_signs_a_day_after_it_was_published_and_the_first_one_at_once() {
        let at = |hours: i64| Timestamp::from_second(hours * 3600).unwrap();
        assert_eq!(signing(&[], at(0)), None);
        assert_eq!(signing(&[at(100)], at(100)), Some(0));
        assert_eq!(signing(&[at(0), at(100)], at(123)), Some(0));
        assert_eq!(signing(&[at(0), at(100)], at(124)), Some(1));
        assert!(!is_old(at(0), at(90 * 24 - 1)) && is_old(at(0), at(90 * 24)));
    }
}
