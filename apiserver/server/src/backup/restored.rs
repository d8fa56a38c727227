//! Record of the last restore: from then on the clouds are newer than the objects from before it. A server that finds older
//! data in its etcd writes the record, too.

use std::sync::Arc;

use anyhow::{Context, bail};
use async_trait::async_trait;
use bytes::Bytes;
use controllers_runtime::RestoreRecord;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use storage_backup::RESTORED;
use storage_contract::{Key, Store};
use storage_etcd::ReplacementNote;

/// Last restore, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Restored {
    /// Time of the restore, by the clock of the machine with the command.
    at: Timestamp,
    /// The backup, for people.
    backup: String,
    /// True after `capstan restore --done`. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    done: bool,
}

impl Restored {
    /// Creates the record of a restore that is made now.
    pub(super) fn now(backup: String) -> Self {
        Self { at: Timestamp::now(), backup, done: false }
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

/// Returns the note of a server that finds the data of its etcd replaced, as by `etcdutl snapshot restore`.
///
/// # Errors
/// None: the key is valid.
pub(crate) fn note_of_replaced_data() -> anyhow::Result<ReplacementNote> {
    let value = || {
        let restored = Restored::now("older or other data in etcd".to_owned());
        // A text and a time are always valid. An empty record would count as one that cannot be read.
        serde_json::to_vec(&restored).map(Bytes::from).unwrap_or_default()
    };
    Ok(ReplacementNote { key: Key::new(RESTORED)?, value: Arc::new(value) })
}

/// Notes that an operator has compared the objects with the clouds. Returns the line about it.
///
/// # Errors
/// A store that was not restored, or that does not respond.
pub(super) async fn finish(store: &dyn Store) -> anyhow::Result<String> {
    let key = Key::new(RESTORED)?;
    let Some(entry) = store.get(&key).await? else {
        bail!("this store was not restored from a backup, so that nothing waits for --done");
    };
    let record = Restored { done: true, ..parse(&entry.value)? };
    store.update(&key, entry.modified, Bytes::from(serde_json::to_vec(&record)?)).await?;
    Ok(format!(
        "{} of {} is done: the controllers remove again what no object knows\n",
        record.backup, record.at
    ))
}

fn parse(value: &[u8]) -> anyhow::Result<Restored> {
    serde_json::from_slice(value)
        .with_context(|| format!("{RESTORED}: is no record of a restore that this release can read"))
}

/// Record of the last restore, as controllers read it.
#[derive(Debug)]
pub(crate) struct LastRestore(Arc<dyn Store>);

impl LastRestore {
    pub(crate) fn of(store: &Arc<dyn Store>) -> Arc<dyn RestoreRecord> {
        Arc::new(Self(Arc::clone(store)))
    }

    async fn read(&self) -> Result<Option<Restored>, String> {
        let read = async {
            let entry = self.0.get(&Key::new(RESTORED)?).await?;
            entry.map(|entry| parse(&entry.value)).transpose()
        };
        read.await.map_err(|error: anyhow::Error| format!("{error:#}"))
    }
}

#[async_trait]
impl RestoreRecord for LastRestore {
    async fn last(&self) -> Result<Option<Timestamp>, String> {
        Ok(self.read().await?.map(|record| record.at))
    }

    async fn unfinished(&self) -> Result<Option<Timestamp>, String> {
        Ok(self.read().await?.filter(|record| !record.done).map(|record| record.at))
    }
}

#[cfg(test)]
mod tests {
    use storage_embedded::EmbeddedStore;

    use super::*;

    #[tokio::test]
    async fn hv_35_a_server_that_finds_older_data_writes_a_record_that_the_controllers_read() {
        let directory = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(&directory.path().join("store")).unwrap());
        let (last, note, before) =
            (LastRestore::of(&store), note_of_replaced_data().unwrap(), Timestamp::now());
        store.create(&note.key, (note.value)()).await.unwrap();
        let unfinished = last.unfinished().await.unwrap().unwrap();
        assert!(unfinished >= before && unfinished <= Timestamp::now(), "{unfinished}");
        assert!(finish(store.as_ref()).await.unwrap().starts_with("older or other data in etcd of "));
    }

    #[tokio::test]
    async fn hv_35_the_last_restore_is_read_and_an_unknown_record_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(&directory.path().join("store")).unwrap());
        let last = LastRestore::of(&store);
        assert_eq!(last.last().await, Ok(None));
        assert!(finish(store.as_ref()).await.unwrap_err().to_string().contains("was not restored"));
        for backup in ["one", "two"] {
            let restored = Restored::now(backup.to_owned());
            restored.write(store.as_ref()).await.unwrap();
            assert_eq!(last.last().await, Ok(Some(restored.at)));
            assert_eq!(
                last.unfinished().await,
                Ok(Some(restored.at)),
                "also after an earlier one that is done"
            );
            assert!(finish(store.as_ref()).await.unwrap().starts_with(backup));
            assert_eq!((last.last().await, last.unfinished().await), (Ok(Some(restored.at)), Ok(None)));
        }
        let (key, other) = (Key::new(RESTORED).unwrap(), Bytes::from_static(b"{}"));
        let entry = store.get(&key).await.unwrap().unwrap();
        store.update(&key, entry.modified, other).await.unwrap();
        assert!(last.last().await.unwrap_err().contains("is no record of a restore"));
    }
}
