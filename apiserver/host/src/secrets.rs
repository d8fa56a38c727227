//! Secrets that controllers read: those of the host cluster, where users store credentials, and those of Capstan's own
//! store, where controllers keep certificates, kubeconfigs and bootstrap data.

mod cache;
mod copies;
mod upkeep;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use apiserver_machinery::store::NamespaceSource;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::PostParams;
use kube::core::Status;
use kube::{Api, Client, ResourceExt};
use tokio::sync::Semaphore;

use crate::connection::is_silence;
use crate::health::HostHealth;
use crate::namespaces::HostNamespaces;
use crate::write_back::OWNER;
use cache::{Aged, Cache, Key, Refusal};
pub use copies::SecretCopies;
use copies::{NoCopies, is_stale};
pub use upkeep::{SecretReferences, SecretUsers};

/// Type of the Secrets that controllers make. Part of Cluster API's contract.
const CLUSTER_SECRET: &str = "cluster.x-k8s.io/secret";

/// Time limit of a request: a reconcile waits for it, and a cached copy may exist.
const PATIENCE: Duration = Duration::from_secs(5);

/// Maximum number of requests in flight: enough for a start with thousands of machines, little for the host.
const AT_ONCE: usize = 8;

/// Reader of the host's Secrets, one by one and on demand, so that the permission to `get` is enough.
///
/// *Flow.* Secrets that controllers make are in Capstan's own store, which is read first. All others are read in the
/// host. An answer is cached for five seconds; then the host is read again. If it has no such Secret, a Secret of the
/// direct endpoint counts.
///
/// *If the host does not answer*, its last good answer stays valid, however old. For a Secret without one, Capstan's
/// own store is read. If that has none either, the result is an error, because the host may have one.
///
/// *If the host refuses*: 401 means that Capstan's own credential has expired, and says nothing about the Secret. 403 may
/// come from a host that starts and has not read its RBAC objects. It counts if the host is up, and repeats it half a
/// minute later. 404 may come from a host that was restored. It counts if the host is up. In a namespace that the host
/// has lost during an outage, neither counts.
///
/// *Copies.* Each answer is also kept in Capstan's own store, sealed, so that the next leader and the next process know
/// it. A copy of bootstrap data is used for a day; Keystone judges a copy of credentials.
#[derive(Clone)]
pub struct HostSecrets {
    host: Arc<SharedReader>,
    own: Client,
}

/// State that all readers share.
struct SharedReader {
    client: Client,
    health: HostHealth,
    namespaces: HostNamespaces,
    cache: Mutex<Cache>,
    copies: Arc<dyn SecretCopies>,
    at_once: Semaphore,
}

impl std::fmt::Debug for HostSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostSecrets").finish_non_exhaustive()
    }
}

impl HostSecrets {
    /// Creates a reader of the host through `host`, and of Capstan's own store through `own`. It believes the host as far
    /// as its health allows. The copies are in memory alone.
    pub fn new(host: Client, health: HostHealth, own: Client) -> Self {
        let namespaces = HostNamespaces::new(host).with_health(health);
        Self::with_copies(namespaces, own, Arc::new(NoCopies))
    }

    /// Creates a reader of the host of these namespaces, whose copies outlive the process.
    pub fn with_copies(namespaces: HostNamespaces, own: Client, copies: Arc<dyn SecretCopies>) -> Self {
        let (client, health) = (namespaces.client(), namespaces.health());
        let (cache, at_once) = (Mutex::default(), Semaphore::new(AT_ONCE));
        Self { host: Arc::new(SharedReader { client, health, namespaces, cache, copies, at_once }), own }
    }

    /// Returns a reader with the same copies, and another client of Capstan's own store.
    #[must_use]
    pub fn asking_as(&self, own: Client) -> Self {
        Self { host: Arc::clone(&self.host), own }
    }

    /// Creates a Secret in Capstan's own store. It needs no host. [`SecretWriteBack`](crate::SecretWriteBack) copies it
    /// to the host.
    ///
    /// # Errors
    /// A conflict (409) if there is one; the failure of the store otherwise.
    pub async fn create(&self, secret: &Secret) -> Result<Secret, kube::Error> {
        self.own(&secret.namespace().unwrap_or_default()).create(&PostParams::default(), secret).await
    }

    /// Replaces a Secret where it was read: in Capstan's own store, or in the host.
    ///
    /// # Errors
    /// A conflict (409) after another write; the failure of the store or of the host otherwise.
    pub async fn replace(&self, secret: &Secret) -> Result<Secret, kube::Error> {
        let (namespace, name) = (secret.namespace().unwrap_or_default(), secret.name_any());
        let own = self.own(&namespace);
        let known = own.get_opt(&name).await?;
        if known.is_some_and(|known| known.uid() == secret.uid()) {
            return own.replace(&name, &PostParams::default(), secret).await;
        }
        let replaced = self.host.of(secret).replace(&name, &PostParams::default(), secret).await;
        self.host.written(secret, replaced).await
    }

    fn own(&self, namespace: &str) -> Api<Secret> {
        Api::namespaced(self.own.clone(), namespace)
    }

    /// Returns a Namespace: the host's, else our own, else `None`.
    ///
    /// # Errors
    /// The host's refusal, or that it does not answer.
    pub async fn namespace(&self, name: &str) -> Result<Option<Namespace>, kube::Error> {
        let found =
            self.host.namespaces.namespace(name).await.map_err(|error| unavailable(&error.to_string()))?;
        match found {
            Some(found) => serde_json::from_value(found).map(Some).map_err(kube::Error::SerdeError),
            None => Api::all(self.own.clone()).get_opt(name).await,
        }
    }

    /// Returns true if the host has lost a Namespace during an outage, and it may come back.
    pub fn is_uncertain(&self, namespace: &str) -> bool {
        self.host.namespaces.is_uncertain(namespace)
    }

    /// Returns a Secret: one that controllers have made, else the host's, else our own, else `None`.
    ///
    /// # Errors
    /// If it is unknown whether there is one, and if the host forbids to read it.
    pub async fn secret(&self, namespace: &str, name: &str) -> Result<Option<Secret>, kube::Error> {
        Ok(self.aged_secret(namespace, name).await?.map(|(secret, _)| secret))
    }

    /// Returns a Secret as [`secret`](Self::secret) does, with the time since the host has returned it. Zero for one of
    /// Capstan's own store. If the time is over a few seconds, the Secret is a copy.
    ///
    /// # Errors
    /// If it is unknown whether there is one, and if the host forbids to read it.
    pub async fn aged_secret(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<(Secret, Duration)>, kube::Error> {
        let own = self.own(namespace).get_opt(name).await?.map(|own| (own, Duration::ZERO));
        if own.as_ref().is_some_and(|(own, _)| is_of_cluster(own)) {
            return Ok(own);
        }
        let key = (namespace.to_owned(), name.to_owned());
        let unknown = match self.host.answer(&key).await {
            Ok((Some(secret), age)) => {
                if !self.host.is_copy(&secret).await? {
                    return Ok(Some((secret, age)));
                }
                None
            }
            Ok((None, _)) => None,
            Err(error) if is_silence(&error) || is_unauthenticated(&error) => Some(error),
            Err(error) => return Err(error),
        };
        match (own, unknown) {
            (None, Some(error)) => Err(error),
            (own, _) => Ok(own),
        }
    }
}

/// Returns true for certificates, kubeconfigs and bootstrap data, which controllers make. Their copies in the host are
/// not read.
pub(crate) fn is_of_cluster(secret: &Secret) -> bool {
    secret.type_.as_deref() == Some(CLUSTER_SECRET)
}

impl SharedReader {
    fn of(&self, secret: &Secret) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &secret.namespace().unwrap_or_default())
    }

    /// Keeps the Secret of a successful write. After any other one the next reader asks the host: the copy may be old.
    async fn written(
        &self,
        secret: &Secret,
        result: Result<Secret, kube::Error>,
    ) -> Result<Secret, kube::Error> {
        let key = (secret.namespace().unwrap_or_default(), secret.name_any());
        match &result {
            Ok(written) => self.keep(&key, Some(written.clone())).await,
            Err(_) => self.cache().forget(&key),
        }
        result
    }

    /// Returns true for a copy of a Secret in Capstan's own store. It may be that of a deleted Cluster of the same name. A Secret
    /// that `clusterctl move` has brought from another installation has the same label, and is no copy.
    ///
    /// # Errors
    /// The store does not answer.
    async fn is_copy(&self, secret: &Secret) -> Result<bool, kube::Error> {
        if !is_of_cluster(secret) || !secret.labels().contains_key(OWNER) {
            return Ok(false);
        }
        self.copies.is_written_back(secret).await.ok_or_else(|| {
            let (namespace, name) = (secret.namespace().unwrap_or_default(), secret.name_any());
            unavailable(&format!(
                "the store does not answer whether the secret {namespace}/{name} of the host cluster is a copy of one of Capstan's own"
            ))
        })
    }

    /// Returns the host's Secret, as far as it is known now.
    async fn answer(&self, key: &Key) -> Result<Aged, kube::Error> {
        if let Some(answer) = self.cache().fresh(key) {
            return Ok(answer.aged());
        }
        // Another reader may have got the answer during the wait.
        let _permit = self.at_once.acquire().await;
        if let Some(answer) = self.cache().fresh(key) {
            return Ok(answer.aged());
        }
        if self.cache().is_paused() {
            return self.last(key, unreachable_host(key)).await;
        }
        match self.get(key).await {
            Ok(None) if !self.believes_absence(key) => self.last(key, unreachable_host(key)).await,
            Ok(secret) => {
                self.keep(key, secret.clone()).await;
                Ok((secret, Duration::ZERO))
            }
            Err(error) if is_silence(&error) || is_unauthenticated(&error) => {
                tracing::warn!(%error, namespace = key.0, secret = key.1,
                    "cannot read a secret of the host; using its last good copy, if there is one");
                self.cache().pause();
                self.last(key, error).await
            }
            Err(error) => self.refused(key, error).await,
        }
    }

    /// Returns the last good answer, of this process or of an earlier one. Without one, returns `error`.
    async fn last(&self, key: &Key, error: kube::Error) -> Result<Aged, kube::Error> {
        let last = self.cache().last(key);
        let (secret, age) = match last {
            Some(answer) => answer.aged(),
            None => match self.copies.read(&key.0, &key.1).await {
                Some((secret, age)) => (Some(secret), age),
                None => return Err(error),
            },
        };
        match secret {
            Some(secret) if is_stale(&secret, age) => Err(stale(key)),
            secret => Ok((secret, age)),
        }
    }

    /// Returns true if a Secret that the host does not have does not exist.
    fn believes_absence(&self, (namespace, _): &Key) -> bool {
        self.health.state().believes_absence() && !self.namespaces.is_uncertain(namespace)
    }

    /// Applies a refusal of the host to the copies.
    async fn refused(&self, key: &Key, error: kube::Error) -> Result<Aged, kube::Error> {
        let is_believed = self.believes_absence(key);
        let refusal = self.cache().refuse(key, is_believed);
        match refusal {
            Refusal::Kept(answer) => Ok(answer.aged()),
            // Of a copy of an earlier process, this is the first refusal.
            Refusal::NoAnswer => match self.copies.read(&key.0, &key.1).await {
                Some((secret, age)) if !is_stale(&secret, age) => {
                    self.cache().adopt(key, secret.clone(), age);
                    self.cache().refuse(key, is_believed);
                    Ok((Some(secret), age))
                }
                _ => Err(error),
            },
            Refusal::Removed => {
                self.copies.remove(&key.0, &key.1).await;
                Err(error)
            }
        }
    }

    /// Keeps an answer of the host.
    async fn keep(&self, key: &Key, secret: Option<Secret>) {
        if !self.cache().keep(key, secret.clone()) {
            return;
        }
        match secret {
            Some(secret) => self.copies.write(&secret).await,
            None => self.copies.remove(&key.0, &key.1).await,
        }
    }

    async fn get(&self, (namespace, name): &Key) -> Result<Option<Secret>, kube::Error> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        match tokio::time::timeout(PATIENCE, api.get_opt(name)).await {
            Ok(answer) => answer,
            Err(elapsed) => Err(kube::Error::Service(Box::new(elapsed))),
        }
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns true if the host does not accept Capstan's own credential.
fn is_unauthenticated(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 401)
}

/// Returns the error for the pause, in which the host is not queried.
fn unreachable_host((namespace, name): &Key) -> kube::Error {
    unavailable(&format!("the host cluster does not answer, and its secret {namespace}/{name} is not known"))
}

fn unavailable(text: &str) -> kube::Error {
    kube::Error::Api(Status::failure(text, "ServiceUnavailable").with_code(503).boxed())
}

/// Returns the error for a copy that is too old.
fn stale((namespace, name): &Key) -> kube::Error {
    unavailable(&format!(
        "HostSecretStale: the host cluster does not answer, and the copy of its secret {namespace}/{name} is bootstrap data of more than a day ago"
    ))
}

#[cfg(test)]
mod tests;
