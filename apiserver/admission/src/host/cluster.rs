//! State of the host cluster, and the Services behind which its webhooks run.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use super::parameters::HostParameters;
use crate::value::text;

/// Port of a Service whose reference names none.
const DEFAULT_PORT: u16 = 443;

/// Contact with the host cluster at the moment of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostContact {
    /// It answers.
    Up,
    /// It does not answer. Its configurations apply as they were last.
    Down,
    /// Its configurations cannot be judged by their copies. Writes that they match are refused. The text says why.
    Unusable(String),
}

/// Port of a Service in the host cluster, as the reference of a webhook names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostService {
    /// Namespace of the Service.
    pub namespace: String,
    /// Name of the Service.
    pub name: String,
    /// Port of the Service. Range: 1 to 65535. Default: 443.
    pub port: u16,
}

impl fmt::Display for HostService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Service {}/{}, port {}", self.namespace, self.name, self.port)
    }
}

impl HostService {
    /// Reads the `service` of a `clientConfig`.
    pub(crate) fn of(reference: &Value) -> Self {
        let port = reference.get("port").and_then(Value::as_u64).and_then(|port| u16::try_from(port).ok());
        Self {
            namespace: text(reference, "namespace").to_owned(),
            name: text(reference, "name").to_owned(),
            port: port.unwrap_or(DEFAULT_PORT),
        }
    }

    /// Returns the name in the certificate of the webhook, whatever address is dialled.
    pub(crate) fn server_name(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
    }
}

/// Host cluster whose configurations apply.
#[async_trait]
pub trait HostCluster: fmt::Debug + Send + Sync {
    /// Returns what is known about the host now.
    fn contact(&self) -> HostContact;

    /// Returns true if the quotas of the host can decide about writes.
    fn can_quotas_decide(&self) -> bool;

    /// Returns the addresses behind a port of a Service, with the ports of the servers.
    ///
    /// # Errors
    /// The text says why there are none.
    async fn addresses(&self, service: &HostService) -> Result<Vec<SocketAddr>, String>;

    /// Returns the ConfigMaps of a reference that are in this namespace.
    ///
    /// # Errors
    /// The text says why they are not known.
    async fn parameters(&self, wanted: &HostParameters, namespace: &str) -> Result<Vec<Arc<Value>>, String>;
}
