//! Versions and extensions of the services, which a session reads once.

use controllers_infrastructure::{CloudError, CloudResult, ErrorClass};
use serde_json::Value;

use super::{Session, not_json};
use crate::request::{Request, Service};

/// Nova microversion that this crate is written for: 2.93 is the first that rebuilds a server that boots
/// from a volume.
const NOVA_WANTED: u32 = 93;

/// Oldest supported Nova microversion: 2.58 is the first whose action log has pages and times of change.
/// The other features that we need (tags on create 2.52, user data on rebuild 2.57) are older. Queens
/// (2018) has 2.60.
const NOVA_NEEDED: u32 = 58;

/// Extension of Neutron.
#[derive(serde::Deserialize)]
struct Extension {
    alias: String,
}

impl Session {
    /// Returns the aliases of Neutron's extensions, which are read once.
    pub(crate) async fn network_extensions(&self) -> CloudResult<&[String]> {
        let read = || async {
            let request = Request::get(Service::Network, "/extensions");
            let found: Vec<Extension> = self.under(&request, "extensions").await?;
            Ok(found.into_iter().map(|extension| extension.alias).collect())
        };
        self.network_extensions.get_or_try_init(read).await.map(Vec::as_slice)
    }

    /// Returns the newest minor version of Octavia; `None` if it does not say.
    pub(crate) async fn octavia_minor(&self) -> CloudResult<Option<u32>> {
        let read = || async {
            let request = Request::get(Service::LoadBalancer, "/");
            let url = self.endpoints.load_balancer_versions()?;
            let answer = self.exchange(&request, &url, None).await?;
            let found: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
            let versions = found.get("versions").and_then(Value::as_array);
            let ids = versions.into_iter().flatten().filter_map(|version| version.get("id")?.as_str());
            let minors = ids.filter_map(|id| id.strip_prefix("v2.")?.parse().ok());
            Ok(minors.max())
        };
        self.octavia_minor.get_or_try_init(read).await.copied()
    }

    /// Returns the microversion to use: the newest that both we and the cloud know.
    pub(crate) async fn nova_minor(&self) -> CloudResult<u32> {
        self.nova_minor.get_or_try_init(|| self.ask_nova_version()).await.copied()
    }

    async fn ask_nova_version(&self) -> CloudResult<u32> {
        let request = Request::get(Service::Compute, "/");
        let url = self.endpoints.compute_versions()?;
        let answer = self.exchange(&request, &url, None).await?;
        let versions: Value =
            serde_json::from_slice(answer.body()).map_err(|error| not_json(&request, &answer, &error))?;
        let highest = versions.pointer("/version/version").and_then(Value::as_str).unwrap_or_default();
        let (class, message) = match highest.strip_prefix("2.").and_then(|minor| minor.parse::<u32>().ok()) {
            Some(minor) if minor >= NOVA_NEEDED => return Ok(minor.min(NOVA_WANTED)),
            Some(minor) => {
                let message =
                    format!("the newest microversion is 2.{minor}, and Capstan needs 2.{NOVA_NEEDED}");
                (ErrorClass::TooOld, message)
            }
            None => (ErrorClass::Broken, format!("microversion {highest:?} is none of Nova")),
        };
        Err(CloudError::new(class, request.operation(), message).of_service(request.service.name()))
    }
}
