//! Commands `capstan backup`, `capstan restore` and `capstan storage migrate`, and the backups that the leader writes.

mod background;
mod embedded;
mod etcd;
mod file;
mod included_keys;
mod key_file;
mod location;
mod metrics;
mod migrate;
mod objects;
mod remote;
mod restore;
mod restored;
mod retention;
mod schedule;
mod service;
#[cfg(test)]
mod speed_tests;
#[cfg(test)]
mod tests;
mod through_server;
mod trial;
mod values;

use std::future::Future;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use apiserver_machinery::encryption::Encryption;
use storage_backup::BackupKey;
use storage_contract::Store;
use storage_embedded::{EmbeddedStore, OpenError};
use storage_etcd::{EtcdConfiguration, EtcdStore};

use self::location::{Location, Source};
pub(crate) use self::metrics::BackupMetrics;
pub(crate) use self::migrate::migrate;
pub(crate) use self::restore::restore;
pub(crate) use self::restored::{LastRestore, note_of_replaced_data};
pub(crate) use self::schedule::Backups;
pub(crate) use self::service::BackupService;
use crate::cli::{BackupArguments, BackupCommand, ServeArguments, StoreArguments};
use crate::config::{Backup, Destination, ServerConfiguration};
use crate::etcd_files::EtcdFiles;
use crate::serve::stores;
use crate::{encryption, output};

/// Parts of the configuration that the commands need.
pub(crate) struct Setup {
    pub(crate) configuration: ServerConfiguration,
    pub(crate) data: PathBuf,
}

impl Setup {
    pub(crate) fn load(arguments: &StoreArguments) -> anyhow::Result<Self> {
        let arguments = ServeArguments {
            config: arguments.config.clone(),
            data_dir: arguments.data_dir.clone(),
            etcd_endpoints: arguments.etcd_endpoints.clone(),
            ..ServeArguments::default()
        };
        let configuration = ServerConfiguration::load(&arguments)?;
        let data = configuration.data_directory()?;
        Ok(Self { configuration, data })
    }

    /// Returns the backup key of a flag, or of the configuration.
    fn key(&self, given: Option<&Path>) -> anyhow::Result<BackupKey> {
        let path = given.or(self.configuration.backup.key_file.as_deref()).context(
            "no backup key: give --key-file, or set backup.keyFile in --config. `capstan backup key FILE` creates one",
        )?;
        key_file::read(path)
    }

    /// Returns the encryption keys of the server, and the path of their file. `None`: there is no file.
    pub(crate) fn encryption(&self) -> anyhow::Result<(PathBuf, Option<std::sync::Arc<Encryption>>)> {
        let given = self.configuration.encryption_config_file.as_deref();
        let file = encryption::load(given, &self.data)?;
        let encryption = (!file.is_new()).then_some(file.encryption);
        Ok((file.path, encryption))
    }

    /// Returns the directory for files on their way to or from a remote place: the data directory, if there is one.
    fn work(&self) -> PathBuf {
        if self.data.is_dir() { self.data.clone() } else { std::env::temp_dir() }
    }

    /// Returns the path of the embedded store.
    fn embedded(&self) -> PathBuf {
        self.data.join(stores::EMBEDDED)
    }

    /// Returns the configuration of the connection to etcd.
    pub(crate) fn etcd(&self) -> anyhow::Result<EtcdConfiguration> {
        let etcd = self.configuration.storage.etcd.as_ref();
        let etcd = etcd.context("no etcd: give --etcd-endpoints, or set storage.etcd in --config")?;
        EtcdFiles::new(etcd.clone(), false).read()
    }

    /// Opens the store that the server uses.
    pub(crate) async fn open(&self) -> anyhow::Result<Box<dyn Store>> {
        if self.configuration.storage.etcd.is_some() {
            let etcd = self.etcd()?;
            let named = format!("cannot use the etcd at {}", etcd.endpoints.join(", "));
            return Ok(Box::new(EtcdStore::connect(etcd).await.context(named)?));
        }
        Ok(Box::new(open_embedded(&self.embedded())?))
    }
}

/// Checks the backup key of the configuration, if it names one. A server with an unusable key would write no backup, and the
/// first sign would be a metric.
///
/// # Errors
/// A file that cannot be read, or that has no key. The error names the field.
pub(crate) fn check_key_file(settings: &Backup) -> anyhow::Result<()> {
    let Some(path) = settings.key_file.as_deref() else { return Ok(()) };
    key_file::read(path).map(drop).context("backup.keyFile")
}

/// Opens an embedded store that exists.
fn open_embedded(path: &Path) -> anyhow::Result<EmbeddedStore> {
    if !path.try_exists().map_err(|error| crate::pki::unreadable(path, error))? {
        bail!(
            "{}: there is no store; give the server's directory with --data-dir, or its etcd with --etcd-endpoints",
            path.display()
        );
    }
    match EmbeddedStore::open(path) {
        Err(error @ OpenError::InUse { .. }) => Err(error).context(
            "the embedded store can be open only once, and a server uses it: stop the server, and run the command again",
        ),
        other => Ok(other?),
    }
}

/// Runs `capstan backup`.
///
/// # Errors
/// A store that cannot be read; a file that cannot be written or does not verify; values that are no JSON.
pub(crate) fn run(arguments: &BackupArguments) -> anyhow::Result<()> {
    if let Some(BackupCommand::Key(arguments)) = &arguments.command {
        let key = key_file::create(&arguments.file)?;
        let text = format!(
            "created {}: backup key {}. Without it no backup can be read: keep copies of it apart from the backups\n",
            arguments.file.display(),
            key.fingerprint()
        );
        return Ok(output::print(&text)?);
    }
    if let Some(namespace) = &arguments.connection.namespace {
        return objects::run(arguments, namespace);
    }
    if arguments.connection.kubeconfig.is_some() || arguments.connection.context.is_some() {
        return block_on(through_server::run(arguments));
    }
    let setup = Setup::load(&arguments.store)?;
    let key = setup.key(arguments.key_file.as_deref())?;
    let (path, encryption) = setup.encryption()?;
    refuse_the_encryption_key(&key, encryption.as_deref())?;
    let recovery = arguments.recovery_key_file.as_deref().filter(|_| arguments.include_keys);
    let keys = recovery.map(|recovery| included_keys::seal(&setup.data, &path, recovery)).transpose()?;
    let to = arguments.to.as_deref().unwrap_or_default();
    let backup = setup.configuration.backup.clone();
    let (written, taken) = block_on(async {
        let (place, name) = open_target(to, &backup).await?;
        let store = setup.open().await.map_err(through_the_server)?;
        let configuration = &setup.configuration;
        let encryption = encryption.as_deref();
        let keys = keys.as_deref();
        let source = Source { store: store.as_ref(), configuration, key: &key, encryption, keys };
        let taken = place.take(&source, &name, &setup.work(), &|| false).await?;
        Ok((place.url(&name), taken))
    })?;
    output::print(&taken.describe(&written, &path))?;
    taken.values.result()
}

/// Returns true if a running server has the embedded store open.
pub(crate) fn is_in_use(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref::<OpenError>(), Some(OpenError::InUse { .. }))
}

/// Names the other ways to a backup in the error about a store that a server has open.
fn through_the_server(error: anyhow::Error) -> anyhow::Error {
    let ways = "the server can write the backup: give a kubeconfig with --kubeconfig, or set backup.schedule in its \
                configuration";
    if is_in_use(&error) { error.context(ways) } else { error }
}

/// Returns the place `--to` of a new backup and the name of its file: that of the path, or a new one in a directory or a
/// remote place. A directory that does not exist is created if the path ends with a slash, or is a URL as in a schedule:
/// as a file, it would prevent the directory of the schedule.
async fn open_target(to: &str, settings: &Backup) -> anyhow::Result<(Location, String)> {
    let destination = Destination::parse(to).context("--to")?;
    let new = retention::file_name(settings.name(), jiff::Timestamp::now());
    let is_place = to.ends_with('/') || (to.starts_with("file:") && !to.ends_with(retention::ENDING));
    let path = match &destination {
        Destination::File(path) if path.exists() || !is_place => path,
        _ => return Ok((Location::open(&destination, settings).await?, new)),
    };
    if path.is_dir() {
        return Ok((Location::Directory(path.clone()), new));
    }
    if path.exists() {
        bail!("{}: exists already; a backup replaces no file", path.display());
    }
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.with_context(|| format!("{}: names no file", path.display()))?;
    let directory = path.parent().map(Path::to_owned).unwrap_or_default();
    Ok((Location::Directory(directory), name.to_owned()))
}

/// Refuses a backup key that also seals values: who has a backup and its key would have all Secrets.
fn refuse_the_encryption_key(key: &BackupKey, encryption: Option<&Encryption>) -> anyhow::Result<()> {
    let sealed =
        encryption.map(|encryption| encryption.seal_with(&key.fingerprint(), "", b"")).transpose()?;
    if sealed.flatten().is_some() {
        bail!(
            "the backup key {} is also in the encryption configuration: create another one with `capstan backup key \
             FILE`, so that a backup and its key do not reveal Secrets",
            key.fingerprint()
        );
    }
    Ok(())
}

pub(crate) fn block_on<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(future)
}

/// Returns the present time for names of things that are kept aside.
fn now() -> String {
    jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string()
}
