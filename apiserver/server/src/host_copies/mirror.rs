//! Copies of the host's permissions, service accounts and token keys.

use std::collections::HashMap;

use apiserver_host::{Disagreement, HostMirror, KeptKeys};
use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;

use super::keeper::{HEARTBEAT_INTERVAL, PAUSE};
use super::{HEARTBEAT, HostCopies, ONLY};
use crate::host_mirror::Mirroring;

pub(super) const ACCOUNTS: &str = "accounts";
pub(super) const DISAGREEMENTS: &str = "disagreements";
pub(super) const PERMISSIONS: &str = "permissions";
pub(super) const TOKEN_KEYS: &str = "tokenkeys";

/// Name of the heartbeat of the mirror.
const MIRROR: &str = "mirror";

/// Copies that a process reads at its start.
#[derive(Debug, Default)]
pub(crate) struct RestoredMirror {
    pub(crate) permissions: HashMap<String, Value>,
    pub(crate) accounts: HashMap<String, String>,
    pub(crate) keys: Option<KeptKeys>,
    pub(crate) disagreements: HashMap<String, Disagreement>,
    /// Last time at which the mirror had all changes of the host.
    pub(crate) contact: Option<Timestamp>,
}

/// Copies of the mirror as they are in the store.
#[derive(Default)]
pub(super) struct StoredMirror {
    permissions: Option<HashMap<String, Value>>,
    accounts: Option<HashMap<String, String>>,
    keys: Option<KeptKeys>,
    heartbeat: Option<Instant>,
}

impl HostCopies {
    /// Reads the copies of the mirror.
    ///
    /// # Errors
    /// The store does not answer.
    pub(crate) async fn restore_mirror(&self) -> anyhow::Result<RestoredMirror> {
        if self.are_replaced().await? {
            return Ok(RestoredMirror::default());
        }
        let behind = self.time.behind().await?.as_secs();
        let keys: Option<KeptKeys> = self.values.read(TOKEN_KEYS, ONLY).await?;
        Ok(RestoredMirror {
            permissions: self.values.list(PERMISSIONS).await?,
            accounts: self.values.list(ACCOUNTS).await?,
            keys: keys.map(|keys| KeptKeys { at: keys.at.saturating_sub(behind), ..keys }),
            disagreements: self.values.list(DISAGREEMENTS).await?,
            contact: self.heartbeat(MIRROR).await?,
        })
    }

    /// Writes what changed in the mirror, and its heartbeat.
    pub(super) async fn update_mirror(
        &self,
        mirroring: &Mirroring,
        stored: &mut StoredMirror,
    ) -> anyhow::Result<()> {
        // Before the first complete read, the mirror has nothing, or what the store has.
        if !mirroring.is_synchronized() {
            return Ok(());
        }
        self.update_kind(PERMISSIONS, &mut stored.permissions, &mirroring.permissions()).await?;
        self.update_kind(ACCOUNTS, &mut stored.accounts, &mirroring.accounts()).await?;
        let keys = mirroring.keys().kept();
        if keys != stored.keys
            && let Some(keys) = &keys
        {
            self.values.write(TOKEN_KEYS, ONLY, keys).await?;
        }
        stored.keys = keys;
        if stored.heartbeat.is_none_or(|at| at.elapsed() >= HEARTBEAT_INTERVAL - PAUSE) {
            self.remove_expired(&mirroring.mirror()).await?;
            self.values.write(HEARTBEAT, MIRROR, &Timestamp::now().as_second()).await?;
            stored.heartbeat = Some(Instant::now());
        }
        Ok(())
    }

    /// Keeps a disagreement of the mirror with the host. Each replica writes those that it finds.
    pub(crate) async fn keep_disagreement(&self, found: &Disagreement) {
        let hash = digest::digest(&digest::SHA256, found.question.as_bytes());
        let name = URL_SAFE_NO_PAD.encode(hash);
        if let Err(error) = self.values.write(DISAGREEMENTS, &name, found).await {
            tracing::warn!("a disagreement with the host cluster cannot be kept in the store: {error:#}");
        }
    }

    /// Removes the disagreements that close nothing any more: each question of each user leaves one.
    pub(super) async fn remove_expired(&self, mirror: &HostMirror) -> anyhow::Result<()> {
        let kept: HashMap<String, Disagreement> = self.values.list(DISAGREEMENTS).await?;
        for name in mirror.expired(&kept) {
            self.values.remove(DISAGREEMENTS, &name).await?;
        }
        Ok(())
    }

    /// Returns the disagreements that any replica has found.
    pub(crate) async fn disagreements(&self) -> Vec<Disagreement> {
        let found = match self.are_replaced().await {
            Ok(true) => return Vec::new(),
            Ok(false) => self.values.list(DISAGREEMENTS).await,
            Err(error) => Err(error),
        };
        let found = found.inspect_err(|error| {
            tracing::debug!("the disagreements with the host cluster cannot be read: {error:#}");
        });
        found.map(HashMap::into_values).map(Iterator::collect).unwrap_or_default()
    }
}
