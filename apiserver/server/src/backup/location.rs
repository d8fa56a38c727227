//! Location of backups: a directory, or objects of a remote service.

use std::collections::BTreeSet;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use apiserver_machinery::encryption::Encryption;
use jiff::Timestamp;
use storage_backup::BackupKey;
use storage_contract::Store;
use tempfile::TempDir;

use super::file::{self, Taken, VerificationFailed};
use super::remote::{self, Remote};
use super::retention;
use crate::config::{Backup, Destination, ServerConfiguration};
use crate::pki;

/// Age after which an incomplete file is that of a server that was killed.
const ABANDONED: Duration = Duration::from_hours(24);

/// Prefix of the directories in which files wait for their upload.
const UPLOADS: &str = "backup-upload-";

/// Location of backups.
#[derive(Debug)]
pub(super) enum Location {
    Directory(PathBuf),
    Remote(Box<Remote>),
}

/// Inputs of a backup.
pub(super) struct Source<'s> {
    pub(super) store: &'s dyn Store,
    pub(super) configuration: &'s ServerConfiguration,
    pub(super) key: &'s BackupKey,
    pub(super) encryption: Option<&'s Encryption>,
    /// Sealed keys of the installation, for the header.
    pub(super) keys: Option<&'s str>,
}

impl Location {
    /// Opens a place. A directory is created.
    ///
    /// # Errors
    /// A directory that cannot be created; credentials that are missing or refused.
    pub(super) async fn open(destination: &Destination, settings: &Backup) -> anyhow::Result<Self> {
        if let Some(remote) = Remote::open(destination, settings).await? {
            return Ok(Self::Remote(Box::new(remote)));
        }
        match destination {
            Destination::File(path) => {
                pki::private_directory(path)?;
                Ok(Self::Directory(path.clone()))
            }
            Destination::S3(_) | Destination::Swift(_) => bail!("the destination is not known"),
        }
    }

    /// Returns the path or the URL of a backup, for people.
    pub(super) fn url(&self, file: &str) -> String {
        match self {
            Self::Directory(directory) => directory.join(file).display().to_string(),
            Self::Remote(remote) => remote.url(file),
        }
    }

    /// Returns the times of the backups of an installation.
    ///
    /// # Errors
    /// A place that cannot be listed.
    pub(super) async fn times(&self, name: &str) -> anyhow::Result<BTreeSet<Timestamp>> {
        let names = match self {
            Self::Remote(remote) => remote.list().await?,
            Self::Directory(directory) => {
                let named = || format!("{}: cannot be listed", directory.display());
                let entries = std::fs::read_dir(directory).with_context(named)?;
                entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
            }
        };
        Ok(names.iter().filter_map(|file| retention::time_of(name, file)).collect())
    }

    /// Writes a backup with this name and verifies it there. `work`: directory for the file until it is uploaded.
    ///
    /// # Errors
    /// Those of `file::take`; `VerificationFailed`; the service's.
    pub(super) async fn take(
        &self,
        source: &Source<'_>,
        name: &str,
        work: &Path,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> anyhow::Result<Taken> {
        match self {
            Self::Directory(directory) => file::take(source, &directory.join(name), stop).await,
            Self::Remote(remote) => {
                let work = uploads(work)?;
                let local = work.path().join(name);
                let taken = file::take(source, &local, stop).await?;
                upload(remote, name, &local).await?;
                Ok(taken)
            }
        }
    }

    /// Returns a file with a backup: the one in the directory, or a copy in `work`.
    ///
    /// # Errors
    /// The service's.
    pub(super) async fn fetch(&self, name: &str, work: &Path) -> anyhow::Result<PathBuf> {
        match self {
            Self::Directory(directory) => Ok(directory.join(name)),
            Self::Remote(remote) => download(remote, name, work).await,
        }
    }

    /// Removes a backup.
    ///
    /// # Errors
    /// The service's or the system's.
    pub(super) async fn remove(&self, name: &str) -> anyhow::Result<()> {
        match self {
            Self::Directory(directory) => {
                let path = directory.join(name);
                std::fs::remove_file(&path).with_context(|| format!("{}: cannot be removed", path.display()))
            }
            Self::Remote(remote) => remote.delete(name).await,
        }
    }

    /// Removes incomplete files of servers that were killed. A remote place has none: an object is there as a whole.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn remove_abandoned(&self, name: &str) -> anyhow::Result<()> {
        let Self::Directory(directory) = self else { return Ok(()) };
        for file in std::fs::read_dir(directory)?.filter_map(Result::ok) {
            let path = file.file_name();
            let complete = path.to_str().and_then(|path| path.strip_suffix(file::PARTIAL));
            let time = complete.and_then(|complete| retention::time_of(name, complete));
            let age = time.and_then(|time| Duration::try_from(Timestamp::now().duration_since(time)).ok());
            if age.is_some_and(|age| age > ABANDONED) {
                std::fs::remove_file(file.path())?;
            }
        }
        Ok(())
    }
}

/// Writes a verified file as an object, reads it back, and compares both.
///
/// # Errors
/// `VerificationFailed`; the service's.
pub(super) async fn upload(remote: &Remote, name: &str, local: &Path) -> anyhow::Result<()> {
    let expected = remote::digest_of_file(local)?;
    remote.put(name, local).await?;
    if remote.get(name, &mut std::io::sink()).await? == expected {
        return Ok(());
    }
    // It would be the newest backup.
    remote.delete(name).await?;
    Err(VerificationFailed).with_context(|| remote.url(name))
}

/// Reads an object into a new file of a directory.
///
/// # Errors
/// The service's or the system's.
pub(super) async fn download(remote: &Remote, name: &str, work: &Path) -> anyhow::Result<PathBuf> {
    let path = work.join(name);
    let file = file::private(&path).with_context(|| format!("{}: cannot be created", path.display()))?;
    remote.get(name, &mut BufWriter::new(file)).await?;
    Ok(path)
}

/// Creates a directory that is removed when it is dropped, and removes those of servers that were killed.
///
/// # Errors
/// The system's.
pub(super) fn uploads(parent: &Path) -> anyhow::Result<TempDir> {
    let named = || format!("{}: cannot be used for files of backups", parent.display());
    for entry in std::fs::read_dir(parent).with_context(named)?.filter_map(Result::ok) {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(UPLOADS));
        let written = entry.metadata().and_then(|metadata| metadata.modified()).ok();
        let age = written.and_then(|time| SystemTime::now().duration_since(time).ok());
        if is_ours && age.is_some_and(|age| age > ABANDONED) {
            std::fs::remove_dir_all(entry.path()).with_context(named)?;
        }
    }
    tempfile::Builder::new().prefix(UPLOADS).tempdir_in(parent).with_context(named)
}
