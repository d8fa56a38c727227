//! Copies of the host cluster's data in Capstan's own store, sealed as Secrets are. They survive a restart, a failover
//! and the loss of a disk. The leader writes them, and all replicas read them.

mod issuers;
mod keeper;
mod secrets;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Context, bail};
use apiserver_access::RequestHeaders;
use apiserver_host::FrontProxy;
use apiserver_machinery::encryption::Encryption;
use apiserver_machinery::resource::ROOT;
use bytes::Bytes;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use storage_contract::{Entry, Key, KeyRange, ListOptions, Store, StoreError};

pub(crate) use keeper::{Originals, keep};
pub(crate) use secrets::StoredSecrets;

/// First part of the keys, after [`ROOT`]. No API group has this name.
const HOST: &str = "host";

/// Resource whose encryption rule seals the copies.
const RULE: &str = "secrets";

/// Values that a scan reads at a time.
const PAGE: usize = 500;

/// Attempts to write a value. One leader writes at a time, so a conflict is rare.
const ATTEMPTS: usize = 5;

const FRONT_PROXY: &str = "frontproxy";
const HEARTBEAT: &str = "heartbeat";
const ISSUERS: &str = "issuers";
const NAMESPACES: &str = "namespaces";
const PIN: &str = "pin";
const SECRETS: &str = "secrets";

/// Name of the only value of a kind.
const ONLY: &str = "current";

/// Copies in the store.
#[derive(Debug, Clone)]
pub(crate) struct HostCopies {
    store: Arc<dyn Store>,
    encryption: Arc<Encryption>,
}

/// Copies that a process reads at its start.
#[derive(Debug, Default)]
pub(crate) struct Restored {
    pub(crate) proxy: Option<FrontProxy>,
    pub(crate) namespaces: HashMap<String, Value>,
    /// Last time at which the host was up.
    pub(crate) contact: Option<Timestamp>,
    /// Uid of the host.
    pub(crate) uid: Option<String>,
}

/// Front proxy, as it is stored.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct StoredProxy {
    ca: String,
    allowed_names: Vec<String>,
    username: Vec<String>,
    uid: Vec<String>,
    group: Vec<String>,
    extra_prefix: Vec<String>,
}

impl From<FrontProxy> for StoredProxy {
    fn from(FrontProxy { ca, headers }: FrontProxy) -> Self {
        let RequestHeaders { allowed_names, username, uid, group, extra_prefix } = headers;
        Self { ca, allowed_names, username, uid, group, extra_prefix }
    }
}

impl From<StoredProxy> for FrontProxy {
    fn from(stored: StoredProxy) -> Self {
        let StoredProxy { ca, allowed_names, username, uid, group, extra_prefix } = stored;
        Self { ca, headers: RequestHeaders { allowed_names, username, uid, group, extra_prefix } }
    }
}

impl HostCopies {
    pub(crate) fn new(store: Arc<dyn Store>, encryption: Arc<Encryption>) -> Self {
        Self { store, encryption }
    }

    /// Reads the copies that a process needs at its start.
    ///
    /// # Errors
    /// The store does not answer.
    pub(crate) async fn restore(&self) -> anyhow::Result<Restored> {
        let proxy: Option<StoredProxy> = self.read(FRONT_PROXY, ONLY).await?;
        let contact: Option<i64> = self.read(HEARTBEAT, ONLY).await?;
        Ok(Restored {
            proxy: proxy.map(FrontProxy::from),
            namespaces: self.list(NAMESPACES).await?,
            contact: contact.and_then(|seconds| Timestamp::from_second(seconds).ok()),
            uid: self.read(PIN, ONLY).await?,
        })
    }

    fn key(kind: &str, name: &str) -> anyhow::Result<Key> {
        Ok(Key::new(format!("{ROOT}{HOST}/{kind}/{name}"))?)
    }

    /// Returns a value. One that cannot be opened is as good as none: the host has the original.
    async fn read<T: DeserializeOwned>(&self, kind: &str, name: &str) -> anyhow::Result<Option<T>> {
        let entry = self.store.get(&Self::key(kind, name)?).await?;
        Ok(entry.and_then(|entry| self.open(&entry)))
    }

    fn open<T: DeserializeOwned>(&self, entry: &Entry) -> Option<T> {
        let key = entry.key.as_str();
        let opened = self.encryption.open(RULE, key, &entry.value).map_err(|error| error.to_string());
        // The error of the decoder may quote the value.
        let decoded = opened
            .and_then(|json| serde_json::from_slice(&json).map_err(|_| format!("{key}: not decodable")));
        decoded
            .inspect_err(|error| tracing::warn!(error, "a copy of the host cluster's data cannot be used"))
            .ok()
    }

    /// Returns all values of a kind, by their names.
    async fn list<T: DeserializeOwned>(&self, kind: &str) -> anyhow::Result<HashMap<String, T>> {
        let mut all = HashMap::new();
        self.scan(kind, |name, entry| {
            if let Some(value) = self.open(entry) {
                all.insert(name.to_owned(), value);
            }
        })
        .await?;
        Ok(all)
    }

    /// Visits all entries of a kind.
    async fn scan(&self, kind: &str, mut visit: impl FnMut(&str, &Entry)) -> anyhow::Result<()> {
        let prefix = format!("{ROOT}{HOST}/{kind}/");
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
    async fn write<T: Serialize>(&self, kind: &str, name: &str, value: &T) -> anyhow::Result<usize> {
        let key = Self::key(kind, name)?;
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
        bail!("{}: other servers keep changing the copy", key.as_str())
    }

    /// Removes a value, if there is one.
    async fn remove(&self, kind: &str, name: &str) -> anyhow::Result<()> {
        let key = Self::key(kind, name)?;
        for _ in 0..ATTEMPTS {
            let Some(entry) = self.store.get(&key).await? else { return Ok(()) };
            match self.store.delete(&key, entry.modified).await {
                Err(StoreError::Conflict { .. }) => {}
                other => return other.map(|_| ()).context("the copy cannot be removed"),
            }
        }
        bail!("{}: other servers keep changing the copy", key.as_str())
    }
}
