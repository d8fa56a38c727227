//! Endpoint by which a user with the permission gets a backup of the running server.

use std::sync::Arc;

use apiserver_executor::spawn_detached;
use apiserver_http::{Download, DownloadEndpoint};
use apiserver_machinery::status::{ApiError, ApiResult};
use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use storage_backup::{BackupKey, Header, ROOT, Scan, Writer};
use storage_contract::Store;
use tokio::sync::mpsc::{Sender, channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::values::Values;
use super::{file, key_file, refuse_the_encryption_key, retention};
use crate::config::ServerConfiguration;
use crate::encryption_keys::EncryptionKeys;

/// Path of the endpoint.
pub(crate) const PATH: &str = "/capstan/v1/backup";

/// Parts of a backup that wait for a slow client. Each has a frame of at most 64 KiB or more.
const WAITING: usize = 8;

/// Backups of the running server.
pub(crate) struct BackupService {
    configuration: ServerConfiguration,
    store: Arc<dyn Store>,
    encryption: EncryptionKeys,
    /// One at a time: each reads the whole store.
    seat: Arc<Semaphore>,
}

impl std::fmt::Debug for BackupService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BackupService").finish_non_exhaustive()
    }
}

impl BackupService {
    pub(crate) fn new(
        configuration: &ServerConfiguration,
        store: &Arc<dyn Store>,
        encryption: &EncryptionKeys,
    ) -> Self {
        Self {
            configuration: configuration.clone(),
            store: Arc::clone(store),
            encryption: encryption.clone(),
            seat: Arc::new(Semaphore::new(1)),
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
            key,
            out,
            _seat: seat,
        };
        tracing::info!(user, "backup through the server begun");
        spawn_detached("backup through the server", sending.run());
        let content = futures::stream::unfold(parts, |mut parts| async {
            let part = parts.recv().await?;
            Some((part, parts))
        });
        Ok(Download { name, content: content.boxed() })
    }
}

/// Backup on its way to a client.
struct Sending {
    configuration: ServerConfiguration,
    store: Arc<dyn Store>,
    encryption: EncryptionKeys,
    key: BackupKey,
    out: Sender<Bytes>,
    _seat: OwnedSemaphorePermit,
}

impl Sending {
    /// Writes the file. After an error, it ends without its last frame.
    async fn run(self) {
        match self.write().await {
            Ok(Some(values)) => {
                tracing::info!(values = values.count, "backup through the server ended");
                if let Err(error) = values.result() {
                    tracing::error!(%error, "the store has damaged values");
                }
            }
            Ok(None) => tracing::warn!("the client of a backup has gone before its end"),
            Err(error) => tracing::error!(error = %format!("{error:#}"), "backup through the server failed"),
        }
    }

    /// Returns `None` if the client has gone.
    async fn write(&self) -> anyhow::Result<Option<Values>> {
        let store = self.store.as_ref();
        let mut scan = Scan::begin(store, ROOT).await?;
        let header: Header = file::header(store, &self.configuration, &scan).await?;
        let encryption = self.encryption.encryption();
        let (mut writer, mut values) = (Writer::new(Vec::new(), &header, &self.key)?, Values::default());
        while let Some(entry) = scan.next().await? {
            writer.add(&entry)?;
            values.check(&entry, Some(&encryption));
            if !self.send(writer.written()).await {
                return Ok(None);
            }
        }
        let (mut rest, _) = writer.finish()?;
        Ok(self.send(&mut rest).await.then_some(values))
    }

    /// Sends what was written. Returns false if the client has gone.
    async fn send(&self, written: &mut Vec<u8>) -> bool {
        written.is_empty() || self.out.send(std::mem::take(written).into()).await.is_ok()
    }
}
