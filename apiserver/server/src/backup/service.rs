//! Endpoint by which a user with the permission gets a backup of the running server.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use apiserver_executor::spawn_detached;
use apiserver_http::{Download, DownloadEndpoint};
use apiserver_machinery::status::{ApiError, ApiResult};
use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use storage_backup::BackupKey;
use storage_contract::Store;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Sender, channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::file::{self, Taken};
use super::location::{Source, uploads};
use super::{background, key_file, refuse_the_encryption_key, retention};
use crate::config::ServerConfiguration;
use crate::encryption_keys::EncryptionKeys;

/// Path of the endpoint.
pub(crate) const PATH: &str = "/capstan/v1/backup";

/// Parts of a backup that wait for a slow client.
const WAITING: usize = 8;

/// Size of a part. Unit: bytes.
const PART: usize = 64 * 1024;

/// Longest wait until the client takes a part. One that has stopped must not keep others from a backup.
const PATIENCE: Duration = Duration::from_secs(60);

/// Backups of the running server.
pub(crate) struct BackupService {
    configuration: ServerConfiguration,
    store: Arc<dyn Store>,
    encryption: EncryptionKeys,
    /// Data directory, for the file until it is sent.
    data: PathBuf,
    /// One at a time: each reads the whole store.
    seat: Arc<Semaphore>,
    patience: Duration,
}

impl std::fmt::Debug for BackupService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BackupService").finish_non_exhaustive()
    }
}

impl BackupService {
    /// Creates the service with the configuration and the data directory of its server.
    pub(crate) fn shared(
        configuration: &ServerConfiguration,
        data: &Path,
        store: &Arc<dyn Store>,
        encryption: &EncryptionKeys,
    ) -> Arc<Self> {
        Arc::new(Self::new(configuration, data, store, encryption))
    }

    fn new(
        configuration: &ServerConfiguration,
        data: &Path,
        store: &Arc<dyn Store>,
        encryption: &EncryptionKeys,
    ) -> Self {
        Self {
            configuration: configuration.clone(),
            store: Arc::clone(store),
            encryption: encryption.clone(),
            data: data.to_owned(),
            seat: Arc::new(Semaphore::new(1)),
            patience: PATIENCE,
        }
    }

    /// Returns the key that seals backups. A file that cannot be read is a matter of the operator.
    fn key(&self) -> ApiResult<BackupKey> {
        let Some(path) = self.configuration.backup.key_file.as_deref() else {
            let text = "this server has no backup key: set backup.keyFile in its configuration; `capstan backup key \
                        FILE` creates one";
            return Err(ApiError::untyped(409, text));
        };
        let unusable = |error: &anyhow::Error| ApiError::untyped(409, format!("the backup key: {error:#}"));
        let key = key_file::read(path).map_err(|error| unusable(&error))?;
        refuse_the_encryption_key(&key, Some(&self.encryption.encryption()))
            .map_err(|error| unusable(&error))?;
        Ok(key)
    }
}

#[async_trait]
impl DownloadEndpoint for BackupService {
    fn path(&self) -> &str {
        PATH
    }

    async fn begin(&self, user: &str) -> ApiResult<Download> {
        let key = self.key()?;
        let Ok(seat) = Arc::clone(&self.seat).try_acquire_owned() else {
            return Err(ApiError::untyped(429, "another backup is being sent; try again when it has ended"));
        };
        let (out, parts) = channel(WAITING);
        let name = retention::file_name(self.configuration.backup.name(), jiff::Timestamp::now());
        let sending = Sending {
            configuration: self.configuration.clone(),
            store: Arc::clone(&self.store),
            encryption: self.encryption.clone(),
            data: self.data.clone(),
            key,
            out,
            patience: self.patience,
            _seat: seat,
        };
        tracing::info!(user, "backup through the server begun");
        let handle = Handle::current();
        let sent = background::run(move || handle.block_on(Box::pin(sending.run())));
        spawn_detached("backup through the server", async move {
            if let Err(error) = sent.await {
                tracing::error!(error = %format!("{error:#}"), "backup through the server failed");
            }
        });
        let content = futures::stream::unfold(parts, |mut parts| async {
            let part = parts.recv().await?;
            Some((part, parts))
        });
        Ok(Download { name, content: content.boxed() })
    }
}

/// Backup on its way to a client. The file is complete before the first part is sent: the history of the store must not
/// depend on the speed of the client.
struct Sending {
    configuration: ServerConfiguration,
    store: Arc<dyn Store>,
    encryption: EncryptionKeys,
    data: PathBuf,
    key: BackupKey,
    out: Sender<Bytes>,
    patience: Duration,
    _seat: OwnedSemaphorePermit,
}

impl Sending {
    /// Writes and sends the file. After an error, it ends without its last frame.
    async fn run(self) {
        match self.send().await {
            Ok(Some(Taken { summary, values, .. })) => {
                tracing::info!(values = summary.entries, "backup through the server ended");
                if let Err(error) = values.result() {
                    tracing::error!(%error, "the store has damaged values");
                }
            }
            Ok(None) => tracing::warn!("the client of a backup has gone or stopped before its end"),
            Err(error) => tracing::error!(error = %format!("{error:#}"), "backup through the server failed"),
        }
    }

    /// Returns `None` if the client has gone or stopped.
    async fn send(&self) -> anyhow::Result<Option<Taken>> {
        let work = uploads(&self.data)?;
        let path = work.path().join("backup");
        let encryption = self.encryption.encryption();
        let source = Source {
            store: self.store.as_ref(),
            configuration: &self.configuration,
            key: &self.key,
            encryption: Some(&encryption),
            keys: None,
        };
        let taken = match file::take(&source, &path, &|| self.out.is_closed()).await {
            Err(_) if self.out.is_closed() => return Ok(None),
            taken => taken?,
        };
        let mut file = File::open(&path).with_context(|| path.display().to_string())?;
        loop {
            let mut part = Vec::with_capacity(PART);
            let limit = u64::try_from(PART).unwrap_or(u64::MAX);
            Read::by_ref(&mut file).take(limit).read_to_end(&mut part)?;
            if part.is_empty() {
                return Ok(Some(taken));
            }
            let sent = tokio::time::timeout(self.patience, self.out.send(part.into())).await;
            if !matches!(sent, Ok(Ok(()))) {
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use storage_contract::Key;
    use storage_embedded::EmbeddedStore;

    use super::*;
    use crate::encryption;

    /// Returns the service of a store that is larger than the parts that wait for a client.
    async fn service(directory: &Path) -> (BackupService, BackupKey) {
        let store = EmbeddedStore::open(&directory.join("store.redb")).unwrap();
        for index in 0..40 {
            let mut value = vec![0; PART];
            aws_lc_rs::rand::fill(&mut value).unwrap();
            store
                .create(&Key::new(format!("/capstan/core/pods/n/{index}")).unwrap(), value.into())
                .await
                .unwrap();
        }
        let file = directory.join("backup.key");
        key_file::create(&file).unwrap();
        let key = key_file::read(&file).unwrap();
        let mut configuration = ServerConfiguration::default();
        configuration.backup.key_file = Some(file);
        let store: Arc<dyn Store> = Arc::new(store);
        let keys = EncryptionKeys::new(encryption::load(None, directory).unwrap());
        (BackupService::new(&configuration, directory, &store, &keys), key)
    }

    async fn content(download: Download) -> Vec<u8> {
        download.content.collect::<Vec<Bytes>>().await.concat()
    }

    async fn until(is_so: impl Fn() -> bool) {
        let so = async {
            while !is_so() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), so).await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_client_that_reads_nothing_delays_neither_the_scan_nor_other_backups() {
        let directory = tempfile::tempdir().unwrap();
        let (service, key) = service(directory.path()).await;
        let slow = service.begin("alice").await.unwrap();
        assert_eq!(service.begin("bob").await.unwrap_err().code, 429);
        let complete = || {
            let mut all = std::fs::read_dir(directory.path()).unwrap().filter_map(Result::ok);
            all.any(|entry| entry.path().join("backup").exists())
        };
        until(complete).await;
        let (path, whole) = (directory.path().join("received"), content(slow).await);
        std::fs::write(&path, &whole).unwrap();
        let (_, summary, _) = file::verify(&path, &key, None).unwrap();
        assert_eq!(summary.entries, 40);
        until(|| service.seat.available_permits() == 1).await;
        let service = BackupService { patience: Duration::from_millis(50), ..service };
        let stopped = service.begin("alice").await.unwrap();
        until(|| service.seat.available_permits() == 1).await;
        assert!(content(stopped).await.len() < whole.len(), "it has no last frame");
    }
}
