//! Embedded store as the target of a restore or a migration: a new file, which replaces the old one at the end.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use storage_backup::Copied;
use storage_contract::{Revision, Store};
use storage_embedded::EmbeddedStore;

use super::etcd::{Source, check_equal, copy};
use super::restore::{Verified, describe_copy, describe_nothing, with_suffix};
use super::restored::Restored;
use super::{now, open_embedded};
use crate::pki;

/// Suffix of the store that is being written.
const WORK: &str = ".restoring";

/// Room above the largest known revision, as between two incarnations of a store in etcd.
const MARGIN: u64 = 1_000_000_000;

/// Restores a backup to the embedded store at a path.
pub(super) async fn restore(path: &Path, backup: &Verified, replace: bool) -> anyhow::Result<String> {
    let target = path.display().to_string();
    if !replace && has_all(path, backup).await {
        return Ok(describe_nothing(&target));
    }
    let restored = Restored::now(backup.identity());
    let (copied, aside) = fill(path, backup, Some(&restored), backup.header.revision, replace).await?;
    Ok(describe_copy(copied, &target, aside.map(|path| path.display().to_string()).as_deref()))
}

/// Returns true if the store at a path has the same values already.
pub(super) async fn has_all(path: &Path, source: &impl Source) -> bool {
    match open_embedded(path) {
        Ok(store) => check_equal(source, &store).await.is_ok(),
        Err(_) => false,
    }
}

/// Writes a new store with the entries of a source, and puts it in the position of the old one. A restore is recorded.
/// Returns the path at which the old one is kept. An attempt that was interrupted leaves the old store as it was.
pub(super) async fn fill(
    path: &Path,
    source: &impl Source,
    restored: Option<&Restored>,
    after: Revision,
    replace: bool,
) -> anyhow::Result<(Copied, Option<PathBuf>)> {
    if path.exists() && !replace {
        bail!("{}: exists already; give --replace to keep it aside, or another --data-dir", path.display());
    }
    if let Some(directory) = path.parent() {
        pki::private_directory(directory)?;
    }
    // It stays open until the end, so that no server uses it.
    let old = if path.exists() { Some(EmbeddedStore::open_migrated(path)?) } else { None };
    let present = match &old {
        Some(old) => old.current_revision().await?,
        None => Revision::NONE,
    };
    let work = with_suffix(path, WORK);
    remove(&work)?;
    let after = Revision::new(after.max(present).number().saturating_add(MARGIN));
    let store = EmbeddedStore::create_after(&work, after)?;
    let copied = copy(source, &store).await?;
    if let Some(restored) = restored {
        restored.write(&store).await?;
    }
    drop(store);
    let had_old = old.is_some();
    drop(old);
    let aside = publish(&work, path, had_old).with_context(|| format!("{}", path.display()))?;
    Ok((copied, aside))
}

/// Removes the store of an interrupted attempt.
fn remove(work: &Path) -> anyhow::Result<()> {
    for file in EmbeddedStore::files(work) {
        if file.exists() {
            std::fs::remove_file(&file).with_context(|| format!("{}: cannot be removed", file.display()))?;
        }
    }
    Ok(())
}

/// Renames the new store. The path always has one of both: the old one gets a second name first.
fn publish(work: &Path, path: &Path, had_old: bool) -> std::io::Result<Option<PathBuf>> {
    let aside = had_old.then(|| with_suffix(path, &format!("-replaced-{}", now())));
    if let Some(aside) = &aside {
        std::fs::hard_link(path, aside)?;
    }
    std::fs::rename(work, path)?;
    // The journals of a closed store are empty.
    for journal in EmbeddedStore::files(work).iter().skip(1) {
        let _ = std::fs::remove_file(journal);
    }
    if let Some(directory) = path.parent() {
        File::open(directory)?.sync_all()?;
    }
    Ok(aside)
}
