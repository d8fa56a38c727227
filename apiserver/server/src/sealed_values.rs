//! Values of the server itself in its own store, sealed as Secrets are.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use apiserver_machinery::encryption::{Encryption, EncryptionError};
use apiserver_machinery::resource::ROOT;
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use storage_contract::{Entry, Key, KeyRange, ListOptions, Store, StoreError};

/// First parts of the keys of values that a server cannot make anew: the CAs, and the keys of tokens.
pub(crate) const FOLDERS: [&str; 2] = ["pki", "serviceaccounts-issuer"];

/// Resource whose encryption rule seals the values.
pub(crate) const RULE: &str = "secrets";

/// Values that a scan reads at a time.
const PAGE: usize = 500;

/// Attempts to write a value. One server writes at a time, so a conflict is rare.
const ATTEMPTS: usize = 5;

/// Interval at which the same error is logged again. Some values are read several times per second.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Errors that were logged within [`LOG_INTERVAL`], with the time. Clones share them.
#[derive(Debug, Clone, Default)]
struct Logged(Arc<Mutex<HashMap<String, Instant>>>);

impl Logged {
    /// Returns true if an error should be logged now, and records that it was.
    fn is_due(&self, error: &str, now: Instant) -> bool {
        let mut logged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        logged.retain(|_, at| now.duration_since(*at) < LOG_INTERVAL);
        let is_due = !logged.contains_key(error);
        if is_due {
            logged.insert(error.to_owned(), now);
        }
        is_due
    }
}

/// Sealed values below one key of the store, each with a kind and a name.
#[derive(Debug, Clone)]
pub(crate) struct SealedValues {
    pub(crate) store: Arc<dyn Store>,
    encryption: Arc<Encryption>,
    /// First part of the keys, after [`ROOT`]. No API group may have this name.
    folder: &'static str,
    logged: Logged,
}

impl SealedValues {
    pub(crate) fn new(store: Arc<dyn Store>, encryption: Arc<Encryption>, folder: &'static str) -> Self {
        Self { store, encryption, folder, logged: Logged::default() }
    }

    pub(crate) fn key(&self, kind: &str, name: &str) -> anyhow::Result<Key> {
        Ok(Key::new(format!("{ROOT}{}/{kind}/{name}", self.folder))?)
    }

    /// Returns a value. One that no key opens is as good as none.
    ///
    /// # Errors
    /// A store or a KMS plug-in that does not answer.
    pub(crate) async fn read<T: DeserializeOwned>(
        &self,
        kind: &str,
        name: &str,
    ) -> anyhow::Result<Option<T>> {
        let entry = self.store.get(&self.key(kind, name)?).await?;
        Ok(entry.map(|entry| self.open(&entry)).transpose()?.flatten())
    }

    fn open<T: DeserializeOwned>(&self, entry: &Entry) -> Result<Option<T>, EncryptionError> {
        let key = entry.key.as_str();
        let opened = match self.encryption.open(RULE, key, &entry.value) {
            Err(error) if error.is_temporary() => return Err(error),
            opened => opened.map_err(|error| error.to_string()),
        };
        // The error of the decoder may quote the value.
        let decoded = opened
            .and_then(|json| serde_json::from_slice(&json).map_err(|_| format!("{key}: not decodable")));
        let log = |error: &String| {
            if self.logged.is_due(error, Instant::now()) {
                tracing::warn!(error, "a sealed value cannot be used");
            }
        };
        Ok(decoded.inspect_err(log).ok())
    }

    /// Returns all values of a kind, by their names, without those that no key opens.
    ///
    /// # Errors
    /// A store or a KMS plug-in that does not answer.
    pub(crate) async fn list<T: DeserializeOwned>(&self, kind: &str) -> anyhow::Result<HashMap<String, T>> {
        let mut all = HashMap::new();
        let mut failure = None;
        self.scan(kind, |name, entry| match self.open(entry) {
            Ok(Some(value)) => {
                all.insert(name.to_owned(), value);
            }
            Ok(None) => {}
            Err(error) => failure = Some(error),
        })
        .await?;
        failure.map_or(Ok(all), |error| Err(error.into()))
    }

    /// Visits all entries of a kind.
    pub(crate) async fn scan(&self, kind: &str, mut visit: impl FnMut(&str, &Entry)) -> anyhow::Result<()> {
        let prefix = format!("{ROOT}{}/{kind}/", self.folder);
        let mut range = KeyRange::prefix(&prefix);
        loop {
            let page = self.store.list(&range, &ListOptions { limit: PAGE, revision: None }).await?;
            for entry in &page.entries {
                visit(entry.key.as_str().strip_prefix(&prefix).unwrap_or_default(), entry);
            }
            match page.entries.last().filter(|_| page.remaining > 0) {
                Some(last) => range = range.after(last.key.as_bytes()),
                None => return Ok(()),
            }
        }
    }

    /// Writes a value, unless it is stored already. Returns its stored size.
    pub(crate) async fn write<T: Serialize>(
        &self,
        kind: &str,
        name: &str,
        value: &T,
    ) -> anyhow::Result<usize> {
        let key = self.key(kind, name)?;
        let json = Bytes::from(serde_json::to_vec(value)?);
        for _ in 0..ATTEMPTS {
            let found = self.store.get(&key).await?;
            if let Some(entry) = &found
                && self.encryption.is_current(RULE, &entry.value)
                && self.encryption.open(RULE, key.as_str(), &entry.value).is_ok_and(|open| open == json)
            {
                return Ok(entry.value.len());
            }
            let sealed = self.encryption.seal(RULE, key.as_str(), json.clone())?;
            let size = sealed.len();
            let written = match found {
                None => self.store.create(&key, sealed).await,
                Some(entry) => self.store.update(&key, entry.modified, sealed).await,
            };
            match written {
                Ok(_) => return Ok(size),
                Err(StoreError::Exists { .. } | StoreError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        bail!("{}: other servers keep changing the value", key.as_str())
    }

    /// Seals the values of a kind with the key of this time, if another one has sealed them.
    pub(crate) async fn reseal(&self, kind: &str) -> anyhow::Result<()> {
        let mut old = Vec::new();
        self.scan(kind, |_, entry| {
            if !self.encryption.is_current(RULE, &entry.value) {
                old.push(entry.clone());
            }
        })
        .await?;
        for entry in old {
            let key = &entry.key;
            let open = self.encryption.open(RULE, key.as_str(), &entry.value)?;
            let sealed = self.encryption.seal(RULE, key.as_str(), open)?;
            match self.store.update(key, entry.modified, sealed).await {
                // Another server was faster.
                Ok(_) | Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Creates a value. Returns false if there is one of this name.
    pub(crate) async fn create<T: Serialize>(
        &self,
        kind: &str,
        name: &str,
        value: &T,
    ) -> anyhow::Result<bool> {
        let key = self.key(kind, name)?;
        let sealed = self.encryption.seal(RULE, key.as_str(), Bytes::from(serde_json::to_vec(value)?))?;
        match self.store.create(&key, sealed).await {
            Ok(_) => Ok(true),
            Err(StoreError::Exists { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes a value, if there is one.
    pub(crate) async fn remove(&self, kind: &str, name: &str) -> anyhow::Result<()> {
        let key = self.key(kind, name)?;
        for _ in 0..ATTEMPTS {
            let Some(entry) = self.store.get(&key).await? else { return Ok(()) };
            match self.store.delete(&key, entry.modified).await {
                Err(StoreError::Conflict { .. }) => {}
                other => return other.map(|_| ()).context("the value cannot be removed"),
            }
        }
        bail!("{}: other servers keep changing the value", key.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_logged_again_after_a_minute() {
        let (logged, start) = (Logged::default(), Instant::now());
        assert!(logged.is_due("/capstan/pki/a: no key", start));
        assert!(logged.is_due("/capstan/pki/b: no key", start));
        let seconds = |seconds| start + Duration::from_secs(seconds);
        assert!(!logged.clone().is_due("/capstan/pki/a: no key", seconds(59)));
        assert!(logged.is_due("/capstan/pki/a: no key", seconds(60)));
    }
}
