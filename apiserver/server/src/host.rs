//! The host cluster, when there is one.

use std::pin::pin;
use std::sync::Arc;

use anyhow::Context;
use apiserver_access::{Authenticator, Authorizer, TokenSource};
use apiserver_host::{FrontProxy, HostAuthorizer, HostNamespaces, HostTokens};
use apiserver_machinery::store::NamespaceSource;
use futures::StreamExt;
use tokio::sync::watch;

use crate::config::ServerConfiguration;
use crate::pki;

/// A connection to the host, and what it said of its front proxy.
pub(crate) struct Host {
    client: kube::Client,
    watching: kube::Client,
    namespaces: HostNamespaces,
    proxy: watch::Sender<FrontProxy>,
}

impl Host {
    /// Connects to the configured host; `None` when there is none.
    pub(crate) async fn connect(configuration: &ServerConfiguration) -> anyhow::Result<Option<Self>> {
        let Some(host) = &configuration.host else { return Ok(None) };
        let client = apiserver_host::connect(&host.kubeconfig).await?;
        let proxy =
            apiserver_host::front_proxy(&client).await.context("the host cluster cannot be served")?;
        let watching = apiserver_host::connect_to_watch(&host.kubeconfig).await?;
        let namespaces = HostNamespaces::new(client.clone());
        Ok(Some(Self { client, watching, namespaces, proxy: watch::Sender::new(proxy) }))
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
        Arc::new(self.namespaces.clone())
    }

    /// Keeps up with the host for as long as the server runs.
    pub(crate) async fn follow(self, authenticator: Arc<Authenticator>) {
        tokio::join!(
            self.namespaces.clone().follow(self.watching.clone()),
            self.follow_proxy(&authenticator),
        );
    }

    /// The last good answer stays in force when the host does not answer, or answers what cannot be
    /// used.
    async fn follow_proxy(&self, authenticator: &Authenticator) {
        let mut told = pin!(apiserver_host::front_proxies(self.watching.clone()));
        while let Some(found) = told.next().await {
            let found = match found {
                Ok(found) if found == *self.proxy.borrow() => continue,
                Ok(found) => found,
                Err(error) => {
                    let error = anyhow::Error::new(error);
                    tracing::warn!(
                        "the host's front proxy is not known anew; the last answer stays: {error:#}"
                    );
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
