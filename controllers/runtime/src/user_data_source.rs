//! Address of this server for machines that fetch their bootstrap data, as the server has published it.

use apiserver_types::Cluster;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, ResourceExt};

use crate::ReconcileError;

/// Annotation of a Cluster. With the value `true`, the cloud gets a URL instead of the bootstrap data.
const OPT_IN: &str = "capstan.dev/bootstrap-data-by-url";

/// Address that machines fetch their bootstrap data from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserDataSource {
    /// Start of the URLs.
    pub url: String,
    /// CA of the address, in PEM.
    pub ca: String,
}

impl UserDataSource {
    /// Namespace of the ConfigMap with the address.
    pub const NAMESPACE: &'static str = "capstan-system";

    /// Name of the ConfigMap with the address.
    pub const NAME: &'static str = "bootstrap-data";

    /// Key of the URL in the ConfigMap.
    pub const URL: &'static str = "url";

    /// Key of the CA in the ConfigMap. Kubernetes' own ConfigMaps have the same.
    pub const CA: &'static str = "ca.crt";

    /// Returns the address for the machines of a Cluster; `None` if its machines get the data from the cloud.
    ///
    /// # Errors
    /// The Cluster wants the address, and the server has none. Then no machine gets the data in another way.
    pub async fn of(client: &Client, cluster: &Cluster) -> Result<Option<Self>, ReconcileError> {
        if cluster.annotations().get(OPT_IN).is_none_or(|value| value != "true") {
            return Ok(None);
        }
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), Self::NAMESPACE);
        let found = api.get_opt(Self::NAME).await?.and_then(|it| it.data);
        let value = |key: &str| found.as_ref()?.get(key).filter(|text| !text.is_empty()).cloned();
        match (value(Self::URL), value(Self::CA)) {
            (Some(url), Some(ca)) => Ok(Some(Self { url, ca })),
            _ => {
                let message = format!(
                    "Cluster {} has the annotation {OPT_IN}, and this server has no address for it. Set \
                     bootstrapData in the server's configuration, or remove the annotation",
                    cluster.name_any()
                );
                Err(ReconcileError::waiting("BootstrapDataNotServed", message))
            }
        }
    }
}
