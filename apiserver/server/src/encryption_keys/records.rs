//! Changes of the record of the encryption keys by commands.

use std::collections::BTreeSet;

use anyhow::{Context, bail};
use apiserver_machinery::encryption::Encryption;
use bytes::Bytes;
use storage_contract::{Entry, Key, Store, StoreError};

use super::{ATTEMPTS, RECORD, Record};

/// Returns the names of the recorded keys, from the oldest to the newest.
///
/// # Errors
/// The store's; a record that cannot be read.
pub(crate) async fn names(store: &dyn Store) -> anyhow::Result<Vec<String>> {
    let record = read(store).await?.map(|(record, _)| record).unwrap_or_default();
    Ok(record.keys.into_iter().map(|key| key.fingerprint).collect())
}

/// Adds a key, unless it is there.
///
/// # Errors
/// A key that cannot seal; the store's.
pub(crate) async fn add(store: &dyn Store, encryption: &Encryption, name: &str) -> anyhow::Result<()> {
    change(store, |record| {
        record.add(encryption, name)?;
        if !record.keys.iter().any(|key| key.fingerprint == name) {
            bail!("the key {name} only opens values: promote one of a provider aesgcm or kms");
        }
        Ok(())
    })
    .await
}

/// Removes all keys but these.
///
/// # Errors
/// The store's.
pub(crate) async fn retain(store: &dyn Store, kept: &BTreeSet<String>) -> anyhow::Result<()> {
    change(store, |record| {
        record.keys.retain(|key| kept.contains(&key.fingerprint));
        Ok(())
    })
    .await
}

async fn read(store: &dyn Store) -> anyhow::Result<Option<(Record, Entry)>> {
    let Some(entry) = store.get(&Key::new(RECORD)?).await? else { return Ok(None) };
    let record =
        serde_json::from_slice(&entry.value).with_context(|| format!("{RECORD}: is no record of keys"))?;
    Ok(Some((record, entry)))
}

async fn change(store: &dyn Store, edit: impl Fn(&mut Record) -> anyhow::Result<()>) -> anyhow::Result<()> {
    for _ in 0..ATTEMPTS {
        let (record, entry) = read(store)
            .await?
            .context("the store has no record of encryption keys yet: start `capstan serve` once")?;
        let mut new = record.clone();
        edit(&mut new)?;
        if new == record {
            return Ok(());
        }
        match store.update(&entry.key, entry.modified, Bytes::from(serde_json::to_vec(&new)?)).await {
            Ok(_) => return Ok(()),
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    bail!("{RECORD}: other programs keep changing it; run the command again")
}
