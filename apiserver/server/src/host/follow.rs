//! Changes of the host cluster that a server follows while it runs.

use std::pin::pin;
use std::sync::Arc;

use apiserver_access::Authenticator;
use apiserver_host::FrontProxy;
use apiserver_machinery::store::ObjectStore;
use futures::StreamExt;

use super::Host;
use crate::pki;

impl Host {
    /// Follows the kubeconfig, and the health, the namespaces and the front proxy of the host cluster. Compares the
    /// namespaces with those of the objects. Never returns.
    pub(crate) async fn follow(
        self: Arc<Self>,
        authenticator: Arc<Authenticator>,
        objects: Arc<ObjectStore>,
    ) {
        let health = self.connection.health();
        tokio::join!(
            self.connection.follow(),
            self.prober.run(),
            self.restore_later(&authenticator),
            self.namespaces.clone().follow(self.connection.watching()),
            health.while_reachable(|| self.follow_proxy(&authenticator)),
            self.follow_mirror(),
            self.follow_admission(),
            self.observer.follow(),
            self.observer.gone().follow(&health, &self.namespaces, &objects),
        );
    }

    /// Follows the permissions of the host, if they are mirrored.
    async fn follow_mirror(&self) {
        if let Some(mirror) = &self.mirror {
            mirror.follow().await;
        }
    }

    /// Follows the admission configurations of the host, if they apply.
    async fn follow_admission(&self) {
        if let Some(admission) = &self.admission {
            admission.follow().await;
        }
    }

    /// Follows the front-proxy configuration, until the host is cut off. If it does not respond, or returns an invalid CA,
    /// the last configuration stays in force.
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
            self.apply(found, authenticator);
        }
    }

    /// Sets the front proxy.
    pub(super) fn apply(&self, proxy: FrontProxy, authenticator: &Authenticator) {
        // They are believed with the new CA, which follows.
        authenticator.remove_headers(proxy.headers.clone());
        self.proxy.send_replace(proxy);
    }
}
