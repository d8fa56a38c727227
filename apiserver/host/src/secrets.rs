//! Secrets of the host cluster, where users store credentials, and controllers bootstrap data and kubeconfigs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::PostParams;
use kube::core::Status;
use kube::{Api, Client, ResourceExt};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::connection::is_silence;

/// Lifetime of a cached answer: reconciles come in bursts that read the same few Secrets.
const LIFETIME: Duration = Duration::from_secs(5);

/// Pause after the host did not answer: one request per pause finds out that it is back, whatever the number of
/// readers.
const PAUSE: Duration = Duration::from_secs(5);

/// Least time between two refusals with 403 that remove a copy. A kube-apiserver reads its RBAC objects within seconds
/// after its start.
const REFUSED: Duration = Duration::from_secs(30);

/// Time limit of a request: a reconcile waits for it, and a cached copy may exist.
const PATIENCE: Duration = Duration::from_secs(5);

/// Maximum number of requests in flight: enough for a start with thousands of machines, little for the host.
const AT_ONCE: usize = 8;

/// Maximum number of cached answers: bootstrap data is some 20 KiB each, so this is below 100 MiB.
const MOST: usize = 4096;

/// Reader of the host's Secrets, one by one and on demand, so that the permission to `get` is enough.
///
/// *Flow.* An answer is cached for five seconds; then the host is read again. If it has no such Secret, Capstan's own
/// store is read: it has the Secrets of the direct endpoint.
///
/// *If the host does not answer*, its last good answer stays valid, however old. For a Secret without one, Capstan's
/// own store is read. If that has none either, the result is an error, because the host may have one.
///
/// *If the host refuses*: 401 means that Capstan's own credential has expired, and says nothing about the Secret. 403 may
/// come from a host that starts and has not read its RBAC objects. It counts if the host repeats it half a minute later.
///
/// *Caveat.* The copies are in cache alone: after a restart while the host is down they are unknown. They are not
/// kept in Capstan's store, encrypted or not.
#[derive(Clone)]
pub struct HostSecrets {
    host: Arc<SharedReader>,
    own: Client,
}

/// State that all readers share.
struct SharedReader {
    client: Client,
    cache: Mutex<Cache>,
    at_once: Semaphore,
}

/// Key of a Secret: namespace and name.
type Key = (String, String);

#[derive(Default)]
struct Cache {
    answers: HashMap<Key, CachedSecret>,
    paused_until: Option<Instant>,
}

/// Good answer: the Secret, or that there is none.
#[derive(Clone)]
struct CachedSecret {
    at: Instant,
    secret: Option<Secret>,
    /// Time of the first refusal since the answer.
    refused_at: Option<Instant>,
}

impl std::fmt::Debug for HostSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostSecrets").finish_non_exhaustive()
    }
}

impl HostSecrets {
    /// Creates a reader of the host through `host`, and of Capstan's own store through `own`.
    pub fn new(host: Client, own: Client) -> Self {
        let (cache, at_once) = (Mutex::default(), Semaphore::new(AT_ONCE));
        Self { host: Arc::new(SharedReader { client: host, cache, at_once }), own }
    }

    /// Returns a reader with the same copies, and another client of Capstan's own store.
    #[must_use]
    pub fn asking_as(&self, own: Client) -> Self {
        Self { host: Arc::clone(&self.host), own }
    }

    /// Creates a Secret in the host, where users and tools read it.
    ///
    /// # Errors
    /// The host's refusal, or that it does not answer.
    pub async fn create(&self, secret: &Secret) -> Result<Secret, kube::Error> {
        let created = self.host.of(secret).create(&PostParams::default(), secret).await;
        self.host.written(secret, created)
    }

    /// Replaces a Secret of the host.
    ///
    /// # Errors
    /// The host's refusal, or that it does not answer.
    pub async fn replace(&self, secret: &Secret) -> Result<Secret, kube::Error> {
        let name = secret.name_any();
        let replaced = self.host.of(secret).replace(&name, &PostParams::default(), secret).await;
        self.host.written(secret, replaced)
    }

    /// Returns a Namespace: the host's, else our own, else `None`.
    ///
    /// # Errors
    /// The host's refusal, or that it does not answer.
    pub async fn namespace(&self, name: &str) -> Result<Option<Namespace>, kube::Error> {
        match Api::all(self.host.client.clone()).get_opt(name).await? {
            Some(namespace) => Ok(Some(namespace)),
            None => Api::all(self.own.clone()).get_opt(name).await,
        }
    }

    /// Returns a Secret: the host's, else our own, else `None`.
    ///
    /// # Errors
    /// If it is unknown whether there is one, and if the host forbids to read it.
    pub async fn secret(&self, namespace: &str, name: &str) -> Result<Option<Secret>, kube::Error> {
        let key = (namespace.to_owned(), name.to_owned());
        let unknown = match self.host.answer(&key).await {
            Ok(Some(secret)) => return Ok(Some(secret)),
            Ok(None) => None,
            Err(error) if is_silence(&error) => Some(error),
            Err(error) => return Err(error),
        };
        let own = Api::<Secret>::namespaced(self.own.clone(), namespace).get_opt(name).await?;
        match (own, unknown) {
            (None, Some(error)) => Err(error),
            (own, _) => Ok(own),
        }
    }
}

impl SharedReader {
    fn of(&self, secret: &Secret) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &secret.namespace().unwrap_or_default())
    }

    /// Forgets the copy of a Secret after a write, whatever its outcome: the next reader asks the host.
    fn written<T>(&self, secret: &Secret, result: T) -> T {
        self.cache().answers.remove(&(secret.namespace().unwrap_or_default(), secret.name_any()));
        result
    }

    /// Returns the host's Secret, as far as it is known now.
    async fn answer(&self, key: &Key) -> Result<Option<Secret>, kube::Error> {
        if let Some(answer) = self.cache().fresh(key) {
            return Ok(answer.secret);
        }
        // Another reader may have got the answer during the wait.
        let _permit = self.at_once.acquire().await;
        if let Some(answer) = self.cache().fresh(key) {
            return Ok(answer.secret);
        }
        if self.cache().is_paused() {
            return self.cache().last(key).ok_or_else(|| unreachable_host(key));
        }
        match self.get(key).await {
            Ok(secret) => {
                self.cache().keep(key, secret.clone());
                Ok(secret)
            }
            Err(error) if is_silence(&error) || is_unauthenticated(&error) => {
                tracing::warn!(%error, namespace = key.0, secret = key.1,
                    "cannot read a secret of the host; using its last good copy, if there is one");
                self.cache().paused_until = Some(Instant::now() + PAUSE);
                self.cache().last(key).ok_or(error)
            }
            Err(error) => self.cache().refuse(key).ok_or(error),
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

impl Cache {
    fn fresh(&self, key: &Key) -> Option<CachedSecret> {
        self.answers.get(key).filter(|answer| answer.at.elapsed() < LIFETIME).cloned()
    }

    /// Returns the last good answer, however old.
    fn last(&self, key: &Key) -> Option<Option<Secret>> {
        self.answers.get(key).map(|answer| answer.secret.clone())
    }

    fn is_paused(&self) -> bool {
        self.paused_until.is_some_and(|until| Instant::now() < until)
    }

    /// Records a refusal. Returns the copy that is still valid; a repeated refusal removes it, because a copy must not
    /// outlive the permission.
    fn refuse(&mut self, key: &Key) -> Option<Option<Secret>> {
        let answer = self.answers.get_mut(key)?;
        let first = *answer.refused_at.get_or_insert_with(Instant::now);
        if first.elapsed() < REFUSED {
            return Some(answer.secret.clone());
        }
        self.answers.remove(key);
        None
    }

    fn keep(&mut self, key: &Key, secret: Option<Secret>) {
        self.paused_until = None;
        if self.answers.len() >= MOST && !self.answers.contains_key(key) {
            let oldest = self.answers.iter().min_by_key(|(_, answer)| answer.at);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                self.answers.remove(&oldest);
            }
        }
        self.answers.insert(key.clone(), CachedSecret { at: Instant::now(), secret, refused_at: None });
    }
}

/// Returns true if the host does not accept Capstan's own credential.
fn is_unauthenticated(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 401)
}

/// Returns the error for the pause, in which the host is not queried.
fn unreachable_host((namespace, name): &Key) -> kube::Error {
    let text = format!("the host cluster does not answer, and its secret {namespace}/{name} is not known");
    kube::Error::Api(Status::failure(&text, "ServiceUnavailable").with_code(503).boxed())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fake::{Fake, status};

    fn secret(version: &str) -> (u16, serde_json::Value) {
        let metadata = json!({"name": "s", "namespace": "n", "resourceVersion": version});
        (200, json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata}))
    }

    fn version(found: Result<Option<Secret>, kube::Error>) -> Option<String> {
        found.unwrap().and_then(|secret| secret.metadata.resource_version)
    }

    fn world() -> (Fake, Fake, HostSecrets) {
        let (host, own) = (Fake::new(status(404)), Fake::new(status(404)));
        let secrets = HostSecrets::new(host.client(), own.client());
        (host, own, secrets)
    }

    async fn later() {
        tokio::time::sleep(LIFETIME.max(PAUSE)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_secret_of_the_host_is_cached() {
        let (host, own, secrets) = world();
        host.answer(secret("1"));
        let many = (0..50).map(|_| secrets.secret("n", "s"));
        for found in futures::future::join_all(many).await {
            assert_eq!(version(found).as_deref(), Some("1"));
        }
        assert!(host.requests().len() <= AT_ONCE, "{:?}", host.requests());
        assert_eq!(own.requests().len(), 0);
        let before = host.requests().len();
        host.answer(secret("2"));
        assert_eq!(version(secrets.secret("n", "s").await).as_deref(), Some("1"));
        later().await;
        assert_eq!(version(secrets.secret("n", "s").await).as_deref(), Some("2"));
        assert_eq!(host.requests().len(), before + 1);
        assert_eq!(host.requests().last().unwrap(), "GET /api/v1/namespaces/n/secrets/s");
    }

    #[tokio::test(start_paused = true)]
    async fn a_secret_that_the_host_lacks_is_read_from_the_store() {
        let (_host, own, secrets) = world();
        assert_eq!(version(secrets.secret("n", "s").await), None);
        own.answer(secret("own"));
        assert_eq!(version(secrets.secret("n", "s").await).as_deref(), Some("own"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_cached_copy_is_used_while_the_host_is_down() {
        let (host, _own, secrets) = world();
        host.answer(secret("1"));
        secrets.secret("n", "s").await.unwrap();
        for code in [503, 429] {
            later().await;
            host.answer(status(code));
            assert_eq!(version(secrets.secret("n", "s").await).as_deref(), Some("1"), "{code}");
        }
        later().await;
        host.hang();
        assert_eq!(version(secrets.secret("n", "s").await).as_deref(), Some("1"));
        let asked = host.requests().len();
        for other in ["a", "b", "c"] {
            assert!(secrets.secret("n", other).await.unwrap_err().to_string().contains("does not answer"));
        }
        assert_eq!(host.requests().len(), asked, "a host that is down is left alone");
        later().await;
        host.answer(status(404));
        assert_eq!(version(secrets.secret("n", "s").await), None, "gone is gone");
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_cached_copy_the_store_is_used_while_the_host_is_down() {
        let (host, own, secrets) = world();
        host.hang();
        assert!(secrets.secret("n", "s").await.is_err(), "the host may have one");
        own.answer(secret("own"));
        assert_eq!(version(secrets.secret("n", "s").await).as_deref(), Some("own"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_cached_copy_outlives_an_expired_credential_of_ours() {
        let (host, _own, secrets) = world();
        host.answer(secret("1"));
        secrets.secret("n", "s").await.unwrap();
        for _ in 0..20 {
            later().await;
            host.answer(status(401));
            assert_eq!(version(secrets.secret("n", "s").await).as_deref(), Some("1"));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_cached_copy_is_not_used_after_the_host_repeats_that_permission_is_revoked() {
        let (host, own, secrets) = world();
        host.answer(secret("1"));
        secrets.secret("n", "s").await.unwrap();
        later().await;
        host.answer(status(403));
        assert_eq!(
            version(secrets.secret("n", "s").await).as_deref(),
            Some("1"),
            "a host that starts says so, too"
        );
        host.answer(secret("2"));
        later().await;
        assert_eq!(version(secrets.secret("n", "s").await).as_deref(), Some("2"));
        later().await;
        host.answer(status(403));
        secrets.secret("n", "s").await.unwrap();
        tokio::time::sleep(REFUSED).await;
        assert!(secrets.secret("n", "s").await.is_err());
        assert_eq!(own.requests().len(), 0, "forbidden is not absent");
        host.hang();
        assert!(secrets.secret("n", "s").await.is_err());
    }
}
