//! Command `capstan restore`.

use std::path::{Path, PathBuf};

use anyhow::bail;
use storage_backup::{BackupKey, Copied, Header, Summary};
use storage_contract::Form;
use tempfile::TempDir;

use super::location::{Location, uploads};
use super::{Setup, block_on, embedded, etcd, file, included_keys, restored};
use crate::cli::{RestoreArguments, StoreKind};
use crate::config::{Bucket, Container, Destination};
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

    fn describe(&self, file: &str) -> String {
        let Header { name, created, program, store, revision, encryption_keys, .. } = &self.header;
        let keys = if encryption_keys.is_empty() { "none".to_owned() } else { encryption_keys.join(", ") };
        let store = if store == "etcd" { "etcd" } else { "the embedded store" };
        format!(
            "{file}: complete backup of {name}, begun at {created} by capstan {program}, from {store} at revision \
             {revision}: {} values, {} bytes\nits Secrets need the encryption keys: {keys}\n",
            self.summary.entries, self.summary.bytes
        )
    }
}

/// Runs `capstan restore`.
///
/// # Errors
/// A backup that is damaged or sealed with another key, or of which the server can open no Secret; a store that has objects
/// already, or that does not respond.
pub(crate) fn restore(arguments: &RestoreArguments) -> anyhow::Result<()> {
    let setup = Setup::load(&arguments.store)?;
    let Some(given) = &arguments.file else {
        let finish = async { restored::finish(setup.open().await?.as_ref()).await };
        return Ok(output::print(&block_on(finish)?)?);
    };
    let key = setup.key(arguments.key_file.as_deref())?;
    // The copy of a remote backup is removed with it.
    let (_work, file) = block_on(local(&setup, given))?;
    if let Some(recovery) = &arguments.recovery_key_file {
        // The header is authentic only if the whole file is.
        let (header, ..) = file::verify(&file, &key, None)?;
        output::print(&included_keys::open(&header, &setup.data, recovery)?)?;
    }
    let (path, encryption) = setup.encryption()?;
    let (header, summary, values) = file::verify(&file, &key, encryption.as_deref())?;
    let backup = Verified { path: file, key, header, summary };
    output::print(&format!("{}{}", backup.describe(given), values.describe(&path)))?;
    let Some(to) = arguments.to else { return values.result() };
    if !Form::READ.contains(&backup.header.form) {
        bail!(
            "{}: its values have the stored form {}, and this release reads {:?}; restore it with a newer release",
            given,
            backup.header.form,
            Form::READ
        );
    }
    if arguments.replace && !arguments.force {
        values.any_opened(&path)?;
    }
    let text = match to {
        StoreKind::Etcd => block_on(etcd::restore(&setup, &backup, arguments.replace))?,
        StoreKind::Embedded => block_on(embedded::restore(&setup.embedded(), &backup, arguments.replace))?,
    };
    Ok(output::print(&text)?)
}

/// Returns the file of a backup: the one of a path, or a copy of a remote one with the directory that has it.
async fn local(setup: &Setup, text: &str) -> anyhow::Result<(Option<TempDir>, PathBuf)> {
    let (place, name) = match Destination::parse(text)? {
        Destination::File(path) => return Ok((None, path)),
        Destination::S3(bucket) => {
            let (path, name) = split(&bucket.path);
            (Destination::S3(Bucket { path, ..bucket }), name)
        }
        Destination::Swift(container) => {
            let (path, name) = split(&container.path);
            (Destination::Swift(Container { path, ..container }), name)
        }
    };
    if name.is_empty() {
        bail!("{text}: names no object; give the whole name of a backup, which `capstan backup` prints");
    }
    let place = Location::open(&place, &setup.configuration.backup).await?;
    let work = uploads(&setup.work())?;
    let file = place.fetch(&name, work.path()).await?;
    Ok((Some(work), file))
}

/// Splits the name of an object from the prefix before it.
fn split(path: &str) -> (String, String) {
    let (path, name) = path.rsplit_once('/').unwrap_or(("", path));
    (path.to_owned(), name.to_owned())
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
