//! Copies of the host's admission configurations and quotas.

use std::collections::HashMap;

use jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;

use super::keeper::{HEARTBEAT_INTERVAL, PAUSE};
use super::{HEARTBEAT, HostCopies};
use crate::host_admission::{COPIES, CopiesToKeep, HostAdmission};

/// Copies of one sort as they are in the store.
#[derive(Default)]
pub(super) struct StoredAdmission {
    objects: Option<HashMap<String, Value>>,
    heartbeat: Option<Instant>,
}

/// Copies that a process reads at its start.
pub(crate) struct RestoredAdmission {
    pub(crate) name: &'static str,
    pub(crate) objects: HashMap<String, Value>,
    /// Last time at which they had all changes of the host.
    pub(crate) contact: Option<Timestamp>,
}

impl HostCopies {
    /// Reads the copies of all sorts.
    ///
    /// # Errors
    /// The store does not answer.
    pub(crate) async fn restore_admission(&self) -> anyhow::Result<Vec<RestoredAdmission>> {
        let mut all = Vec::new();
        if self.are_replaced().await? {
            return Ok(all);
        }
        for name in COPIES {
            let contact = self.heartbeat(name).await?;
            all.push(RestoredAdmission { name, objects: self.values.list(name).await?, contact });
        }
        Ok(all)
    }

    /// Writes what changed in the copies of all sorts, and their heartbeats. Each has its own: a missing permission for
    /// one must not age the others.
    pub(super) async fn update_admission(
        &self,
        admission: &HostAdmission,
        stored: &mut HashMap<&'static str, StoredAdmission>,
    ) -> anyhow::Result<()> {
        for copies in admission.to_keep() {
            self.update_copies(&copies, stored.entry(copies.name).or_default()).await?;
        }
        Ok(())
    }

    async fn update_copies(&self, copies: &CopiesToKeep, stored: &mut StoredAdmission) -> anyhow::Result<()> {
        // Before the first complete read, there is nothing, or what the store has.
        if !copies.are_synchronized {
            return Ok(());
        }
        self.update_kind(copies.name, &mut stored.objects, &copies.objects).await?;
        if stored.heartbeat.is_none_or(|at| at.elapsed() >= HEARTBEAT_INTERVAL - PAUSE) {
            self.values.write(HEARTBEAT, copies.name, &Timestamp::now().as_second()).await?;
            stored.heartbeat = Some(Instant::now());
        }
        Ok(())
    }
}
