//! Record of the last restore: from then on the clouds are newer than the objects from before it.

use std::sync::Arc;

use anyhow::Context;
use async_trait::async_trait;
use bytes::Bytes;
use controllers_runtime::RestoreRecord;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use storage_backup::RESTORED;
use storage_contract::{Key, Store};

/// Last restore, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Restored {
    /// Time of the restore, by the clock of the machine with the command.
    at: Timestamp,
    /// The backup, for people.
    backup: String,
}

impl Restored {
    /// Creates the record of a restore that is made now.
    pub(super) fn now(backup: String) -> Self {
        Self { at: Timestamp::now(), backup }
    }

    /// Writes the record to a store that no server uses yet.
    ///
    /// # Errors
    /// The store's.
    pub(super) async fn write(&self, store: &dyn Store) -> anyhow::Result<()> {
        let key = Key::new(RESTORED)?;
        let value = Bytes::from(serde_json::to_vec(self)?);
        match store.get(&key).await? {
            None => store.create(&key, value).await?,
            Some(entry) => store.update(&key, entry.modified, value).await?,
        };
        Ok(())
    }
}

/// Record of the last restore, as controllers read it.
#[derive(Debug)]
pub(crate) struct LastRestore(Arc<dyn Store>);

impl LastRestore {
    pub(crate) fn of(store: &Arc<dyn Store>) -> Arc<dyn RestoreRecord> {
        Arc::new(Self(Arc::clone(store)))
    }

    async fn read(&self) -> anyhow::Result<Option<Timestamp>> {
        let Some(entry) = self.0.get(&Key::new(RESTORED)?).await? else { return Ok(None) };
        let record: Restored = serde_json::from_slice(&entry.value)
            .with_context(|| format!("{RESTORED}: is no record of a restore that this release can read"))?;
        Ok(Some(record.at))
    }
}

#[async_trait]
impl RestoreRecord for LastRestore {
    async fn last(&self) -> Result<Option<Timestamp>, String> {
        self.read().await.map_err(|error| format!("{error:#}"))
    }
}

#[cfg(test)]
mod tests {
    use storage_embedded::EmbeddedStore;

    use super::*;

    #[tokio::test]
    async fn hv_35_the_last_restore_is_read_and_an_unknown_record_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(&directory.path().join("store")).unwrap());
        let last = LastRestore::of(&store);
        assert_eq!(last.last().await, Ok(None));
        for backup in ["one", "two"] {
            let restored = Restored::now(backup.to_owned());
            restored.write(store.as_ref()).await.unwrap();
            assert_eq!(last.last().await, Ok(Some(restored.at)));
        }
        let (key, other) = (Key::new(RESTORED).unwrap(), Bytes::from_static(b"{}"));
        let entry = store.get(&key).await.unwrap().unwrap();
        store.update(&key, entry.modified, other).await.unwrap();
        assert!(last.last().await.unwrap_err().contains("is no record of a restore"));
    }
}
