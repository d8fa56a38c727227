//! Etcd as the target of a restore or a migration.

use anyhow::bail;
use storage_backup::{BackupError, Copied, ROOT, Scan, compare, copy_in, move_aside};
use storage_contract::{Entry, Revision, Store, StoreError};
use storage_etcd::{EtcdConfiguration, EtcdStore, Replacement};

use super::restore::{Verified, describe_copy, describe_nothing};
use super::restored::Restored;
use super::{Setup, file, now};

/// Source of entries that can be read more than once.
pub(super) trait Source {
    /// Iteration over all entries, in key order.
    type Entries<'s>: Entries
    where
        Self: 's;

    /// Begins an iteration.
    async fn entries(&self) -> anyhow::Result<Self::Entries<'_>>;
}

/// Iteration over entries.
pub(super) trait Entries {
    /// Returns the next entry.
    async fn next_entry(&mut self) -> Result<Option<Entry>, BackupError>;
}

impl Source for Verified {
    type Entries<'s> = storage_backup::Reader<std::io::BufReader<std::fs::File>>;

    async fn entries(&self) -> anyhow::Result<Self::Entries<'_>> {
        file::open(&self.path, &self.key)
    }
}

impl Entries for storage_backup::Reader<std::io::BufReader<std::fs::File>> {
    async fn next_entry(&mut self) -> Result<Option<Entry>, BackupError> {
        Self::next_entry(self)
    }
}

impl Source for &dyn Store {
    type Entries<'s>
        = Scan<'s>
    where
        Self: 's;

    async fn entries(&self) -> anyhow::Result<Self::Entries<'_>> {
        Ok(Scan::begin(*self, ROOT).await?)
    }
}

impl Entries for Scan<'_> {
    async fn next_entry(&mut self) -> Result<Option<Entry>, BackupError> {
        Ok(self.next().await?)
    }
}

/// Restores a backup to the etcd of a configuration.
pub(super) async fn restore(setup: &Setup, backup: &Verified, replace: bool) -> anyhow::Result<String> {
    let configuration = setup.etcd()?;
    let target = configuration.endpoints.join(", ");
    let after = backup.header.revision;
    let restored = Restored::now(backup.identity());
    match fill(&configuration, backup, (backup.identity(), Some(&restored)), after, replace).await {
        Err(error) if !replace && is_refused(&error) && has_all(&configuration, backup).await => {
            Ok(describe_nothing(&target))
        }
        Err(error) => Err(error),
        Ok((copied, aside)) => Ok(describe_copy(copied, &target, aside.as_deref())),
    }
}

pub(super) fn is_refused(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(StoreError::Refused { .. }))
}

/// Returns true if an etcd that servers can use has the same values already.
pub(super) async fn has_all(configuration: &EtcdConfiguration, source: &impl Source) -> bool {
    let equal = async {
        let store = EtcdStore::connect(configuration.clone()).await?;
        check_equal(source, &store).await
    };
    equal.await.is_ok()
}

/// Replaces the data of an etcd by those of a source, or continues that. A restore is recorded. Returns the prefix of the
/// former data.
pub(super) async fn fill(
    configuration: &EtcdConfiguration,
    source: &impl Source,
    (by, restored): (String, Option<&Restored>),
    after: Revision,
    replace: bool,
) -> anyhow::Result<(Copied, Option<String>)> {
    let aside = replace.then(|| format!("/capstan-replaced-{}/", now()));
    let mut replacement = Replacement { by, aside, after, moved: false };
    let mut store = EtcdStore::replace(configuration.clone(), &mut replacement).await?;
    if !replacement.moved {
        if let Some(aside) = &replacement.aside {
            move_aside(&store, aside).await?;
        }
        store.advance_replacement().await?;
        store = EtcdStore::replace(configuration.clone(), &mut replacement).await?;
    }
    let copied = copy(source, &store).await?;
    if let Some(restored) = restored {
        restored.write(&store).await?;
    }
    store.advance_replacement().await?;
    Ok((copied, replacement.aside))
}

/// Copies all entries into a store, and compares them.
pub(super) async fn copy(source: &impl Source, target: &dyn Store) -> anyhow::Result<Copied> {
    let mut entries = source.entries().await?;
    let copied = copy_in(target, async || entries.next_entry().await).await?;
    check_equal(source, target).await?;
    Ok(copied)
}

/// Compares all entries with those of a store.
///
/// # Errors
/// The first difference.
pub(super) async fn check_equal(source: &impl Source, target: &dyn Store) -> anyhow::Result<()> {
    let mut entries = source.entries().await?;
    let mut scan = Scan::begin(target, ROOT).await?;
    let (_, difference) = compare(async || entries.next_entry().await, &mut scan).await?;
    match difference {
        None => Ok(()),
        Some(difference) => {
            bail!("the target differs after the copy: {difference}. Is a server running on it?")
        }
    }
}
