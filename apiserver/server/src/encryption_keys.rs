//! Agreement between the encryption keys of a server and those of the store.
//!
//! The store has one record of the keys that seal its values. A server that lacks one of them neither reads nor writes:
//! it could not open the Secrets of other replicas, and they not its own.

pub(crate) mod records;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use apiserver_http::{Check, CheckReason};
use apiserver_machinery::encryption::Encryption;
use apiserver_machinery::resource::ROOT;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use storage_contract::{Entry, Form, Key, KeyRange, ListOptions, Store, StoreError};
use tokio_util::sync::CancellationToken;

use crate::encryption::EncryptionFile;
use crate::reload_health::ReloadHealth;
use crate::rereads::Rereads;
use crate::{key_rotation, sealed_values};

/// Key of the record in the store.
const RECORD: &str = "/capstan/meta/store.keys";

/// Key of the record of the store's incarnation, which an etcd has.
const INCARNATION: &str = "/capstan/meta/store";

/// Name of the readiness check.
const ENCRYPTION: &str = "encryption";

/// Text that each key of the record seals.
const CONSTANT: &[u8] = b"capstan";

/// Values that a scan reads at a time.
const PAGE: usize = 500;

/// Attempts to write the record. Only a start or a rotation writes it, so a conflict is rare.
const ATTEMPTS: usize = 5;

/// Interval at which the file and the record are read again.
const POLL_INTERVAL: Duration = Duration::from_secs(30);

/// Record of the keys that seal values of the store, as JSON, from the oldest to the newest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    keys: Vec<RecordedKey>,
}

impl Record {
    /// Adds a key, unless it is there.
    fn add(&mut self, encryption: &Encryption, fingerprint: &str) -> anyhow::Result<()> {
        let is_recorded = self.keys.iter().any(|key| key.fingerprint == fingerprint);
        if !is_recorded && let Some(sealed) = encryption.seal_with(fingerprint, RECORD, CONSTANT)? {
            let (fingerprint, constant) = (fingerprint.to_owned(), STANDARD.encode(sealed));
            self.keys.push(RecordedKey { fingerprint, constant });
        }
        Ok(())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct RecordedKey {
    fingerprint: String,
    /// The constant as the key sealed it, in base64. It has the form of a sealed value.
    constant: String,
}

/// The keys of this server, and their agreement with the store. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct EncryptionKeys {
    file: Arc<Mutex<EncryptionFile>>,
    agrees: Arc<AtomicBool>,
    /// Fingerprints of the store's keys that this server lacks.
    lacks: Arc<Mutex<Vec<String>>>,
}

impl EncryptionKeys {
    pub(crate) fn new(file: EncryptionFile) -> Self {
        Self { file: Arc::new(Mutex::new(file)), agrees: Arc::default(), lacks: Arc::default() }
    }

    /// Returns the rules in force.
    pub(crate) fn encryption(&self) -> Arc<Encryption> {
        Arc::clone(&self.file().encryption)
    }

    /// Returns the path of the file, for people.
    pub(crate) fn path(&self) -> String {
        self.file().path.display().to_string()
    }

    // Each change of the file's state is one assignment, which cannot leave a partial result.
    fn file(&self) -> MutexGuard<'_, EncryptionFile> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the file again if it changed. Returns true if it did.
    ///
    /// # Errors
    /// An invalid file. The rules in force stay.
    pub(crate) fn reload(&self) -> anyhow::Result<bool> {
        self.file().reload()
    }

    /// Returns the readiness check `kms-providers`: each KMS plug-in can seal new values.
    pub(crate) fn kms_check(&self) -> Check {
        let encryption = self.encryption();
        Check { name: "kms-providers", is_well: Arc::new(move || encryption.kms_is_well()) }
    }

    /// Returns the readiness check `encryption`: the server has every key of the store.
    pub(crate) fn check(&self) -> Check {
        let agrees = Arc::clone(&self.agrees);
        Check { name: ENCRYPTION, is_well: Arc::new(move || agrees.load(Ordering::Acquire)) }
    }

    /// Returns the reason of that check: the fingerprints of the keys that the server lacks. They are not secret.
    pub(crate) fn check_reason(&self) -> CheckReason {
        let lacks = Arc::clone(&self.lacks);
        let reason = move || {
            let lacks = lacks.lock().unwrap_or_else(PoisonError::into_inner);
            (!lacks.is_empty()).then(|| format!("this server lacks the encryption key {}", lacks.join(", ")))
        };
        CheckReason { name: ENCRYPTION, reason: Arc::new(reason) }
    }

    /// Records the keys that this server lacks. If `is_foreign`, the record of the store does not have its own keys, so other
    /// servers may not, either: it seals nothing then. A server that a rotation has left behind still seals with a key that
    /// all have, and a plug-in that does not answer is no other key.
    fn set_lacking(&self, keys: Vec<String>, is_foreign: bool) {
        self.encryption().withhold(is_foreign);
        *self.lacks.lock().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    /// Reads the file and the record again, and compares them, until `shutdown`. An invalid file leaves the rules in
    /// force unchanged.
    pub(crate) async fn follow(self, store: Arc<dyn Store>, shutdown: CancellationToken) {
        let (file, record) = (ReloadHealth::default(), ReloadHealth::default());
        let mut rereads = Rereads::every(POLL_INTERVAL);
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = rereads.next() => {}
            }
            match self.reload() {
                Ok(is_new) => {
                    file.succeed();
                    if is_new {
                        tracing::info!(
                            file = self.path(),
                            "encryption configuration reloaded; new writes use it"
                        );
                    }
                }
                Err(error) => {
                    let error = format!("{error:#}");
                    if file.fail(&error, Instant::now()) {
                        tracing::error!(
                            error,
                            "encryption configuration is invalid; the last one stays in force"
                        );
                    }
                }
            }
            match self.agree(store.as_ref()).await {
                Ok(()) => record.succeed(),
                Err(error) => {
                    let error = format!("{error:#}");
                    if record.fail(&error, Instant::now()) {
                        tracing::error!(error, "the encryption keys cannot be compared with the store's");
                    }
                }
            }
        }
    }

    /// Compares the keys with the record, and adds those that seal new values. An empty store gets a new record, and the
    /// data directory gets the file with the generated key.
    ///
    /// # Errors
    /// A key of the store that this server does not have; a store that does not respond.
    pub(crate) async fn agree(&self, store: &dyn Store) -> anyhow::Result<()> {
        let result = self.agreed(store).await;
        // A store that does not respond says nothing about the keys.
        match &result {
            Err(error) if error.is::<StoreError>() => {}
            _ => self.agrees.store(result.is_ok(), Ordering::Release),
        }
        if result.is_ok() {
            self.set_lacking(Vec::new(), false);
        }
        result
    }

    async fn agreed(&self, store: &dyn Store) -> anyhow::Result<()> {
        let encryption = self.encryption();
        if let Some(promoted) = key_rotation::apply(store, &encryption).await? {
            tracing::info!(key = promoted, "new values are sealed with the promoted encryption key");
        }
        encryption.derive_keys(store.form().writes() >= Form::DERIVED_KEYS);
        let key = Key::new(RECORD)?;
        for _ in 0..ATTEMPTS {
            let written = match store.get(&key).await? {
                None => self.begin(store, &key).await?,
                Some(entry) => self.compare(store, &entry).await?,
            };
            if written {
                return Ok(());
            }
        }
        bail!("{RECORD}: other servers keep changing the record of the encryption keys")
    }

    /// Writes the first record. Returns false if another server was faster.
    async fn begin(&self, store: &dyn Store, key: &Key) -> anyhow::Result<bool> {
        let is_empty = is_empty(store).await?;
        if !is_empty && self.file().is_new() {
            bail!(
                "{} is missing, but the store holds data. Copy the file from another replica or from the backup: \
                 without its key, Secrets cannot be read",
                self.path()
            );
        }
        if !is_empty && let Some(unreadable) = self.unreadable(store).await? {
            bail!("{}: {unreadable}. Add the key that sealed it to the file", self.path());
        }
        let is_generated = self.file().is_new();
        if is_generated {
            // The file is written first: a record of a key that is in no file would lock everybody out.
            self.file().save()?;
        }
        let record = serde_json::to_vec(&self.with_sealing_keys(Record::default())?)?;
        match store.create(key, Bytes::from(record)).await {
            Ok(_) => Ok(true),
            Err(StoreError::Exists { .. }) => {
                if is_generated {
                    self.file().discard();
                }
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Compares the keys with an existing record. Returns false if another server changed it at the same time.
    async fn compare(&self, store: &dyn Store, entry: &Entry) -> anyhow::Result<bool> {
        let record: Record = serde_json::from_slice(&entry.value)
            .with_context(|| format!("{RECORD}: is no record of keys"))?;
        let missing = self.missing(&record);
        let mut new = self.with_sealing_keys(record.clone())?;
        if let Some(newest) = missing.last() {
            // After a rotation, an old key goes once no value needs it. A newer one is of a server that seals with it.
            let sealing = self.encryption().sealing_keys();
            let mut newer = record.keys.iter().skip_while(|key| key.fingerprint != *newest);
            let is_rotated = newer.any(|key| sealing.contains(&key.fingerprint));
            if !is_rotated || self.unreadable(store).await?.is_some() {
                let is_recorded = |id: &str| record.keys.iter().any(|key| key.fingerprint == id);
                self.set_lacking(missing.clone(), !self.encryption().seals_only_with(is_recorded));
                bail!(
                    "{} lacks the encryption key with the fingerprint {}, which seals values of the store. Copy the \
                     file from another replica or from the backup",
                    self.path(),
                    missing.join(", ")
                );
            }
            new.keys.retain(|key| !missing.contains(&key.fingerprint));
        }
        if new == record {
            return Ok(true);
        }
        match store.update(&entry.key, entry.modified, Bytes::from(serde_json::to_vec(&new)?)).await {
            Ok(_) => Ok(true),
            Err(StoreError::Conflict { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the fingerprints of the record's keys that this server does not have, from the oldest to the newest.
    fn missing(&self, record: &Record) -> Vec<String> {
        let encryption = self.encryption();
        let opens = |key: &RecordedKey| {
            let sealed = STANDARD.decode(&key.constant).unwrap_or_default();
            encryption.open_with_any(RECORD, &Bytes::from(sealed)).is_ok_and(|plain| plain == CONSTANT)
        };
        record.keys.iter().filter(|key| !opens(key)).map(|key| key.fingerprint.clone()).collect()
    }

    fn with_sealing_keys(&self, mut record: Record) -> anyhow::Result<Record> {
        let encryption = self.encryption();
        for fingerprint in encryption.sealing_keys() {
            record.add(&encryption, &fingerprint)?;
        }
        Ok(record)
    }

    /// Reads all values of the resources that have a rule, and those of the server itself. Returns the error of the first one that cannot be opened.
    async fn unreadable(&self, store: &dyn Store) -> anyhow::Result<Option<String>> {
        let encryption = self.encryption();
        let of_kind = |resource: String| {
            let (plural, group) = resource.split_once('.').unwrap_or((&resource, "core"));
            let prefix = format!("{ROOT}{group}/{plural}/");
            (resource, prefix)
        };
        let own =
            sealed_values::FOLDERS.map(|folder| (sealed_values::RULE.to_owned(), format!("{ROOT}{folder}/")));
        for (resource, prefix) in encryption.resources().into_iter().map(of_kind).chain(own) {
            let mut range = KeyRange::prefix(&prefix);
            loop {
                let page = store.list(&range, &ListOptions { limit: PAGE, revision: None }).await?;
                let results =
                    page.entries.iter().map(|it| encryption.open(&resource, it.key.as_str(), &it.value));
                if let Some(error) = results.filter_map(Result::err).next() {
                    return Ok(Some(error.to_string()));
                }
                match page.entries.last().filter(|_| page.remaining > 0) {
                    Some(last) => range = range.after(last.key.as_bytes()),
                    None => break,
                }
            }
        }
        Ok(None)
    }
}

/// Returns true if a store has no values but the record of its incarnation, which is there as soon as it is open.
async fn is_empty(store: &dyn Store) -> Result<bool, StoreError> {
    let options = ListOptions { limit: 2, revision: None };
    let first = store.list(&KeyRange::prefix(ROOT), &options).await?.entries;
    Ok(first.iter().all(|entry| entry.key.as_str() == INCARNATION))
}

#[cfg(test)]
#[path = "encryption_keys_tests.rs"]
mod tests;
