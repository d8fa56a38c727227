//! Join tokens in the store: the hash of each secret, and the node that has used it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use apiserver_machinery::encryption::Encryption;
use apiserver_machinery::resource::ROOT;
use bytes::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use storage_contract::{Entry, Key, KeyRange, ListOptions, Store, StoreError};

use super::token::{Token, are_equal, hash, is_id};
use super::{JoinRequest, Secret};

/// Lifetime of a token: long enough to set up a machine.
pub(crate) const LIFETIME: Duration = Duration::from_secs(3600);

/// First part of the keys, after [`ROOT`]. No API group has this name.
const FOLDER: &str = "join-tokens/";

/// Resource whose encryption rule seals the records. So a record that another program plants is not accepted, unless that
/// program has the key.
const RULE: &str = "secrets";

/// Most tokens at a time. Expired ones are removed when a token is created.
const MOST: usize = 100;

/// Record of a token.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    /// SHA-256 of the secret.
    hash: String,
    /// Unit: seconds since 1970.
    expires: i64,
    /// The node that it is for. Default: any.
    node: Option<String>,
    used_by: Option<Use>,
}

/// First use of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Use {
    node: String,
    key: String,
}

/// Reason for which a token is not accepted. The response to the node does not tell it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Rejected {
    Unknown,
    Expired,
    /// It is for another node, or another node has used it.
    OtherNode(String),
}

/// Tokens of one store.
#[derive(Debug, Clone)]
pub(crate) struct JoinTokens {
    store: Arc<dyn Store>,
    encryption: Arc<Encryption>,
}

impl JoinTokens {
    pub(crate) fn new(store: Arc<dyn Store>, encryption: Arc<Encryption>) -> Self {
        Self { store, encryption }
    }

    /// Stores a token, for one node or for any, and removes those that have expired.
    ///
    /// # Errors
    /// Too many tokens; a store that does not answer.
    pub(crate) async fn add(&self, token: &Token, node: Option<&str>, now: Timestamp) -> anyhow::Result<()> {
        self.remove_expired(now).await?;
        let lifetime = i64::try_from(LIFETIME.as_secs())?;
        let expires = now.as_second().saturating_add(lifetime);
        let record =
            Record { hash: hash(&token.secret), expires, node: node.map(str::to_owned), used_by: None };
        let key = key(&token.id)?;
        self.store.create(&key, self.seal(&key, &record)?).await?;
        Ok(())
    }

    async fn remove_expired(&self, now: Timestamp) -> anyhow::Result<()> {
        let range = KeyRange::prefix(&format!("{ROOT}{FOLDER}"));
        let page = self.store.list(&range, &ListOptions { limit: MOST, revision: None }).await?;
        let mut live = 0;
        for entry in &page.entries {
            if self.open(entry).is_some_and(|record| record.expires > now.as_second()) {
                live += 1;
                continue;
            }
            match self.store.delete(&entry.key, entry.modified).await {
                Ok(_) | Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        anyhow::ensure!(live < MOST, "there are {MOST} join tokens; wait until some have expired");
        Ok(())
    }

    /// Uses a token for a node. The write is guarded, so of two nodes at the same time one gets it. The same node with
    /// the same key may use it again, because the first response may be lost.
    ///
    /// # Errors
    /// A store that does not answer.
    pub(super) async fn redeem(
        &self,
        request: &JoinRequest,
        now: Timestamp,
    ) -> anyhow::Result<Result<(), Rejected>> {
        if !is_id(&request.id) {
            return Ok(Err(Rejected::Unknown));
        }
        let key = key(&request.id)?;
        let Some(entry) = self.store.get(&key).await? else { return Ok(Err(Rejected::Unknown)) };
        let Some(record) = self.open(&entry) else { return Ok(Err(Rejected::Unknown)) };
        if let Err(rejected) = check(&record, &request.secret, &request.node, now) {
            return Ok(Err(rejected));
        }
        let this = Use { node: request.node.clone(), key: request.key.clone() };
        match &record.used_by {
            Some(used) if *used == this => return Ok(Ok(())),
            Some(used) => return Ok(Err(Rejected::OtherNode(used.node.clone()))),
            None => {}
        }
        let sealed = self.seal(&key, &Record { used_by: Some(this), ..record })?;
        match self.store.update(&key, entry.modified, sealed).await {
            Ok(_) => Ok(Ok(())),
            Err(StoreError::Conflict { .. }) => Ok(Err(Rejected::OtherNode("another node".to_owned()))),
            Err(error) => Err(error.into()),
        }
    }

    fn seal(&self, key: &Key, record: &Record) -> anyhow::Result<Bytes> {
        let json = Bytes::from(serde_json::to_vec(record)?);
        self.encryption.seal(RULE, key.as_str(), json).context("the join token cannot be sealed")
    }

    fn open(&self, entry: &Entry) -> Option<Record> {
        // With an encryption key, a plain value was not written by a server. Any key that opens values is good: a server
        // with an older form or another promoted key may have written it.
        if !Encryption::is_sealed(&entry.value) && !self.encryption.is_current(RULE, &entry.value) {
            return None;
        }
        let opened = self.encryption.open(RULE, entry.key.as_str(), &entry.value).ok()?;
        serde_json::from_slice(&opened).ok()
    }
}

fn check(record: &Record, secret: &Secret, node: &str, now: Timestamp) -> Result<(), Rejected> {
    if !are_equal(&record.hash, &hash(secret)) {
        return Err(Rejected::Unknown);
    }
    if record.expires <= now.as_second() {
        return Err(Rejected::Expired);
    }
    match &record.node {
        Some(name) if name != node => Err(Rejected::OtherNode(name.clone())),
        _ => Ok(()),
    }
}

fn key(id: &str) -> anyhow::Result<Key> {
    Ok(Key::new(format!("{ROOT}{FOLDER}{id}"))?)
}
