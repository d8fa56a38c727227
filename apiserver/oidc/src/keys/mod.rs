//! Keys of an issuer, fetched from it and kept while it is silent.

mod copies;
mod fetch;
mod set;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use reqwest::{Client, Url};
use tokio::time::Instant;

use crate::config::Issuer;
use crate::metrics::KeyMetrics;
pub use copies::{KeyCopies, KeyCopy};
pub(crate) use fetch::{body, root_cause};
pub(crate) use set::{VerificationKey, read};

/// Shortest time between two attempts to fetch the keys: tokens with invented key ids must not flood the issuer.
const PAUSE: Duration = Duration::from_secs(10);

/// Keys of an issuer.
#[derive(Debug)]
pub(crate) struct KeySet {
    pub(crate) keys: Vec<VerificationKey>,
    since: Instant,
    /// Age that the keys had then.
    age: Duration,
    interval: Duration,
}

impl KeySet {
    /// Returns the time since the issuer has sent the keys.
    fn age(&self) -> Duration {
        self.since.elapsed().saturating_add(self.age)
    }

    /// Returns true if a key has this id.
    pub(crate) fn knows(&self, id: &str) -> bool {
        self.keys.iter().any(|key| key.has_id(Some(id)))
    }
}

/// Parts that all sources share.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeyContext {
    pub(crate) copies: Option<Arc<dyn KeyCopies>>,
    pub(crate) metrics: KeyMetrics,
}

/// Source of the keys of an issuer.
#[derive(Debug)]
pub(crate) struct KeySource {
    issuer: Issuer,
    discovery: Url,
    http: Client,
    known: ArcSwapOption<KeySet>,
    /// Begin of the last attempt. The lock is held during an attempt, so that all who wait share it.
    attempt: tokio::sync::Mutex<Option<Instant>>,
    failure: Mutex<Option<String>>,
    context: KeyContext,
    /// Document of the keys that were fetched last.
    document: Mutex<Option<String>>,
    /// Newest copy that is known to be written.
    written: Mutex<Option<KeyCopy>>,
}

impl KeySource {
    /// Creates a source that has fetched nothing yet.
    ///
    /// # Errors
    /// The text names the field.
    pub(crate) fn new(issuer: &Issuer, context: KeyContext) -> Result<Self, String> {
        let document = format!("{}/.well-known/openid-configuration", issuer.url.trim_end_matches('/'));
        let discovery = if issuer.discovery_url.is_empty() { &document } else { &issuer.discovery_url };
        Ok(Self {
            issuer: issuer.clone(),
            discovery: discovery.parse().map_err(|error| format!("{discovery:?} is no URL: {error}"))?,
            http: fetch::client(&issuer.certificate_authority)?,
            known: ArcSwapOption::empty(),
            attempt: tokio::sync::Mutex::default(),
            failure: Mutex::default(),
            context,
            document: Mutex::default(),
            written: Mutex::default(),
        })
    }

    /// Returns true if the source fetches the keys of this issuer from the same place in the same way.
    pub(crate) fn is_for(&self, issuer: &Issuer) -> bool {
        let place =
            |of: &Issuer| (of.url.clone(), of.discovery_url.clone(), of.certificate_authority.clone());
        place(&self.issuer) == place(issuer)
    }

    /// Returns the client that trusts the issuer.
    pub(crate) fn client(&self) -> &Client {
        &self.http
    }

    /// Returns the keys. Before the first success, it waits for an attempt.
    ///
    /// # Errors
    /// The keys were never fetched, or are older than `longest`.
    pub(crate) async fn keys(&self, longest: Duration) -> Result<Arc<KeySet>, String> {
        if self.known.load().is_none() {
            self.fetch().await;
        }
        let cause = || self.failure().clone().unwrap_or_else(|| "no attempt has ended yet".to_owned());
        let issuer = &self.issuer.url;
        let Some(known) = self.known.load_full() else {
            return Err(format!("the keys of the issuer {issuer} were never fetched: {}", cause()));
        };
        if known.age() > longest {
            let age = known.age().as_secs() / 3600;
            return Err(format!("the keys of the issuer {issuer} are {age} h old: {}", cause()));
        }
        Ok(known)
    }

    /// Returns true if the keys should be fetched now.
    pub(crate) fn is_due(&self) -> bool {
        let known = self.known.load();
        known.as_ref().is_none_or(|known| known.age() >= known.interval)
    }

    /// Fetches the keys, unless the last attempt was a moment ago. The last keys stay if it fails.
    pub(crate) async fn fetch(&self) {
        let mut attempt = self.attempt.lock().await;
        if attempt.is_some_and(|last| last.elapsed() < PAUSE) {
            return;
        }
        *attempt = Some(Instant::now());
        let outcome = fetch::fetch(&self.http, &self.discovery, &self.issuer.url).await;
        self.measure(outcome.as_ref().ok().map(|fetched| fetched.document.as_str()));
        match outcome {
            Ok(fetched) => {
                if self.failure().take().is_some() {
                    tracing::info!(issuer = self.issuer.url, "the keys of the issuer are fetched again");
                }
                self.use_keys(fetched.keys, Duration::ZERO, fetched.interval);
                self.write_copy(fetched.document).await;
            }
            Err(error) => {
                let previous = self.failure().replace(error.clone());
                if previous.as_ref() != Some(&error) {
                    tracing::warn!(
                        issuer = self.issuer.url,
                        error,
                        "cannot fetch the keys of the issuer; the last ones stay in force"
                    );
                }
                if self.known.load().is_none() {
                    self.read_copy().await;
                }
            }
        }
    }

    fn measure(&self, document: Option<&str>) {
        let (issuer, metrics) = (&self.issuer.url, &self.context.metrics);
        if let Some(document) = document {
            let mut last = self.document.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(before) = last.replace(document.to_owned()).filter(|before| before != document) {
                metrics.replaced(issuer, &before);
            }
        }
        metrics.fetched(issuer, document);
    }

    fn use_keys(&self, keys: Vec<VerificationKey>, age: Duration, interval: Duration) {
        let known = KeySet { keys, since: Instant::now(), age, interval };
        self.known.store(Some(Arc::new(known)));
    }

    async fn write_copy(&self, document: String) {
        let Some(copies) = &self.context.copies else { return };
        let copy = KeyCopy::new(self.discovery.as_str(), document);
        if !copy.replaces(self.written().as_ref()) {
            return;
        }
        if copies.write(&self.issuer.url, &copy).await {
            *self.written() = Some(copy);
        }
    }

    /// Uses the keys that another process, or this one before a restart, has fetched.
    async fn read_copy(&self) {
        let Some(copies) = &self.context.copies else { return };
        let found = copies.read(&self.issuer.url).await;
        let Some(copy) = found.filter(|copy| copy.place == self.discovery.as_str()) else { return };
        let keys = match copy.age() {
            Some(age) => read(copy.document.as_bytes()).map(|keys| (keys, age)),
            None => Err("they are of a time in the future, so their age is not known".to_owned()),
        };
        match keys {
            Ok((keys, age)) => {
                tracing::info!(issuer = self.issuer.url, ?age, "the kept keys of the issuer are used");
                self.use_keys(keys, age, Duration::ZERO);
            }
            Err(error) => tracing::warn!(issuer = self.issuer.url, error, "the kept keys cannot be used"),
        }
    }

    fn written(&self) -> std::sync::MutexGuard<'_, Option<KeyCopy>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // Nothing under the lock panics.
    fn failure(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
