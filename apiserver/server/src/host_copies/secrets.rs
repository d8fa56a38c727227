//! Copies of the Secrets that Capstan has read from the host cluster.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use apiserver_host::{Contact, SecretCopies};
use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;

use super::{HostCopies, SECRETS, outbox};

/// Largest size of all copies of Secrets together, as they are stored. With those of permissions (64 MiB) and of admission
/// (48 MiB), and with some for namespaces, all copies of the host have at most 256 MiB. Unit: bytes.
const MOST: usize = 128 * 1024 * 1024;

/// Secret with the time at which the host returned it, in Unix seconds.
#[derive(Serialize, Deserialize)]
struct StoredSecret {
    at: i64,
    secret: Secret,
}

/// Copies of one term of the leader.
#[derive(Debug)]
pub(crate) struct StoredSecrets {
    copies: HostCopies,
    sizes: OnceCell<Mutex<HashMap<String, usize>>>,
    /// Seconds by which the clock of this machine was behind at the first read.
    behind: OnceCell<i64>,
    most: usize,
}

impl StoredSecrets {
    pub(crate) fn new(copies: HostCopies) -> Self {
        Self { copies, sizes: OnceCell::new(), behind: OnceCell::new(), most: MOST }
    }

    #[cfg(test)]
    pub(super) fn of_at_most(copies: HostCopies, most: usize) -> Self {
        Self { most, ..Self::new(copies) }
    }

    /// Returns the sizes of all copies. The first call reads them.
    async fn sizes(&self) -> anyhow::Result<&Mutex<HashMap<String, usize>>> {
        let read = async || {
            let mut sizes = HashMap::new();
            let visit = |name: &str, entry: &storage_contract::Entry| {
                sizes.insert(name.to_owned(), entry.value.len());
            };
            self.copies.values.scan(SECRETS, visit).await?;
            Ok::<_, anyhow::Error>(Mutex::new(sizes))
        };
        self.sizes.get_or_try_init(read).await
    }

    /// Reads a copy with its age. If the clock of this machine is behind, the copy is older by as much.
    async fn try_read(&self, name: &str) -> anyhow::Result<Option<(Secret, Duration)>> {
        if self.copies.are_replaced().await? {
            return Ok(None);
        }
        let Some(stored) = self.copies.values.read::<StoredSecret>(SECRETS, name).await? else {
            return Ok(None);
        };
        let behind = async || anyhow::Ok(self.copies.time.behind().await?.as_secs());
        let behind = self.behind.get_or_try_init(behind).await?;
        Ok(Some((stored.secret, age(stored.at.saturating_sub(*behind)))))
    }

    async fn try_write(&self, name: &str, secret: &Secret) -> anyhow::Result<()> {
        let sizes = self.sizes().await?;
        let stored = StoredSecret { at: Timestamp::now().as_second(), secret: secret.clone() };
        let size = serde_json::to_vec(&stored)?.len();
        let others: usize = {
            let sizes = sizes.lock().unwrap_or_else(PoisonError::into_inner);
            sizes.iter().filter(|(other, _)| *other != name).map(|(_, size)| size).sum()
        };
        if others + size > self.most {
            anyhow::bail!("all copies together would have more than {} bytes", self.most);
        }
        let size = self.copies.values.write(SECRETS, name, &stored).await?;
        sizes.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), size);
        Ok(())
    }
}

/// Returns the age of a copy of this time, in Unix seconds. One from the future may be of any age: a clock was set back.
fn age(at: i64) -> Duration {
    let mut contact = Contact::never();
    if let Ok(at) = Timestamp::from_second(at) {
        contact.restore(at);
    }
    contact.age()
}

fn name(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

#[async_trait]
impl SecretCopies for StoredSecrets {
    async fn read(&self, namespace: &str, secret: &str) -> Option<(Secret, Duration)> {
        let found = self.try_read(&name(namespace, secret)).await;
        found
            .inspect_err(|error| {
                let error = format!("{error:#}");
                tracing::warn!(error, namespace, secret, "the copy of a secret cannot be read");
            })
            .ok()?
    }

    async fn write(&self, secret: &Secret) {
        let (namespace, object) = (secret.namespace().unwrap_or_default(), secret.name_any());
        if let Err(error) = self.try_write(&name(&namespace, &object), secret).await {
            let error = format!("{error:#}");
            tracing::warn!(
                error,
                namespace,
                secret = object,
                "a secret of the host cannot be copied to the store"
            );
        }
    }

    async fn remove(&self, namespace: &str, secret: &str) {
        let name = name(namespace, secret);
        if let Err(error) = self.copies.values.remove(SECRETS, &name).await {
            let error = format!("{error:#}");
            tracing::warn!(error, namespace, secret, "the copy of a secret cannot be removed");
        } else if let Some(sizes) = self.sizes.get() {
            sizes.lock().unwrap_or_else(PoisonError::into_inner).remove(&name);
        }
    }

    async fn names(&self) -> Vec<(String, String)> {
        let mut names = Vec::new();
        let visit = |name: &str, _: &storage_contract::Entry| {
            names.extend(
                name.split_once('/').map(|(namespace, name)| (namespace.to_owned(), name.to_owned())),
            );
        };
        if let Err(error) = self.copies.values.scan(SECRETS, visit).await {
            let error = format!("{error:#}");
            tracing::warn!(error, "the copies of the host's secrets cannot be listed");
        }
        names
    }

    async fn is_written_back(&self, secret: &Secret) -> Option<bool> {
        let (namespace, name) = (secret.namespace().unwrap_or_default(), secret.name_any());
        match outbox::record(&self.copies, &namespace, &name).await {
            Ok(record) => Some(record.is_some_and(|record| record.is_of(secret))),
            Err(error) => {
                let error = format!("{error:#}");
                tracing::warn!(error, namespace, secret = name, "the record of a copy cannot be read");
                None
            }
        }
    }
}
