//! Etcd as the target of a restore or a migration.

use anyhow::bail;
use storage_backup::{BackupError, Copied, ROOT, Scan, compare, copy_in, move_aside};
use storage_contract::{Entry, Form, Revision, Store, StoreError};
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
    let restored = Some(Restored::now(backup.identity()));
    let (after, form) = (backup.header.revision, backup.header.form);
    let new = NewData { by: backup.identity(), after, form, restored };
    match fill(&configuration, backup, new, replace).await {
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

/// Data that replace those of a store.
pub(super) struct NewData {
    /// Their identity, for people.
    pub(super) by: String,
    /// Their newest revision.
    pub(super) after: Revision,
    /// Their newest stored form.
    pub(super) form: u64,
    /// The restore, which is recorded; `None` for a migration.
    pub(super) restored: Option<Restored>,
}

/// Replaces the data of an etcd by those of a source, or continues that. A restore is recorded. Returns the prefix of the
/// former data.
pub(super) async fn fill(
    configuration: &EtcdConfiguration,
    source: &impl Source,
    new: NewData,
    replace: bool,
) -> anyhow::Result<(Copied, Option<String>)> {
    let aside = replace.then(|| format!("/capstan-replaced-{}/", now()));
    let NewData { by, after, form, restored } = new;
    // The embedded store has one form, but may have values of a newer one, from an etcd.
    let form = form.max(form_of_values(source).await?);
    let mut replacement = Replacement { by, aside, after, form, moved: false };
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

/// Returns the newest stored form of the values.
async fn form_of_values(source: &impl Source) -> anyhow::Result<u64> {
    let (mut entries, mut form) = (source.entries().await?, Form::OLDEST);
    while let Some(entry) = entries.next_entry().await? {
        form = form.max(Form::needed(&entry.value));
    }
    Ok(form)
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
