//! Authorization file: the authorizers of the direct endpoint and their order, reloaded while the server runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use apiserver_access::{Answers, Attributes, Authorizer, Chain, Rules, User, Verdict};
use apiserver_host::{AuthorizationConfiguration, AuthorizerKind, WebhookAuthorizer};
use apiserver_http::Check;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use arc_swap::ArcSwap;
use async_trait::async_trait;
use serde_json::json;
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
    pub(crate) machine: Arc<dyn Authorizer>,
    /// Roles and bindings, and the roles of Keystone's projects.
    pub(crate) rbac: Arc<dyn Authorizer>,
    /// Roles and bindings alone, beside an authorizer of the projects.
    pub(crate) stored_roles: Arc<dyn Authorizer>,
    /// Roles of Keystone's projects alone; `None` without a Keystone.
    pub(crate) keystone: Option<Arc<dyn Authorizer>>,
    pub(crate) host: Option<Arc<dyn Authorizer>>,
}

impl OwnAuthorizers {
    /// Returns the authorizers in their default order.
    pub(crate) fn chain(&self) -> Chain {
        let own = [&self.system, &self.machine, &self.rbac].map(Arc::clone);
        Chain(own.into_iter().chain(self.host.clone()).collect())
    }

    /// Returns the authorizers that a file names, in its order. Files of earlier releases have no types Machine and Keystone,
    /// and mean the same as before: the authorizer of machines follows System, because RBAC could give machines more than
    /// their own objects, and RBAC decides by the roles of projects, too.
    async fn of_file(&self, text: &str) -> anyhow::Result<Chain> {
        let kinds = AuthorizationConfiguration::parse(text)?.authorizers;
        let names_machine = kinds.iter().any(|kind| matches!(kind, AuthorizerKind::Machine));
        let names_keystone = kinds.iter().any(|kind| matches!(kind, AuthorizerKind::Keystone));
        let mut chain = Vec::new();
        for (index, kind) in kinds.into_iter().enumerate() {
            chain.push(match kind {
                AuthorizerKind::System => Arc::clone(&self.system),
                AuthorizerKind::Machine => Arc::clone(&self.machine),
                AuthorizerKind::Rbac if names_keystone => Arc::clone(&self.stored_roles),
                AuthorizerKind::Rbac => Arc::clone(&self.rbac),
                AuthorizerKind::Keystone => {
                    configured(self.keystone.as_ref(), index, "Keystone", "keystone.authURL")?
                }
                AuthorizerKind::Host => configured(self.host.as_ref(), index, "Host", "host.kubeconfig")?,
                AuthorizerKind::Webhook(settings) => {
                    let webhook: Arc<dyn Authorizer> = Arc::new(WebhookAuthorizer::open(*settings).await?);
                    webhook
                }
            });
            // System is the first.
            if index == 0 && !names_machine {
                chain.push(Arc::clone(&self.machine));
            }
        }
        Ok(Chain(chain))
    }
}

/// Returns an authorizer that needs a part of the configuration.
fn configured(
    authorizer: Option<&Arc<dyn Authorizer>>,
    index: usize,
    kind: &str,
    setting: &str,
) -> anyhow::Result<Arc<dyn Authorizer>> {
    authorizer.cloned().ok_or_else(|| {
        let path = FieldPath::new("authorizers").index(index).child("type");
        let detail = format!("type {kind} needs {setting} in the configuration");
        anyhow::anyhow!("{}", FieldError::invalid(path, &json!(kind), &detail))
    })
}

/// Authorizer by the chain of this moment. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct ReloadableChain(Arc<ArcSwap<Chain>>);

#[async_trait]
impl Authorizer for ReloadableChain {
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
    use apiserver_access::{Decision, LocalPolicy};

    use super::*;

    #[derive(Debug)]
    struct Always(Decision);

    #[async_trait]
    impl Authorizer for Always {
        async fn judge(&self, _: &Attributes) -> Verdict {
            Verdict::of(self.0.clone(), self.name())
        }
    }

    /// Authorizer with a name, which answers with it.
    #[derive(Debug)]
    struct Named(&'static str);

    #[async_trait]
    impl Authorizer for Named {
        async fn judge(&self, _: &Attributes) -> Verdict {
            Verdict::of(Decision::NoOpinion(self.0.to_owned()), self.name())
        }

        fn name(&self) -> &str {
            self.0
        }
    }

    /// Returns authorizers without a Keystone and a host. RBAC allows everything, and the others have no opinion.
    fn without_keystone() -> OwnAuthorizers {
        OwnAuthorizers {
            system: Arc::new(LocalPolicy::default()),
            machine: Arc::new(Named("Machine")),
            rbac: Arc::new(Always(Decision::Allow)),
            stored_roles: Arc::new(Named("RBAC")),
            keystone: None,
            host: None,
        }
    }

    const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n- {type: System, name: system}\n";

    #[tokio::test]
    async fn an_invalid_file_is_refused_at_the_start_and_changes_nothing_later() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let own = without_keystone();
        let open = |text: &str| {
            std::fs::write(file.path(), text).unwrap();
            AuthorizationFile::open(file.path().to_owned(), own.clone())
        };
        for (text, expected) in [
            ("kind: Other".to_owned(), "apiVersion"),
            (
                format!("{HEAD}- {{type: Host, name: host}}\n"),
                "authorizers[1].type: Invalid value: \"Host\": type Host needs host.kubeconfig",
            ),
            (
                format!("{HEAD}- {{type: RBAC, name: rbac}}\n- {{type: Keystone, name: keystone}}\n"),
                "authorizers[2].type: Invalid value: \"Keystone\": type Keystone needs keystone.authURL",
            ),
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

    #[tokio::test]
    async fn iz_01_a_file_places_machines_and_projects_and_one_without_them_changes_nothing() {
        let named = |name| -> Arc<dyn Authorizer> { Arc::new(Named(name)) };
        let own = OwnAuthorizers {
            system: named("System"),
            machine: named("Machine"),
            rbac: named("RBAC and Keystone"),
            stored_roles: named("RBAC"),
            keystone: Some(named("Keystone")),
            host: Some(named("Host")),
        };
        let names = async |chain: &Chain| -> Vec<String> {
            let answers = chain.answers(&Attributes::default()).await;
            answers.each.into_iter().map(|answer| answer.authorizer).collect()
        };
        assert_eq!(names(&own.chain()).await, ["System", "Machine", "RBAC and Keystone", "Host"]);
        let entry = |kind: &str| format!("- {{type: {kind}, name: {}}}\n", kind.to_lowercase());
        for (kinds, expected) in [
            (vec!["RBAC", "Host"], vec!["System", "Machine", "RBAC and Keystone", "Host"]),
            (vec!["Host", "Machine", "RBAC"], vec!["System", "Host", "Machine", "RBAC and Keystone"]),
            (vec!["Node"], vec!["System", "Machine"]),
            (vec!["Keystone", "RBAC"], vec!["System", "Machine", "Keystone", "RBAC"]),
            (vec!["Machine", "RBAC", "Keystone"], vec!["System", "Machine", "RBAC", "Keystone"]),
            (vec!["Keystone"], vec!["System", "Machine", "Keystone"]),
        ] {
            let entries: String = kinds.iter().map(|kind| entry(kind)).collect();
            let chain = own.of_file(&format!("{HEAD}{entries}")).await.unwrap();
            assert_eq!(names(&chain).await, expected, "{kinds:?}");
        }
    }
}
