//! Authorization file: the authorizers of the direct endpoint and their order, reloaded while the server runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use apiserver_access::{Answers, Attributes, Authorizer, Chain, Decision, Rules, User, Verdict};
use apiserver_host::{AuthorizationConfiguration, AuthorizerKind, WebhookAuthorizer};
use apiserver_http::Check;
use arc_swap::ArcSwap;
use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::pki;
use crate::reload_health::ReloadHealth;
use crate::rereads::Rereads;

/// Interval at which the file is checked for changes.
const POLL_INTERVAL: Duration = Duration::from_secs(30);

/// Authorizers of the server itself, from which a file selects.
#[derive(Debug, Clone)]
pub(crate) struct OwnAuthorizers {
    pub(crate) system: Arc<dyn Authorizer>,
    pub(crate) rbac: Arc<dyn Authorizer>,
    pub(crate) host: Option<Arc<dyn Authorizer>>,
}

impl OwnAuthorizers {
    /// Returns the authorizers in their default order.
    pub(crate) fn chain(&self) -> Chain {
        let own = [Arc::clone(&self.system), Arc::clone(&self.rbac)];
        Chain(own.into_iter().chain(self.host.clone()).collect())
    }

    /// Returns the authorizers that a file names, in its order.
    async fn of_file(&self, text: &str) -> anyhow::Result<Chain> {
        let mut chain = Vec::new();
        for kind in AuthorizationConfiguration::parse(text)?.authorizers {
            chain.push(match kind {
                AuthorizerKind::System => Arc::clone(&self.system),
                AuthorizerKind::Rbac => Arc::clone(&self.rbac),
                AuthorizerKind::Host => match &self.host {
                    Some(host) => Arc::clone(host),
                    None => bail!("authorizers: type Host needs host.kubeconfig in the configuration"),
                },
                AuthorizerKind::Webhook(settings) => {
                    let webhook: Arc<dyn Authorizer> = Arc::new(WebhookAuthorizer::open(*settings).await?);
                    webhook
                }
            });
        }
        Ok(Chain(chain))
    }
}

/// Authorizer by the chain of this moment. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct ReloadableChain(Arc<ArcSwap<Chain>>);

#[async_trait]
impl Authorizer for ReloadableChain {
    async fn authorize(&self, attributes: &Attributes) -> Decision {
        self.0.load_full().authorize(attributes).await
    }

    async fn explain(&self, attributes: &Attributes) -> (Decision, String) {
        self.0.load_full().explain(attributes).await
    }

    async fn judge(&self, attributes: &Attributes) -> Verdict {
        self.0.load_full().judge(attributes).await
    }

    async fn answers(&self, attributes: &Attributes) -> Answers {
        self.0.load_full().answers(attributes).await
    }

    async fn rules(&self, user: &User, namespace: &str) -> Rules {
        self.0.load_full().rules(user, namespace).await
    }
}

/// The authorization file, and the chain that it configures.
#[derive(Debug)]
pub(crate) struct AuthorizationFile {
    path: PathBuf,
    last: String,
    own: OwnAuthorizers,
    chain: ReloadableChain,
    health: ReloadHealth,
}

impl AuthorizationFile {
    /// Reads the file.
    ///
    /// # Errors
    /// The file cannot be read or is not valid. The server then does not start.
    pub(crate) async fn open(path: PathBuf, own: OwnAuthorizers) -> anyhow::Result<Self> {
        let text = pki::read(&path).context("authorizationConfigFile")?;
        let chain = own.of_file(&text).await.with_context(|| path.display().to_string())?;
        let chain = ReloadableChain(Arc::new(ArcSwap::from_pointee(chain)));
        Ok(Self { path, last: text, own, chain, health: ReloadHealth::default() })
    }

    /// Returns the authorizer of the file.
    pub(crate) fn authorizer(&self) -> ReloadableChain {
        self.chain.clone()
    }

    /// Returns the readiness check `authorization`. It fails when the file has been unusable for five minutes.
    pub(crate) fn check(&self) -> Check {
        self.health.check("authorization")
    }

    /// Applies the file after each change, until `shutdown`.
    pub(crate) async fn follow(mut self, shutdown: CancellationToken) {
        let mut rereads = Rereads::every(POLL_INTERVAL);
        while shutdown.run_until_cancelled(rereads.next()).await.is_some() {
            match self.reload().await {
                Ok(false) => self.health.succeed(),
                Ok(true) => {
                    self.health.succeed();
                    tracing::info!(file = %self.path.display(), "the authorization file is reloaded");
                }
                Err(error) => {
                    let error = format!("{error:#}");
                    if self.health.fail(&error, Instant::now()) {
                        tracing::error!(
                            error,
                            "the authorization file is invalid; the last one stays in force"
                        );
                    }
                }
            }
        }
    }

    /// Applies the file if it changed. Returns true if it did.
    async fn reload(&mut self) -> anyhow::Result<bool> {
        let text = pki::read(&self.path)?;
        if text == self.last {
            return Ok(false);
        }
        let chain = self.own.of_file(&text).await.with_context(|| self.path.display().to_string())?;
        self.chain.0.store(Arc::new(chain));
        self.last = text;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use apiserver_access::LocalPolicy;

    use super::*;

    #[derive(Debug)]
    struct Always(Decision);

    #[async_trait]
    impl Authorizer for Always {
        async fn authorize(&self, _: &Attributes) -> Decision {
            self.0.clone()
        }
    }

    const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n- {type: System, name: system}\n";

    #[tokio::test]
    async fn an_invalid_file_is_refused_at_the_start_and_changes_nothing_later() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let own = OwnAuthorizers {
            system: Arc::new(LocalPolicy::default()),
            rbac: Arc::new(Always(Decision::Allow)),
            host: None,
        };
        let open = |text: &str| {
            std::fs::write(file.path(), text).unwrap();
            AuthorizationFile::open(file.path().to_owned(), own.clone())
        };
        for (text, expected) in [
            ("kind: Other".to_owned(), "apiVersion"),
            (format!("{HEAD}- {{type: Host, name: host}}\n"), "type Host needs host.kubeconfig"),
            (format!("{HEAD}- {{type: Webhook, name: w}}\n"), "authorizers[1].webhook: Required value"),
        ] {
            let error = format!("{:#}", open(&text).await.map(|_| ()).unwrap_err());
            assert!(error.contains(expected), "{error}");
        }
        let mut opened = open(HEAD).await.unwrap();
        let chain = opened.authorizer();
        let attributes =
            Attributes { verb: "get".to_owned(), path: "/x".to_owned(), ..Attributes::default() };
        let is_allowed = async || chain.authorize(&attributes).await == Decision::Allow;
        assert!(!is_allowed().await, "RBAC is left out");
        std::fs::write(file.path(), "kind: Other").unwrap();
        assert!(opened.reload().await.is_err() && !is_allowed().await);
        std::fs::write(file.path(), format!("{HEAD}- {{type: RBAC, name: rbac}}\n")).unwrap();
        assert!(opened.reload().await.unwrap() && is_allowed().await);
        assert!(!opened.reload().await.unwrap());
    }
}
