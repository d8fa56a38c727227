//! The host cluster, when there is one.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use apiserver_access::{Authenticator, Authorizer};
use apiserver_host::{FrontProxy, HostAuthorizer, HostNamespaces};
use apiserver_machinery::store::NamespaceSource;

use crate::config::ServerConfiguration;

/// How often the host is asked whether its front proxy has a new CA. Rotations overlap by hours.
const ASK_EVERY: Duration = Duration::from_secs(60);

/// A connection to the host, and what it said of its front proxy.
pub(crate) struct Host {
    client: kube::Client,
    proxy: FrontProxy,
}

impl Host {
    /// Connects to the configured host; `None` when there is none.
    pub(crate) async fn connect(configuration: &ServerConfiguration) -> anyhow::Result<Option<Self>> {
        let Some(host) = &configuration.host else { return Ok(None) };
        let client = apiserver_host::connect(&host.kubeconfig).await?;
        let proxy =
            apiserver_host::front_proxy(&client).await.context("the host cluster cannot be served")?;
        Ok(Some(Self { client, proxy }))
    }

    pub(crate) fn proxy(&self) -> &FrontProxy {
        &self.proxy
    }

    pub(crate) fn authorizer(&self) -> Arc<dyn Authorizer> {
        Arc::new(HostAuthorizer::new(self.client.clone()))
    }

    pub(crate) fn namespaces(&self) -> Arc<dyn NamespaceSource> {
        Arc::new(HostNamespaces::new(self.client.clone()))
    }

    /// Keeps up with the front proxy for as long as the server runs. The last good answer stays
    /// in force when the host does not answer.
    pub(crate) async fn follow(
        mut self,
        authenticator: Arc<Authenticator>,
        replace: impl Fn(&Self) -> Result<(), String> + Send,
    ) {
        loop {
            tokio::time::sleep(ASK_EVERY).await;
            let found = match apiserver_host::front_proxy(&self.client).await {
                Ok(found) if found == self.proxy => continue,
                Ok(found) => found,
                Err(error) => {
                    tracing::warn!(%error, "the host's front proxy is not known anew; the last answer stays");
                    continue;
                }
            };
            let before = std::mem::replace(&mut self.proxy, found);
            match replace(&self) {
                Ok(()) => {
                    authenticator.set_request_headers(self.proxy.headers.clone());
                    tracing::info!(
                        "the host's front proxy has changed; new connections are checked against its new CA"
                    );
                }
                Err(error) => {
                    tracing::error!(
                        error,
                        "the host's new front-proxy CA cannot be used; the last one stays"
                    );
                    self.proxy = before;
                }
            }
        }
    }
}
