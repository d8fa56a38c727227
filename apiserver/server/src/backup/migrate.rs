//! Command `capstan storage migrate`: the copy of a restore, without a file.

use std::path::Path;

use anyhow::bail;
use storage_contract::Store;
use storage_embedded::EmbeddedStore;
use storage_etcd::{EtcdConfiguration, EtcdStore};

use super::restore::{describe_copy, describe_nothing};
use super::{Setup, block_on, embedded, etcd, open_embedded};
use crate::cli::{MigrateArguments, StoreKind};
use crate::output;

/// Runs `capstan storage migrate`.
///
/// # Errors
/// A source that servers use, or that was migrated before; a target that has objects already.
pub(crate) fn migrate(arguments: &MigrateArguments) -> anyhow::Result<()> {
    let setup = Setup::load(&arguments.store)?;
    let configuration = setup.etcd()?;
    let (path, endpoints) = (setup.embedded(), configuration.endpoints.join(", "));
    let (text, source) = match (arguments.from, arguments.to) {
        (Some(StoreKind::Embedded), Some(StoreKind::Etcd)) => {
            let text = block_on(to_etcd(&path, &configuration, arguments))?;
            (text, format!("the store {}", path.display()))
        }
        (Some(StoreKind::Etcd), Some(StoreKind::Embedded)) => {
            let text = block_on(to_embedded(&configuration, &path, arguments))?;
            (text, format!("the etcd at {endpoints}"))
        }
        _ => bail!("--from and --to: give embedded and etcd, in either order"),
    };
    let next = match arguments.to {
        Some(StoreKind::Etcd) => "set storage.etcd in the configuration",
        _ => "remove storage.etcd from the configuration",
    };
    Ok(output::print(&format!(
        "{text}{source} is kept and marked as migrated: no server opens it without --force\nnext: {next}, and start \
         the server\n"
    ))?)
}

async fn to_etcd(
    path: &Path,
    configuration: &EtcdConfiguration,
    arguments: &MigrateArguments,
) -> anyhow::Result<String> {
    let source = if arguments.force { EmbeddedStore::open_migrated(path)? } else { open_embedded(path)? };
    let (revision, target) = (source.current_revision().await?, configuration.endpoints.join(", "));
    let by = format!("the migration of {} at revision {revision}", path.display());
    let entries: &dyn Store = &source;
    let text = match etcd::fill(configuration, &entries, (by, None), revision, arguments.replace).await {
        Ok((copied, aside)) => describe_copy(copied, &target, aside.as_deref()),
        // An earlier attempt ended just before the mark.
        Err(error) if etcd::is_refused(&error) && etcd::has_all(configuration, &entries).await => {
            describe_nothing(&target)
        }
        Err(error) => return Err(error),
    };
    drop(source);
    EmbeddedStore::mark_migrated(path)?;
    Ok(text)
}

async fn to_embedded(
    configuration: &EtcdConfiguration,
    path: &Path,
    arguments: &MigrateArguments,
) -> anyhow::Result<String> {
    let accept_migrated = arguments.force;
    let present = EtcdStore::connect(EtcdConfiguration { accept_migrated, ..configuration.clone() }).await;
    // From here on no server writes to the source.
    let source = EtcdStore::migrate(configuration.clone(), &path.display().to_string()).await?;
    let filled = fill_embedded(&source, path, arguments.replace).await;
    // If an earlier attempt set the mark, the target may have been complete, and servers may use it.
    if filled.is_err() && present.is_ok() {
        source.cancel_migration().await?;
    }
    filled
}

async fn fill_embedded(source: &EtcdStore, path: &Path, replace: bool) -> anyhow::Result<String> {
    let (revision, target) = (source.current_revision().await?, path.display().to_string());
    let entries: &dyn Store = source;
    if !replace && embedded::has_all(path, &entries).await {
        return Ok(describe_nothing(&target));
    }
    let (copied, aside) = embedded::fill(path, &entries, None, revision, replace).await?;
    let aside = aside.map(|path| path.display().to_string());
    Ok(describe_copy(copied, &target, aside.as_deref()))
}
