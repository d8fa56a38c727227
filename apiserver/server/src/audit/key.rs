//! Audit key: 32 random bytes in a file. Two keys are derived from it: one links lines, and one signs checkpoints.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use apiserver_http::ChainKey;
use apiserver_machinery::encryption::fingerprint;
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::{output, pki};

/// File of the key in the data directory.
const FILE: &str = "audit.key";

/// Text before the key.
const PREFIX: &str = "capstan-audit-key: ";

/// Bytes of the key.
const LENGTH: usize = 32;

/// Purpose of the key that links lines.
const LINES: &[u8] = b"capstan audit lines 1";

/// Purpose of the key that signs checkpoints.
const CHECKPOINTS: &[u8] = b"capstan audit checkpoints 1";

/// Audit key of a server.
#[derive(Debug, Clone)]
pub(crate) struct AuditKey {
    chain: ChainKey,
    checkpoints: hmac::Key,
    fingerprint: String,
}

impl AuditKey {
    /// Creates the key of these bytes.
    pub(super) fn new(bytes: &[u8; LENGTH]) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, bytes);
        let checkpoints = hmac::sign(&key, CHECKPOINTS);
        Self {
            chain: ChainKey::new(hmac::sign(&key, LINES).as_ref()),
            checkpoints: hmac::Key::new(hmac::HMAC_SHA256, checkpoints.as_ref()),
            fingerprint: fingerprint(bytes),
        }
    }

    /// Returns the path of the key: the given one, or that in the data directory.
    pub(crate) fn path(given: Option<&Path>, data: &Path) -> PathBuf {
        given.map_or_else(|| data.join(FILE), Path::to_owned)
    }

    /// Opens the key of a server. The one in the data directory is created if it is missing and the log `is_new`.
    ///
    /// # Errors
    /// A file that cannot be read or written, or that has no key.
    pub(super) fn open(given: Option<&Path>, data: &Path, is_new: bool) -> anyhow::Result<Self> {
        let path = Self::path(given, data);
        if given.is_some() || is_present(&path) {
            return Self::read(&path);
        }
        if !is_new {
            bail!(
                "{}: there is no audit key, but the audit log has links of one. Copy the file back, or move the files of \
                 the log to another directory: then the next start creates a key",
                path.display()
            );
        }
        let bytes = random()?;
        pki::write_private(&path, &text(&bytes))?;
        let key = Self::new(&bytes);
        tracing::info!(file = %path.display(), key = key.fingerprint, "created the audit key: back it up");
        Ok(key)
    }

    /// Reads a key. Errors never show it.
    ///
    /// # Errors
    /// A file that cannot be read, or that has no key.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        if !is_present(path) {
            bail!(
                "{0}: there is no audit key; copy the one of the server, or create one with `capstan audit key {0}`",
                path.display()
            );
        }
        let text = pki::read(path)?;
        let bytes = text.lines().find_map(|line| line.strip_prefix(PREFIX)).and_then(|encoded| {
            let bytes = STANDARD.decode(encoded.trim()).ok()?;
            <[u8; LENGTH]>::try_from(bytes).ok()
        });
        let bytes = bytes.with_context(|| {
            format!(
                "{}: has no line {PREFIX:?} with 32 bytes in base64, as `capstan audit key` writes it",
                path.display()
            )
        })?;
        Ok(Self::new(&bytes))
    }

    /// Returns the key that links lines.
    pub(super) fn chain(&self) -> &ChainKey {
        &self.chain
    }

    /// Returns the key that signs checkpoints.
    pub(super) fn checkpoints(&self) -> &hmac::Key {
        &self.checkpoints
    }

    /// Returns the first 8 hexadecimal digits of the SHA-256 of the key.
    pub(super) fn fingerprint(&self) -> &str {
        &self.fingerprint
    }
}

/// Returns false if a file is certainly missing. The key of another user is not: a new one would verify nothing.
fn is_present(path: &Path) -> bool {
    path.try_exists().unwrap_or(true)
}

/// Runs `capstan audit key`.
///
/// # Errors
/// A file that exists, or that cannot be written.
pub(super) fn create(path: &Path) -> anyhow::Result<()> {
    if path.exists() {
        bail!("{}: exists already; this command replaces no key", path.display());
    }
    let bytes = random()?;
    pki::write_private(path, &text(&bytes))?;
    let text = format!(
        "created {}: audit key {}. Without it no audit log can be verified: keep a copy of it\n",
        path.display(),
        fingerprint(&bytes)
    );
    Ok(output::print(&text)?)
}

fn random() -> anyhow::Result<[u8; LENGTH]> {
    let mut bytes = [0; LENGTH];
    aws_lc_rs::rand::fill(&mut bytes)
        .map_err(|_| anyhow!("cannot generate an audit key: the system has no randomness"))?;
    Ok(bytes)
}

fn text(bytes: &[u8; LENGTH]) -> String {
    format!(
        "# Key of the audit log of Capstan. Without it, the log cannot be verified. A user who has it can\n\
         # write lines that look real: keep it apart from the log.\n\
         {PREFIX}{}\n",
        STANDARD.encode(bytes)
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn am_12_the_first_start_creates_the_key_and_a_lost_key_is_not_replaced() {
        let data = tempfile::tempdir().unwrap();
        let path = AuditKey::path(None, data.path());
        let error = AuditKey::open(None, data.path(), false).unwrap_err().to_string();
        assert!(error.contains("audit.key: there is no audit key, but the audit log"), "{error}");
        let key = AuditKey::open(None, data.path(), true).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o77, 0);
        assert_eq!(AuditKey::open(None, data.path(), false).unwrap().fingerprint, key.fingerprint);
        assert_eq!(AuditKey::read(&path).unwrap().fingerprint, key.fingerprint);
        let other = data.path().join("other.key");
        let error = AuditKey::open(Some(&other), data.path(), true).unwrap_err().to_string();
        assert!(error.contains("other.key: there is no audit key"), "{error}");
        create(&other).unwrap();
        assert_ne!(AuditKey::read(&other).unwrap().fingerprint, key.fingerprint);
        assert!(create(&other).unwrap_err().to_string().contains("replaces no key"));
        // A path below a file, as one below a directory of another user, cannot be looked up.
        let error = format!("{:#}", AuditKey::open(None, &path, false).unwrap_err());
        assert!(error.contains("audit.key: cannot be read: ") && !error.contains("no audit key"), "{error}");
        std::fs::write(&other, format!("{PREFIX}aHVudGVyMg==\n")).unwrap();
        let error = format!("{:#}", AuditKey::read(&other).unwrap_err());
        assert!(error.contains("other.key: has no line") && !error.contains("aHVudGVyMg"), "{error}");
    }
}
