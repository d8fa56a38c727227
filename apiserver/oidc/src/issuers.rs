//! Issuers of the authentication file that is in force.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use apiserver_access::{self as access, Realm};
use futures::future::join_all;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::algorithm::Algorithm;
use crate::config::{Configuration, InvalidConfiguration};
use crate::keys::{KeyContext, KeyCopies, KeySource};
use crate::metrics::KeyMetrics;
use crate::verifier::Verifier;

/// Interval at which the ages of the keys are checked.
const INTERVAL: Duration = Duration::from_secs(1);

/// Settings of an issuer that the file has no fields for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuerSettings {
    /// The host cluster has the same issuer with the same names, so its users are those of the host.
    pub is_shared_with_host: bool,
    /// Longest age of the keys while the issuer is silent.
    pub stale_keys: Duration,
    /// Accepted algorithms.
    pub algorithms: Vec<Algorithm>,
}

impl Default for IssuerSettings {
    fn default() -> Self {
        Self {
            is_shared_with_host: false,
            stale_keys: Duration::from_secs(24 * 3600),
            algorithms: Algorithm::DEFAULT.to_vec(),
        }
    }
}

/// Issuers of the file in force. Their keys are fetched in the background.
#[derive(Debug, Default)]
pub struct Issuers {
    sources: Mutex<Vec<Arc<KeySource>>>,
    changed: Notify,
    context: KeyContext,
}

impl Issuers {
    /// Creates a list without issuers, whose keys will also be kept in `copies`.
    pub fn new(copies: Arc<dyn KeyCopies>, metrics: KeyMetrics) -> Self {
        Self { context: KeyContext { copies: Some(copies), metrics }, ..Self::default() }
    }

    /// Applies a file, and returns the issuers with their verifiers. An issuer that was there before keeps its keys.
    ///
    /// # Errors
    /// [`InvalidConfiguration`]. Nothing has changed then.
    pub fn apply(
        &self,
        configuration: Configuration,
        settings: impl Fn(&str) -> IssuerSettings,
    ) -> Result<Vec<access::Issuer>, InvalidConfiguration> {
        let mut known = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut sources, mut issuers) = (Vec::new(), Vec::new());
        for (index, (authenticator, expressions)) in configuration.authenticators.into_iter().enumerate() {
            let issuer = &authenticator.issuer;
            let keys =
                match known.iter().find(|source| source.is_for(issuer)) {
                    Some(source) => Arc::clone(source),
                    None => Arc::new(KeySource::new(issuer, self.context.clone()).map_err(|error| {
                        InvalidConfiguration::new(format!("jwt[{index}].issuer: {error}"))
                    })?),
                };
            sources.push(Arc::clone(&keys));
            let (url, settings) = (issuer.url.clone(), settings(&issuer.url));
            let realm =
                if settings.is_shared_with_host { Realm::Host } else { Realm::Issuer(url.as_str().into()) };
            let verifier = Arc::new(Verifier { authenticator, expressions, settings, keys });
            issuers.push(access::Issuer { url, realm, verifier });
        }
        *known = sources;
        self.changed.notify_one();
        Ok(issuers)
    }

    /// Fetches the keys of all issuers when they are due, until `shutdown`.
    pub async fn follow(self: Arc<Self>, shutdown: CancellationToken) {
        loop {
            let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let due = sources.iter().filter(|source| source.is_due()).map(|source| source.fetch());
            let changed = async {
                join_all(due).await;
                tokio::select! {
                    () = self.changed.notified() => {}
                    () = tokio::time::sleep(INTERVAL) => {}
                }
            };
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = changed => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
