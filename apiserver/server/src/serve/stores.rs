//! Stores of the process: the key-value store, and the generic store of objects on it.

use std::path::Path;
use std::sync::Arc;

use apiserver_http::Supervisor;
use apiserver_machinery::encryption::Encryption;
use apiserver_machinery::store::{NamespaceSource, ObjectStore, OwnNamespaces};
use prometheus_client::registry::Registry;
use storage_contract::Store;
use storage_embedded::EmbeddedStore;
use tokio_util::sync::CancellationToken;

use crate::config::ServerConfiguration;
use crate::encryption_keys::EncryptionKeys;
use crate::etcd_files::EtcdFiles;
use crate::host::Host;
use crate::storage::{FirstUse, Storage};
use crate::storage_history::StorageHistory;

/// File name of the embedded store in the data directory.
pub(crate) const EMBEDDED: &str = "store.redb";

/// Opens the objects of a store.
pub(super) fn objects(
    registry: Arc<apiserver_machinery::resource::Registry>,
    store: &Arc<dyn Store>,
    encryption: &Arc<Encryption>,
    host: Option<&Host>,
    supervisor: &Supervisor,
) -> Arc<ObjectStore> {
    let namespaces: Arc<dyn NamespaceSource> = match host {
        Some(host) => host.namespaces(),
        None => Arc::new(OwnNamespaces),
    };
    let objects = ObjectStore::open(
        registry,
        Arc::clone(store),
        Arc::clone(encryption),
        namespaces,
        supervisor,
        // The watch cache runs until the process ends: reads go on while requests in flight finish.
        CancellationToken::new(),
    );
    Arc::new(match host.and_then(Host::quotas) {
        Some(quotas) => objects.with_quotas(quotas),
        None => objects,
    })
}

/// Opens the store and returns it with its name. A file must open at once; an etcd may become available later.
///
/// # Errors
/// A file that cannot be opened; an encryption key of that file that the server does not have; certificate files of etcd that cannot be read.
pub(super) async fn open(
    configuration: &ServerConfiguration,
    data: &Path,
    encryption: &EncryptionKeys,
    metrics: &mut Registry,
    supervisor: &Supervisor,
) -> anyhow::Result<(Arc<dyn Store>, String)> {
    let storage = Storage::new(metrics);
    let name = match &configuration.storage.etcd {
        None => {
            let path = data.join(EMBEDDED);
            let store = match configuration.force {
                false => EmbeddedStore::open(&path)?,
                true => EmbeddedStore::open_migrated(&path)?,
            };
            encryption.agree(&store).await?;
            storage.open(Arc::new(store));
            path.display().to_string()
        }
        Some(etcd) => {
            let shutdown = supervisor.shutdown().clone();
            let history = StorageHistory::new(data, metrics);
            let files = EtcdFiles::new(etcd.clone(), configuration.force);
            // Files that are missing at the start are a mistake. Later they may be missing for a moment.
            files.read()?;
            let first = FirstUse { keys: encryption.clone(), data: data.to_owned() };
            let connecting = Arc::clone(&storage).connect(files, first, history, shutdown);
            supervisor.spawn_finite("storage connection", connecting);
            etcd.endpoints.join(",")
        }
    };
    Ok((super::traces::of_store(storage), name))
}
