//! The host cluster, when there is one.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use apiserver_access::{Authenticator, Authorizer, TokenSource};
use apiserver_host::{FrontProxy, HostAuthorizer, HostNamespaces, HostTokens};
use apiserver_machinery::store::NamespaceSource;
use tokio::sync::watch;

use crate::config::ServerConfiguration;
use crate::pki;

/// How often the host is asked whether its front proxy has a new CA. Rotations overlap by hours.
const ASK_EVERY: Duration = Duration::from_secs(60);

/// A connection to the host, and what it said of its front proxy.
pub(crate) struct Host {
    client: kube::Client,
    proxy: watch::Sender<FrontProxy>,
}

impl Host {
    /// Connects to the configured host; `None` when there is none.
    pub(crate) async fn connect(configuration: &ServerConfiguration) -> anyhow::Result<Option<Self>> {
        let Some(host) = &configuration.host else { return Ok(None) };
        let client = apiserver_host::connect(&host.kubeconfig).await?;
        let proxy =
            apiserver_host::front_proxy(&client).await.context("the host cluster cannot be served")?;
        Ok(Some(Self { client, proxy: watch::Sender::new(proxy) }))
    }

    /// What it says of its front proxy, now and later.
    pub(crate) fn proxy(&self) -> watch::Receiver<FrontProxy> {
        self.proxy.subscribe()
    }

    /// The host, as our own user there.
    pub(crate) fn client(&self) -> kube::Client {
        self.client.clone()
    }

    pub(crate) fn authorizer(&self) -> Arc<dyn Authorizer> {
        Arc::new(HostAuthorizer::new(self.client.clone()))
    }

    pub(crate) fn tokens(&self) -> Arc<dyn TokenSource> {
        Arc::new(HostTokens::new(self.client.clone()))
    }

    pub(crate) fn namespaces(&self) -> Arc<dyn NamespaceSource> {
        Arc::new(HostNamespaces::new(self.client.clone()))
    }

    /// Keeps up with the front proxy for as long as the server runs. The last good answer stays
    /// in force when the host does not answer, or answers what cannot be used.
    pub(crate) async fn follow(self, authenticator: Arc<Authenticator>) {
        loop {
            tokio::time::sleep(ASK_EVERY).await;
            let found = match apiserver_host::front_proxy(&self.client).await {
                Ok(found) if found == *self.proxy.borrow() => continue,
                Ok(found) => found,
                Err(error) => {
                    tracing::warn!(%error, "the host's front proxy is not known anew; the last answer stays");
                    continue;
                }
            };
            if let Err(error) = pki::certificates(&found.ca, "the host's new front-proxy CA") {
                tracing::error!("{error:#}; the last one stays");
                continue;
            }
            tracing::info!(
                "the host's front proxy has changed; new connections are checked against its new CA"
            );
            authenticator.set_request_headers(found.headers.clone());
            self.proxy.send_replace(found);
        }
    }
}
