//! Backup file of a store: written beside its final name, read back whole, and renamed.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufReader, BufWriter, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use apiserver_machinery::encryption::Encryption;
use serde::Deserialize;
use storage_backup::{BackupKey, Header, ROOT, Reader, Scan, Summary, Writer};
use storage_contract::{Key, Store};

use super::location::Source;
use super::values::Values;
use crate::config::ServerConfiguration;

/// Ending of a file that is not complete.
pub(super) const PARTIAL: &str = ".partial";

/// Error of a backup that is not as it was written.
#[derive(Debug)]
pub(super) struct VerificationFailed;

impl std::fmt::Display for VerificationFailed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the backup differs when it is read back; is the disk or the service damaged?")
    }
}

impl std::error::Error for VerificationFailed {}

/// Backup that was written and verified.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) header: Header,
    pub(super) summary: Summary,
    /// Size of the file in bytes.
    pub(super) size: u64,
    pub(super) duration: Duration,
    pub(super) values: Values,
}

impl Taken {
    /// Returns lines about the backup, for people.
    pub(super) fn describe(&self, file: &str, encryption: &Path) -> String {
        let Self { header, summary, size, duration, values } = self;
        format!(
            "wrote and verified {file}: {} values at revision {}, {size} bytes, in {:.1} s, sealed with the backup key {}\n{}",
            summary.entries,
            header.revision,
            duration.as_secs_f64(),
            header.backup_key,
            values.describe(encryption)
        )
    }
}

/// Writes a backup of a store to a new file, and verifies it. On an error there is no file.
///
/// # Errors
/// A store that cannot be read; a file that cannot be written; `VerificationFailed`; `stop` returned true.
pub(super) async fn take(
    source: &Source<'_>,
    target: &Path,
    stop: &(dyn Fn() -> bool + Sync),
) -> anyhow::Result<Taken> {
    let Source { store, configuration, key, encryption, keys } = *source;
    let begun = Instant::now();
    let partial = Partial::beside(target);
    let named = || partial.path.display().to_string();
    let scan = Scan::begin(store, ROOT).await?;
    let keys = keys.unwrap_or_default().to_owned();
    let header = Header { keys, ..header(store, configuration, &scan).await? };
    let summary = write(scan, &header, key, &partial.path, stop).await.with_context(named)?;
    let (header, read_back, values) = verify(&partial.path, key, encryption).context(VerificationFailed)?;
    if read_back != summary {
        return Err(VerificationFailed).with_context(named);
    }
    let size = std::fs::metadata(&partial.path).with_context(named)?.len();
    partial.publish(target).with_context(|| format!("{}: cannot be written", target.display()))?;
    Ok(Taken { header, summary, size, duration: begun.elapsed(), values })
}

async fn write(
    mut scan: Scan<'_>,
    header: &Header,
    key: &BackupKey,
    path: &Path,
    stop: &(dyn Fn() -> bool + Sync),
) -> anyhow::Result<Summary> {
    let file = private(path).context("cannot be created")?;
    let mut writer = Writer::new(BufWriter::new(file), header, key)?;
    while let Some(entry) = scan.next().await? {
        if stop() {
            bail!("the server stops");
        }
        writer.add(&entry)?;
    }
    let (out, summary) = writer.finish()?;
    out.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all()?;
    Ok(summary)
}

/// Reads a whole backup and checks its values.
///
/// # Errors
/// A file that is damaged, incomplete, or sealed with another key.
pub(super) fn verify(
    path: &Path,
    key: &BackupKey,
    encryption: Option<&Encryption>,
) -> anyhow::Result<(Header, Summary, Values)> {
    let mut values = Values::default();
    let verified = open(path, key)?.verify(|entry| values.check(entry, encryption));
    let (header, summary) = verified.with_context(|| format!("{}", path.display()))?;
    Ok((header, summary, values))
}

/// Opens a backup.
///
/// # Errors
/// A file that is no backup, or sealed with another key.
pub(super) fn open(path: &Path, key: &BackupKey) -> anyhow::Result<Reader<BufReader<File>>> {
    let file = File::open(path).with_context(|| format!("{}: cannot be read", path.display()))?;
    Reader::open(BufReader::new(file), key).with_context(|| format!("{}", path.display()))
}

/// Record of the incarnation, as far as a header needs it.
#[derive(Debug, Default, Deserialize)]
struct Incarnation {
    incarnation: String,
    offset: u64,
}

/// Record of the encryption keys, as far as a header needs it.
#[derive(Debug, Default, Deserialize)]
struct EncryptionKeys {
    keys: Vec<Fingerprint>,
}

#[derive(Debug, Deserialize)]
struct Fingerprint {
    fingerprint: String,
}

async fn header(
    store: &dyn Store,
    configuration: &ServerConfiguration,
    scan: &Scan<'_>,
) -> anyhow::Result<Header> {
    let Incarnation { incarnation, offset } = read(store, "meta/store").await?;
    let EncryptionKeys { keys } = read(store, "meta/store.keys").await?;
    Ok(Header {
        name: configuration.backup.name().to_owned(),
        created: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        program: env!("CARGO_PKG_VERSION").to_owned(),
        store: if configuration.storage.etcd.is_some() { "etcd" } else { "embedded" }.to_owned(),
        incarnation,
        offset,
        revision: scan.revision(),
        form: store.form().committed,
        encryption_keys: keys.into_iter().map(|key| key.fingerprint).collect(),
        backup_key: String::new(),
        keys: String::new(),
    })
}

/// Reads a record of the store. One that is missing or of another form is left out: it is for people.
async fn read<T: Default + serde::de::DeserializeOwned>(store: &dyn Store, name: &str) -> anyhow::Result<T> {
    let entry = store.get(&Key::new(format!("{ROOT}{name}"))?).await?;
    Ok(entry.and_then(|entry| serde_json::from_slice(&entry.value).ok()).unwrap_or_default())
}

/// File that is not complete. It is removed when it is dropped.
pub(super) struct Partial {
    pub(super) path: PathBuf,
}

/// Creates a file that only its owner can read, or empties it.
///
/// # Errors
/// The system's.
pub(super) fn private(path: &Path) -> std::io::Result<File> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

impl Partial {
    pub(super) fn create(&self) -> std::io::Result<File> {
        private(&self.path)
    }

    pub(super) fn beside(target: &Path) -> Self {
        let mut name = OsString::from(target);
        name.push(PARTIAL);
        Self { path: name.into() }
    }

    /// Gives the file its name.
    pub(super) fn publish(&self, target: &Path) -> std::io::Result<()> {
        // A link, unlike a rename, replaces no file. Some file systems have no links.
        match std::fs::hard_link(&self.path, target) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(error),
            Err(_) => std::fs::rename(&self.path, target)?,
            Ok(()) => {}
        }
        let directory = target.parent().filter(|path| *path != Path::new(""));
        File::open(directory.unwrap_or_else(|| Path::new(".")))?.sync_all()
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
