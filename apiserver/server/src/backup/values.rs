//! Check of the values in a backup: all are JSON, as far as the server has the keys that sealed them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::bail;
use apiserver_machinery::encryption::Encryption;
use serde::de::IgnoredAny;
use storage_backup::is_portable;
use storage_contract::Entry;

/// First part of sealed values.
const SEALED: &[u8] = b"k8s:enc:";

/// Most damaged values that are named.
const NAMED: usize = 5;

/// Values that one key sealed, and that the server cannot open.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Unopened {
    count: u64,
    first: String,
}

/// Result of the check.
#[derive(Debug, Default)]
pub(super) struct Values {
    pub(super) count: u64,
    sealed: u64,
    /// By the name of the key.
    unopened: BTreeMap<String, Unopened>,
    /// Keys of values that are no JSON.
    broken: Vec<String>,
}

impl Values {
    /// Checks one value.
    pub(super) fn check(&mut self, entry: &Entry, encryption: Option<&Encryption>) {
        self.count += 1;
        // Locks have no value.
        if !is_portable(entry.key.as_str()) {
            return;
        }
        if !entry.value.starts_with(SEALED) {
            return self.check_json(entry, &entry.value);
        }
        self.sealed += 1;
        match encryption.map(|keys| keys.open_with_any(entry.key.as_str(), &entry.value)) {
            Some(Ok(plain)) => self.check_json(entry, &plain),
            _ => {
                let first = || Unopened { count: 0, first: entry.key.to_string() };
                self.unopened.entry(key_name(&entry.value)).or_insert_with(first).count += 1;
            }
        }
    }

    fn check_json(&mut self, entry: &Entry, value: &[u8]) {
        if serde_json::from_slice::<IgnoredAny>(value).is_err() {
            self.broken.push(entry.key.to_string());
        }
    }

    /// Returns lines about the values, for people. `path`: the file with the encryption keys.
    pub(super) fn describe(&self, path: &Path) -> String {
        let (sealed, opened, path_text) = (self.sealed, self.opened(), path.display());
        let mut text = if path.exists() {
            format!("{sealed} values are encrypted; the keys in {path_text} open {opened} of them\n")
        } else {
            format!("{sealed} values are encrypted; {path_text} does not exist, so that none can be opened\n")
        };
        for (name, Unopened { count, first }) in &self.unopened {
            let _ = writeln!(
                text,
                "WARNING: {count} values are encrypted with a key {name:?} that is not in that file, e.g. {first}. A \
                 server on this store is not ready without the key"
            );
        }
        for key in self.broken.iter().take(NAMED) {
            let _ = writeln!(text, "WARNING: {key} is damaged in the store: it is no JSON");
        }
        text
    }

    /// Returns the number of sealed values that the server can open.
    fn opened(&self) -> u64 {
        self.sealed - self.unopened.values().map(|unopened| unopened.count).sum::<u64>()
    }

    /// Returns an error if there are sealed values, and the server can open none of them. `path`: the file with the
    /// encryption keys.
    pub(super) fn any_opened(&self, path: &Path) -> anyhow::Result<()> {
        if self.sealed == 0 || self.opened() > 0 {
            return Ok(());
        }
        bail!(
            "{}: none of the {} encrypted values of the backup can be opened with the keys of this file, so a server on \
             the restored store could read no Secret; nothing was replaced. Put the encryption.yaml of the backup there, \
             or give --recovery-key-file, or give --force to replace the objects without readable Secrets",
            path.display(),
            self.sealed
        )
    }

    /// Returns an error if a sealed value cannot be opened.
    pub(super) fn all_opened(&self) -> anyhow::Result<()> {
        match self.unopened.iter().next() {
            None => Ok(()),
            Some((name, Unopened { count, first })) => {
                bail!("{count} values are encrypted with a key {name:?} that this server lacks, e.g. {first}")
            }
        }
    }

    /// Returns an error if a value is damaged.
    pub(super) fn result(&self) -> anyhow::Result<()> {
        match self.broken.first() {
            None => Ok(()),
            Some(first) => bail!(
                "{} values were damaged before the backup, e.g. {first}: repair or delete these objects. The backup \
                 has them as they are",
                self.broken.len()
            ),
        }
    }
}

/// Returns the name of the key in a sealed value, `k8s:enc:aesgcm:v1:<name>:…`.
fn key_name(value: &[u8]) -> String {
    let name = value.split(|byte| *byte == b':').nth(4).unwrap_or_default();
    String::from_utf8_lossy(name.get(..64).unwrap_or(name)).into_owned()
}
