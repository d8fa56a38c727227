//! Stores of the process: the key-value store, and the generic store of objects on it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::bail;
use apiserver_http::Supervisor;
use apiserver_machinery::encryption::Encryption;
use apiserver_machinery::store::{NamespaceSource, ObjectStore, OwnNamespaces};
use prometheus_client::registry::Registry;
use storage_contract::Store;
use storage_embedded::EmbeddedStore;
use storage_etcd::EtcdConfiguration;
use tokio_util::sync::CancellationToken;

use crate::config::{Etcd, ServerConfiguration};
use crate::encryption_keys::EncryptionKeys;
use crate::host::Host;
use crate::pki;
use crate::storage::Storage;
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
    Arc::new(ObjectStore::open(
        registry,
        Arc::clone(store),
        Arc::clone(encryption),
        namespaces,
        supervisor,
        // The watch cache runs until the process ends: reads go on while requests in flight finish.
        CancellationToken::new(),
    ))
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
            let (seen, accept_migrated) = (history.seen(), configuration.force);
            let etcd_configuration = EtcdConfiguration { seen, accept_migrated, ..etcd_configuration(etcd)? };
            let connecting =
                Arc::clone(&storage).connect(etcd_configuration, encryption.clone(), history, shutdown);
            supervisor.spawn_finite("storage connection", connecting);
            etcd.endpoints.join(",")
        }
    };
    Ok((storage, name))
}

/// Returns the configuration of the connection to an etcd, with the content of its certificate files.
///
/// # Errors
/// A file that cannot be read; a certificate without a key.
pub(crate) fn etcd_configuration(etcd: &Etcd) -> anyhow::Result<EtcdConfiguration> {
    let text = |path: &Option<PathBuf>| path.as_deref().map(pki::read).transpose();
    let (certificate, key) = (text(&etcd.cert_file)?, text(&etcd.key_file)?);
    if certificate.is_some() != key.is_some() {
        bail!("storage.etcd: certFile and keyFile must be set together");
    }
    let identity = certificate.zip(key);
    Ok(EtcdConfiguration {
        endpoints: etcd.endpoints.clone(),
        ca: text(&etcd.ca_file)?,
        identity,
        ..Default::default()
    })
}
