//! Command `capstan restore`.

use std::path::{Path, PathBuf};

use storage_backup::{BackupKey, Copied, Header, Summary};

use super::{Setup, block_on, embedded, etcd, file};
use crate::cli::{RestoreArguments, StoreKind};
use crate::output;

/// Bytes of the digest in the name of a backup.
const NAME_BYTES: usize = 8;

/// Backup that was read whole.
pub(super) struct Verified {
    pub(super) path: PathBuf,
    pub(super) key: BackupKey,
    pub(super) header: Header,
    pub(super) summary: Summary,
}

impl Verified {
    /// Returns the identity of the restore, for people and for its continuation.
    pub(super) fn identity(&self) -> String {
        let digest = self.summary.digest.iter().take(NAME_BYTES);
        let digest: String = digest.map(|byte| format!("{byte:02x}")).collect();
        format!("the restore of {} of {} ({digest})", self.header.name, self.header.created)
    }

    fn describe(&self) -> String {
        let Header { name, created, program, store, revision, encryption_keys, .. } = &self.header;
        let keys = if encryption_keys.is_empty() { "none".to_owned() } else { encryption_keys.join(", ") };
        let store = if store == "etcd" { "etcd" } else { "the embedded store" };
        format!(
            "{}: complete backup of {name}, begun at {created} by capstan {program}, from {store} at revision \
             {revision}: {} values, {} bytes\nits Secrets need the encryption keys: {keys}\n",
            self.path.display(),
            self.summary.entries,
            self.summary.bytes
        )
    }
}

/// Runs `capstan restore`.
///
/// # Errors
/// A backup that is damaged or sealed with another key; a store that has objects already, or that does not respond.
pub(crate) fn restore(arguments: &RestoreArguments) -> anyhow::Result<()> {
    let setup = Setup::load(&arguments.store)?;
    let key = setup.key(arguments.key_file.as_deref())?;
    let (path, encryption) = setup.encryption()?;
    let (header, summary, values) = file::verify(&arguments.file, &key, encryption.as_deref())?;
    let backup = Verified { path: arguments.file.clone(), key, header, summary };
    output::print(&format!("{}{}", backup.describe(), values.describe(&path)))?;
    let Some(to) = arguments.to else { return values.result() };
    let text = match to {
        StoreKind::Etcd => block_on(etcd::restore(&setup, &backup, arguments.replace))?,
        StoreKind::Embedded => block_on(embedded::restore(&setup.embedded(), &backup, arguments.replace))?,
    };
    Ok(output::print(&text)?)
}

/// Returns the line about a completed copy.
pub(super) fn describe_copy(copied: Copied, target: &str, aside: Option<&str>) -> String {
    let Copied { written, present } = copied;
    let earlier =
        if present == 0 { String::new() } else { format!(", and found {present} of an earlier attempt") };
    let aside = aside.map(|aside| format!("; the former objects are at {aside}")).unwrap_or_default();
    format!("wrote {written} values to {target}{earlier}, and compared all of them{aside}\n")
}

/// Returns the line about a store that has the objects already.
pub(super) fn describe_nothing(target: &str) -> String {
    format!("{target} has exactly these values already; nothing was changed\n")
}

/// Returns the path of a kept file or a temporary one: the path of the store with a suffix.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
