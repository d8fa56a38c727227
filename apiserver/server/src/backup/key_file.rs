//! File with the backup key.

use std::io::{ErrorKind, Write};
use std::path::Path;

use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use storage_backup::BackupKey;

use crate::pki;

/// Text before the key.
const PREFIX: &str = "capstan-backup-key: ";

/// Creates a new key in a new file, which only its owner can read.
///
/// # Errors
/// A file that exists, or that cannot be written.
pub(super) fn create(path: &Path) -> anyhow::Result<BackupKey> {
    let key = BackupKey::generate()?;
    let text = format!(
        "# Key that seals backups of Capstan. Without it, they cannot be read. Keep copies of this\n\
         # file, but not beside the backups.\n\
         {PREFIX}{}\n",
        STANDARD.encode(key.bytes())
    );
    let write = || -> std::io::Result<()> {
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    match write() {
        Ok(()) => Ok(key),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!("{}: exists already; this command replaces no key", path.display())
        }
        Err(error) => Err(error).with_context(|| format!("{}: cannot be created", path.display())),
    }
}

/// Reads a key. Errors never show it.
///
/// # Errors
/// A file that cannot be read, or that has no key.
pub(super) fn read(path: &Path) -> anyhow::Result<BackupKey> {
    if !path.exists() {
        bail!(
            "{0}: there is no backup key; create one with `capstan backup key {0}`, or copy the one of the backup",
            path.display()
        );
    }
    let text = pki::read(path)?;
    let key = text.lines().find_map(|line| line.strip_prefix(PREFIX)).and_then(|encoded| {
        let bytes = STANDARD.decode(encoded.trim()).ok()?;
        Some(BackupKey::new(bytes.try_into().ok()?))
    });
    key.with_context(|| {
        format!(
            "{}: has no line {PREFIX:?} with 32 bytes in base64, as `capstan backup key` writes it",
            path.display()
        )
    })
}
