//! Records of what the host cluster is owed, or has, beside the objects in the store.

use std::collections::HashMap;
use std::future::Future;
use std::time::Duration;

use apiserver_host::{CopyRecord, CopyRecords};
use async_trait::async_trait;
use storage_contract::Outage;

use super::{HostCopies, ONLY};

/// Records of the Secrets that the host has.
const SECRETS: &str = "outbox/secrets";

/// Record of the Events that the host has: the revision up to which all are copied.
const EVENTS: &str = "outbox/events";

/// Pause after an error of the store.
const PAUSE: Duration = Duration::from_secs(1);

/// Records of one term of the leader.
#[derive(Debug, Clone)]
pub(crate) struct StoredOutbox {
    copies: HostCopies,
}

impl StoredOutbox {
    pub(crate) fn new(copies: HostCopies) -> Self {
        Self { copies }
    }

    /// Returns the revision up to which all Events were copied. It waits for the store.
    pub(crate) async fn copied_events(&self) -> Option<u64> {
        read(|| self.copies.values.read(EVENTS, ONLY)).await
    }

    /// Writes that revision. Returns false if the store does not take it.
    pub(crate) async fn keep_copied_events(&self, copied: u64) -> bool {
        succeeds(self.copies.values.write(EVENTS, ONLY, &copied).await)
    }
}

/// Reads until the store answers.
async fn read<T, F: Future<Output = anyhow::Result<T>>>(attempt: impl Fn() -> F) -> T {
    let mut outage = Outage::default();
    loop {
        match attempt().await {
            Ok(read) => return read,
            Err(error) if outage.should_log() => {
                tracing::warn!("the records of the host cluster cannot be read; retrying: {error:#}");
            }
            Err(_) => {}
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn succeeds<T>(result: anyhow::Result<T>) -> bool {
    let result = result.inspect_err(|error| {
        tracing::warn!("a record of the host cluster cannot be written; retrying: {error:#}");
    });
    result.is_ok()
}

/// Returns the record of the Secret that the host has, or may have, under this name.
///
/// # Errors
/// The store does not answer.
pub(super) async fn record(
    copies: &HostCopies,
    namespace: &str,
    name: &str,
) -> anyhow::Result<Option<CopyRecord>> {
    copies.values.read(SECRETS, &format!("{namespace}/{name}")).await
}

fn name(record: &CopyRecord) -> String {
    format!("{}/{}", record.namespace, record.name)
}

#[async_trait]
impl CopyRecords for StoredOutbox {
    async fn list(&self) -> Vec<CopyRecord> {
        let all: HashMap<String, CopyRecord> = read(|| self.copies.values.list(SECRETS)).await;
        all.into_values().collect()
    }

    async fn write(&self, record: &CopyRecord) -> bool {
        succeeds(self.copies.values.write(SECRETS, &name(record), record).await)
    }

    async fn remove(&self, record: &CopyRecord) -> bool {
        succeeds(self.copies.values.remove(SECRETS, &name(record)).await)
    }
}
