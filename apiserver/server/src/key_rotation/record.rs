//! Record of the promoted encryption key: all servers seal new values with it.

use anyhow::Context;
use apiserver_machinery::encryption::Encryption;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use storage_contract::{Key, Store, StoreError};

/// Key of the record in the store.
const RECORD: &str = "/capstan/meta/encryption";

/// Attempts to write the record. Only an operator writes it, so a conflict is rare.
const ATTEMPTS: usize = 5;

/// Record of the promoted key, as JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Promotion {
    /// Name of the key: its fingerprint, or `kms:` and the name of the plug-in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) promoted: Option<String>,
}

/// Returns the record of a store.
///
/// # Errors
/// The store's; a record that cannot be read.
pub(crate) async fn load(store: &dyn Store) -> anyhow::Result<Promotion> {
    let Some(entry) = store.get(&Key::new(RECORD)?).await? else { return Ok(Promotion::default()) };
    serde_json::from_slice(&entry.value)
        .with_context(|| format!("{RECORD}: is no record of a promoted key that this release can read"))
}

/// Makes the encryption seal with the promoted key of the store. Returns the key if that is a change.
///
/// # Errors
/// As [`load`].
pub(crate) async fn apply(store: &dyn Store, encryption: &Encryption) -> anyhow::Result<Option<String>> {
    let promoted = load(store).await?.promoted;
    let is_new = encryption.promote(promoted.as_deref());
    Ok(promoted.filter(|_| is_new))
}

/// Promotes a key.
///
/// # Errors
/// The store's.
pub(super) async fn save(store: &dyn Store, promoted: &str) -> anyhow::Result<()> {
    let key = Key::new(RECORD)?;
    let promotion = Promotion { promoted: Some(promoted.to_owned()) };
    let value = Bytes::from(serde_json::to_vec(&promotion)?);
    for _ in 0..ATTEMPTS {
        let written = match store.get(&key).await? {
            None => store.create(&key, value.clone()).await,
            Some(entry) => store.update(&key, entry.modified, value.clone()).await,
        };
        match written {
            Ok(_) => return Ok(()),
            Err(StoreError::Exists { .. } | StoreError::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    anyhow::bail!("{RECORD}: others keep changing it; run the command again")
}
