//! Target of a webhook: a URL, or a port of a Service in the host cluster.

use reqwest::Client;
use serde_json::Value;

use super::clients::{ClientKey, Clients};
use crate::host::{HostCluster, HostService};
use crate::value::text;

/// Target of a webhook.
#[derive(Debug)]
pub(crate) struct Target {
    /// URL of the requests. That of a Service has no port, so that the ports of its endpoints are dialled.
    pub(crate) url: String,
    /// URL in errors.
    pub(super) shown: String,
    pub(crate) key: ClientKey,
    clients: Clients,
}

impl Target {
    /// Reads a `clientConfig`.
    pub(super) fn new(config: &Value, clients: &Clients) -> Self {
        let service = config.get("service").filter(|service| !service.is_null());
        let key =
            ClientKey { bundle: text(config, "caBundle").to_owned(), service: service.map(HostService::of) };
        let (url, shown) = match (&key.service, service) {
            (Some(service), Some(reference)) => {
                let (name, path) = (service.server_name(), text(reference, "path"));
                (format!("https://{name}{path}"), format!("https://{name}:{}{path}", service.port))
            }
            _ => (text(config, "url").to_owned(), text(config, "url").to_owned()),
        };
        Self { url, shown, key, clients: clients.clone() }
    }

    /// Returns the client of the webhook.
    ///
    /// # Errors
    /// The text says why there is none.
    pub(super) async fn client(&self, host: Option<&dyn HostCluster>) -> Result<Client, String> {
        let Some(service) = &self.key.service else { return self.clients.of(&self.key, &[]) };
        let Some(host) = host else {
            return Err(format!("{service} is none of Capstan, which runs no Services"));
        };
        let mut addresses = host.addresses(service).await?;
        addresses.sort_unstable();
        self.clients.of(&self.key, &addresses)
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::Arc;

    use async_trait::async_trait;
    use serde_json::json;

    use super::*;
    use crate::host::{HostContact, HostParameters};

    #[derive(Debug)]
    struct OneService;

    #[async_trait]
    impl HostCluster for OneService {
        fn contact(&self) -> HostContact {
            HostContact::Up
        }

        fn can_quotas_decide(&self) -> bool {
            true
        }

        async fn addresses(&self, service: &HostService) -> Result<Vec<SocketAddr>, String> {
            match service.name.as_str() {
                "gate" => Ok(vec![([192, 0, 2, 1], 9443).into()]),
                _ => Err(format!("{service} does not exist")),
            }
        }

        async fn parameters(&self, wanted: &HostParameters, _: &str) -> Result<Vec<Arc<Value>>, String> {
            Err(format!("{wanted} is missing"))
        }
    }

    #[tokio::test]
    async fn a_service_is_named_with_its_port_and_dialled_by_its_endpoints() {
        let clients = Clients::default();
        let target = |name: &str| {
            let reference = json!({"namespace": "tools", "name": name, "path": "/check", "port": 8443});
            Target::new(&json!({"service": reference}), &clients)
        };
        let gate = target("gate");
        assert_eq!(
            (gate.url.as_str(), gate.shown.as_str()),
            ("https://gate.tools.svc/check", "https://gate.tools.svc:8443/check")
        );
        assert!(gate.client(Some(&OneService)).await.is_ok());
        let why = target("none").client(Some(&OneService)).await.unwrap_err();
        assert_eq!(why, "Service tools/none, port 8443 does not exist");
        assert!(gate.client(None).await.unwrap_err().contains("runs no Services"));
        let plain = Target::new(&json!({"service": {"namespace": "tools", "name": "gate"}}), &clients);
        assert_eq!(plain.shown, "https://gate.tools.svc:443");
    }
}
