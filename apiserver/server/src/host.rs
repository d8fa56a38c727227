//! Connection to the host cluster, if one is configured.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use apiserver_access::{Authenticator, Authorizer, TokenSource};
use apiserver_host::{
    Audiences, FrontProxy, HostAuthorizer, HostConnection, HostMetrics, HostNamespaces, HostTokens,
};
use apiserver_machinery::store::NamespaceSource;
use futures::StreamExt;
use prometheus_client::registry::Registry;
use tokio::sync::watch;

use crate::config::ServerConfiguration;
use crate::pki;

/// Connection to the host cluster, with the configuration of its front proxy.
pub(crate) struct Host {
    connection: HostConnection,
    namespaces: HostNamespaces,
    proxy: watch::Sender<FrontProxy>,
    audiences: Audiences,
    trusts_masters: bool,
}

/// Longest wait for the host at the start. The direct endpoint does not need the host.
const PATIENCE: Duration = Duration::from_secs(2);

/// Reads the front proxy of the host. If it cannot be read, no client is a front proxy until it can: a host that starts
/// may refuse everybody, and the direct endpoint does not need the host.
async fn front_proxy(client: &kube::Client) -> FrontProxy {
    let why = match tokio::time::timeout(PATIENCE, apiserver_host::front_proxy(client)).await {
        Ok(Ok(proxy)) => return proxy,
        Ok(Err(error)) => format!("{:#}", anyhow::Error::new(error)),
        Err(_) => "no answer in time".to_owned(),
    };
    tracing::warn!(
        why,
        "the front proxy of the host cluster is unknown; the direct endpoint is served, and requests through the host get 401 until it is known"
    );
    FrontProxy::unknown()
}

impl Host {
    /// Connects to the configured host; `None` when there is none.
    pub(crate) async fn connect(
        configuration: &ServerConfiguration,
        metrics: &mut Registry,
    ) -> anyhow::Result<Option<Self>> {
        let Some(host) = &configuration.host else { return Ok(None) };
        let connection = HostConnection::open(&host.kubeconfig, HostMetrics::registered(metrics)).await?;
        let proxy = front_proxy(&connection.client()).await;
        let namespaces = HostNamespaces::new(connection.client());
        let (proxy, trusts_masters) = (watch::Sender::new(proxy), host.trust_masters);
        let audiences = Audiences { own: host.audiences.clone(), accepts_host: host.accept_host_audience };
        Ok(Some(Self { connection, namespaces, proxy, audiences, trusts_masters }))
    }

    /// Returns a receiver of the front-proxy configuration.
    pub(crate) fn proxy(&self) -> watch::Receiver<FrontProxy> {
        self.proxy.subscribe()
    }

    /// Returns a client of the host cluster with the user of Capstan there.
    pub(crate) fn client(&self) -> kube::Client {
        self.connection.client()
    }

    /// Returns an authorizer that sends SubjectAccessReviews to the host.
    pub(crate) fn authorizer(&self) -> Arc<dyn Authorizer> {
        Arc::new(HostAuthorizer::new(self.connection.client()))
    }

    /// Returns the source that verifies tokens of the host.
    pub(crate) fn tokens(&self) -> anyhow::Result<Arc<dyn TokenSource>> {
        let tokens = HostTokens::new(self.connection.client(), self.audiences.clone(), self.trusts_masters);
        Ok(Arc::new(tokens.context("cannot create a key for the cache of tokens")?))
    }

    /// Returns the namespaces of the host.
    pub(crate) fn namespaces(&self) -> Arc<dyn NamespaceSource> {
        Arc::new(self.namespaces.clone())
    }

    /// Follows the kubeconfig, and the namespaces and the front proxy of the host cluster. Never returns.
    pub(crate) async fn follow(self: Arc<Self>, authenticator: Arc<Authenticator>) {
        tokio::join!(
            self.connection.follow(),
            self.namespaces.clone().follow(self.connection.watching()),
            self.follow_proxy(&authenticator),
        );
    }

    /// Follows the front-proxy configuration. If the host does not respond, or returns an invalid CA, the last
    /// configuration stays in force.
    async fn follow_proxy(&self, authenticator: &Authenticator) {
        let mut configurations = pin!(apiserver_host::front_proxies(self.connection.watching()));
        while let Some(found) = configurations.next().await {
            let found = match found {
                Ok(found) if found == *self.proxy.borrow() => continue,
                Ok(found) => found,
                Err(error) => {
                    let error = anyhow::Error::new(error);
                    tracing::warn!(
                        "cannot read the host's front-proxy configuration; the last one stays in force: {error:#}"
                    );
                    continue;
                }
            };
            if let Err(error) = pki::certificates(&found.ca, "the host's new front-proxy CA") {
                tracing::error!("{error:#}; the last one stays in force");
                continue;
            }
            tracing::info!("the host's front proxy changed; all requests are verified against its new CA");
            authenticator.set_request_headers(found.headers.clone());
            self.proxy.send_replace(found);
        }
    }
}
