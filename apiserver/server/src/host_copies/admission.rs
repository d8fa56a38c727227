//! Copies of the host's admission configurations.

use std::collections::HashMap;

use jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;

use super::keeper::{HEARTBEAT_INTERVAL, PAUSE};
use super::{HEARTBEAT, HostCopies};
use crate::host_admission::HostAdmission;

pub(super) const ADMISSION: &str = "admission";

/// Copies of the configurations as they are in the store.
#[derive(Default)]
pub(super) struct StoredAdmission {
    configurations: Option<HashMap<String, Value>>,
    heartbeat: Option<Instant>,
}

impl HostCopies {
    /// Reads the copies of the configurations, and the last time at which they had all changes of the host.
    ///
    /// # Errors
    /// The store does not answer.
    pub(crate) async fn restore_admission(
        &self,
    ) -> anyhow::Result<(HashMap<String, Value>, Option<Timestamp>)> {
        let contact: Option<i64> = self.values.read(HEARTBEAT, ADMISSION).await?;
        let contact = contact.and_then(|seconds| Timestamp::from_second(seconds).ok());
        Ok((self.values.list(ADMISSION).await?, contact))
    }

    /// Writes what changed in the configurations, and their heartbeat.
    pub(super) async fn update_admission(
        &self,
        admission: &HostAdmission,
        stored: &mut StoredAdmission,
    ) -> anyhow::Result<()> {
        // Before the first complete read, there is nothing, or what the store has.
        if !admission.is_synchronized() {
            return Ok(());
        }
        self.update_kind(ADMISSION, &mut stored.configurations, &admission.copies()).await?;
        if stored.heartbeat.is_none_or(|at| at.elapsed() >= HEARTBEAT_INTERVAL - PAUSE) {
            self.values.write(HEARTBEAT, ADMISSION, &Timestamp::now().as_second()).await?;
            stored.heartbeat = Some(Instant::now());
        }
        Ok(())
    }
}
