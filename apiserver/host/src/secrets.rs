//! The host's Secrets: where its users put credentials and bootstrap data.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::core::Status;
use kube::{Api, Client};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::connection::is_silence;

/// How long an answer is believed: reconciles come in bursts that ask for the same few Secrets.
const BELIEVED: Duration = Duration::from_secs(5);

/// How long the host is left alone after it did not answer: one question in this time finds out
/// that it is back, whatever the number of those who would ask.
const REST: Duration = Duration::from_secs(5);

/// Longest a question may take: a reconcile waits for it, and a copy may be at hand.
const PATIENCE: Duration = Duration::from_secs(5);

/// Questions in flight: enough for a start with thousands of machines, little for the host.
const AT_ONCE: usize = 8;

/// Most answers kept: bootstrap data are some 20 KiB each, so this is below 100 MiB.
const MOST: usize = 4096;

/// Reads Secrets of the host, one by one and when asked for, so that the right to `get` is enough.
///
/// *Flow.* An answer is believed for five seconds; then the host is asked again. What it does not
/// have is looked for in our own store: those are the Secrets of the direct endpoint.
///
/// *When the host does not answer*, its last good answer stays in force, however old. For a Secret
/// it was never asked for, our own store is asked; only when that has none, either, the answer is
/// an error, since nobody can say that there is none.
///
/// *Caveat.* The copies are in memory alone: after a restart while the host is down they are
/// unknown. Keeping them in our store, encrypted, is not done.
#[derive(Clone)]
pub struct HostSecrets {
    host: Arc<Questions>,
    own: Client,
}

/// What was asked of the host, for all who ask.
struct Questions {
    client: Client,
    memory: Mutex<Memory>,
    at_once: Semaphore,
}

/// Namespace and name.
type Place = (String, String);

#[derive(Default)]
struct Memory {
    answers: HashMap<Place, Answer>,
    resting_until: Option<Instant>,
}

/// A good answer: the Secret, or that there is none.
#[derive(Clone)]
struct Answer {
    at: Instant,
    secret: Option<Secret>,
}

impl std::fmt::Debug for HostSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostSecrets").finish_non_exhaustive()
    }
}

impl HostSecrets {
    /// Asks the host through `host`, and our own store through `own`.
    pub fn new(host: Client, own: Client) -> Self {
        let (memory, at_once) = (Mutex::default(), Semaphore::new(AT_ONCE));
        Self { host: Arc::new(Questions { client: host, memory, at_once }), own }
    }

    /// The same copies of the host's Secrets, with our own store asked as somebody else.
    #[must_use]
    pub fn asking_as(&self, own: Client) -> Self {
        Self { host: Arc::clone(&self.host), own }
    }

    /// One Secret: the host's, else our own, else `None`.
    ///
    /// # Errors
    /// When it cannot be said whether there is one, and when the host forbids to read it.
    pub async fn secret(&self, namespace: &str, name: &str) -> Result<Option<Secret>, kube::Error> {
        let place = (namespace.to_owned(), name.to_owned());
        let unknown = match self.host.answer(&place).await {
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

impl Questions {
    /// What the host has there, as far as it can be known now.
    async fn answer(&self, place: &Place) -> Result<Option<Secret>, kube::Error> {
        if let Some(answer) = self.memory().fresh(place) {
            return Ok(answer.secret);
        }
        // Who waited here may find that somebody before them got the answer.
        let _turn = self.at_once.acquire().await;
        if let Some(answer) = self.memory().fresh(place) {
            return Ok(answer.secret);
        }
        if self.memory().is_resting() {
            return self.memory().last(place).ok_or_else(|| unreachable_host(place));
        }
        match self.ask(place).await {
            Ok(secret) => {
                self.memory().keep(place, secret.clone());
                Ok(secret)
            }
            Err(error) if is_silence(&error) => {
                tracing::warn!(%error, namespace = place.0, secret = place.1,
                    "the host does not give a secret; its last good copy is used where there is one");
                self.memory().resting_until = Some(Instant::now() + REST);
                self.memory().last(place).ok_or(error)
            }
            Err(error) => {
                // It is there and not for us any more: a copy must not outlive the permission.
                self.memory().answers.remove(place);
                Err(error)
            }
        }
    }

    async fn ask(&self, (namespace, name): &Place) -> Result<Option<Secret>, kube::Error> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        match tokio::time::timeout(PATIENCE, api.get_opt(name)).await {
            Ok(answer) => answer,
            Err(elapsed) => Err(kube::Error::Service(Box::new(elapsed))),
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    fn fresh(&self, place: &Place) -> Option<Answer> {
        self.answers.get(place).filter(|answer| answer.at.elapsed() < BELIEVED).cloned()
    }

    /// The last good answer, however old.
    fn last(&self, place: &Place) -> Option<Option<Secret>> {
        self.answers.get(place).map(|answer| answer.secret.clone())
    }

    fn is_resting(&self) -> bool {
        self.resting_until.is_some_and(|until| Instant::now() < until)
    }

    fn keep(&mut self, place: &Place, secret: Option<Secret>) {
        self.resting_until = None;
        if self.answers.len() >= MOST && !self.answers.contains_key(place) {
            let oldest = self.answers.iter().min_by_key(|(_, answer)| answer.at);
            if let Some(oldest) = oldest.map(|(place, _)| place.clone()) {
                self.answers.remove(&oldest);
            }
        }
        self.answers.insert(place.clone(), Answer { at: Instant::now(), secret });
    }
}

/// The answer in the host's stead while it is left alone.
fn unreachable_host((namespace, name): &Place) -> kube::Error {
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
        tokio::time::sleep(BELIEVED.max(REST)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_hosts_secret_is_read_once_in_a_while() {
        let (host, own, secrets) = world();
        host.answer(secret("1"));
        let many = (0..50).map(|_| secrets.secret("n", "s"));
        for found in futures::future::join_all(many).await {
            assert_eq!(version(found).as_deref(), Some("1"));
        }
        assert!(host.asked().len() <= AT_ONCE, "{:?}", host.asked());
        assert_eq!(own.asked().len(), 0);
        let before = host.asked().len();
        host.answer(secret("2"));
        assert_eq!(version(secrets.secret("n", "s").await).as_deref(), Some("1"));
        later().await;
        assert_eq!(version(secrets.secret("n", "s").await).as_deref(), Some("2"));
        assert_eq!(host.asked().len(), before + 1);
        assert_eq!(host.asked().last().unwrap(), "GET /api/v1/namespaces/n/secrets/s");
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_host_lacks_is_ours_or_nobodys() {
        let (_host, own, secrets) = world();
        assert_eq!(version(secrets.secret("n", "s").await), None);
        own.answer(secret("own"));
        assert_eq!(version(secrets.secret("n", "s").await).as_deref(), Some("own"));
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_good_copy_outlives_the_host() {
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
        let asked = host.asked().len();
        for other in ["a", "b", "c"] {
            assert!(secrets.secret("n", other).await.unwrap_err().to_string().contains("does not answer"));
        }
        assert_eq!(host.asked().len(), asked, "a host that is down is left alone");
        later().await;
        host.answer(status(404));
        assert_eq!(version(secrets.secret("n", "s").await), None, "gone is gone");
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_copy_our_own_store_still_has_a_say() {
        let (host, own, secrets) = world();
        host.hang();
        assert!(secrets.secret("n", "s").await.is_err(), "nobody can say that there is none");
        own.answer(secret("own"));
        assert_eq!(version(secrets.secret("n", "s").await).as_deref(), Some("own"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_copy_does_not_outlive_the_permission() {
        let (host, own, secrets) = world();
        host.answer(secret("1"));
        secrets.secret("n", "s").await.unwrap();
        later().await;
        host.answer(status(403));
        assert!(secrets.secret("n", "s").await.is_err());
        assert_eq!(own.asked().len(), 0, "forbidden is not absent");
        host.hang();
        assert!(secrets.secret("n", "s").await.is_err());
    }
}
