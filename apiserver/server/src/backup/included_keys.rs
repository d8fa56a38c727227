//! Keys of the installation in a backup: the files of the encryption keys and of the CA, sealed by the recovery key.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, bail};
use storage_backup::{BackupKey, Header};

use crate::install;
use crate::pki;

/// Directory of the CA in the data directory.
const PKI: &str = "pki";

/// File with the encryption keys in the data directory.
const ENCRYPTION: &str = "encryption.yaml";

/// Reads the recovery key.
fn recovery_key(path: &Path) -> anyhow::Result<BackupKey> {
    let key = install::parse_recovery_key(&pki::read(path)?).with_context(|| path.display().to_string())?;
    Ok(BackupKey::new(key))
}

/// Seals the keys of a data directory. `encryption`: the file with the encryption keys, which may be elsewhere.
///
/// # Errors
/// A file that cannot be read, or that has no recovery key.
pub(super) fn seal(data: &Path, encryption: &Path, recovery: &Path) -> anyhow::Result<String> {
    let key = recovery_key(recovery)?;
    let mut files = BTreeMap::from([(ENCRYPTION.to_owned(), pki::read(encryption)?)]);
    let directory = data.join(PKI);
    if directory.is_dir() {
        for entry in std::fs::read_dir(&directory).with_context(|| directory.display().to_string())? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            // Serving certificates are made anew.
            if name.starts_with("ca.") {
                files.insert(format!("{PKI}/{name}"), pki::read(&path)?);
            }
        }
    }
    Ok(key.seal(&serde_json::to_string(&files)?)?)
}

/// Writes the keys of a backup to a data directory. Returns lines about them, for people.
///
/// # Errors
/// A backup without keys; another recovery key; a file that exists with other content.
pub(super) fn open(header: &Header, data: &Path, recovery: &Path) -> anyhow::Result<String> {
    if header.keys.is_empty() {
        bail!(
            "the backup has no keys: it was written without --include-keys. Copy encryption.yaml and pki/ yourself"
        );
    }
    let text = recovery_key(recovery)?.open(&header.keys).with_context(|| {
        format!("{}: this recovery key does not open the keys in the backup", recovery.display())
    })?;
    let files: BTreeMap<String, String> = serde_json::from_str(&text).context("the keys in the backup")?;
    let is_known = |name: &String| {
        name == ENCRYPTION || name.strip_prefix("pki/ca.").is_some_and(|rest| !rest.contains(['/', '\\']))
    };
    if let Some(other) = files.keys().find(|name| !is_known(name)) {
        bail!("the keys in the backup have a file {other:?}, which this release does not know");
    }
    for (name, content) in &files {
        let path = data.join(name);
        if path.exists() && pki::read(&path)? != *content {
            bail!(
                "{}: exists already with other content; move it away, or give another --data-dir",
                path.display()
            );
        }
    }
    let mut lines = String::new();
    pki::private_directory(&data.join(PKI))?;
    for (name, content) in files {
        let path = data.join(name);
        pki::write_private(&path, &content)?;
        let _ = writeln!(lines, "wrote {}", path.display());
    }
    Ok(lines)
}
