//! Kubeconfig of a Cluster without an object for its control plane. With one, that object's controller creates it.

use std::collections::BTreeMap;

use apiserver_types::Cluster;
use controllers_bootstrap::certificates::{self, KeyAlgorithm, PemPair};
use controllers_infrastructure::{CloudError, ErrorClass};
use controllers_runtime::{ControllerContext, ReconcileError};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::core::ObjectMeta;

use super::decide::is_complete;
use super::observe::Observed;
use crate::cluster_certificates::{SECRET_TYPE, kubeconfig_secret_name};
use crate::{CLUSTER_NAME_LABEL, ownership};

/// Returns the URL of the workload API, if a kubeconfig is to be created.
pub(super) fn missing(cluster: &Cluster, observed: &Observed) -> Option<String> {
    let endpoint = cluster.spec.control_plane_endpoint.as_ref().filter(|it| is_complete(it))?;
    let (host, port) = (endpoint.host.as_ref()?, endpoint.port?);
    let wanted = cluster.spec.control_plane_ref.is_none()
        && observed.kubeconfig.is_none()
        && observed.was_provisioned(cluster);
    let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
    (wanted && observed.authority.is_some()).then(|| format!("https://{host}:{port}"))
}

/// Reads the certificate authority; `None` if there is no such Secret, or no key in it.
pub(super) async fn authority(
    context: &ControllerContext,
    cluster: &Cluster,
) -> Result<Option<PemPair>, ReconcileError> {
    let name = format!("{}-ca", cluster.name_any());
    let secret = context.secrets.secret(&cluster.namespace().unwrap_or_default(), &name).await?;
    let data = secret.and_then(|secret| secret.data).unwrap_or_default();
    let text = |key: &str| data.get(key).and_then(|it| String::from_utf8(it.0.clone()).ok());
    Ok(text("tls.crt").zip(text("tls.key")).map(|(certificate, key)| PemPair { certificate, key }))
}

/// Creates the Secret with the kubeconfig. One that another client has created before is left as it is.
pub(super) async fn create(
    context: &ControllerContext,
    cluster: &Cluster,
    observed: &Observed,
    server: &str,
) -> Result<(), ReconcileError> {
    let Some(authority) = &observed.authority else { return Ok(()) };
    let name = cluster.name_any();
    let algorithm = KeyAlgorithm::default();
    let kubeconfig = certificates::kubeconfig(&name, server, authority, algorithm, Timestamp::now());
    let kubeconfig = kubeconfig.map_err(|error| {
        let attempt = format!("create a kubeconfig from Secret {name}-ca");
        ReconcileError::Cloud(CloudError::new(ErrorClass::Invalid, attempt, error.to_string()))
    })?;
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(kubeconfig_secret_name(&name)),
            namespace: cluster.namespace(),
            labels: Some(BTreeMap::from([(CLUSTER_NAME_LABEL.to_owned(), name)])),
            owner_references: Some(vec![ownership::reference(cluster, false)]),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("value".to_owned(), ByteString(kubeconfig.into_bytes()))])),
        type_: Some(SECRET_TYPE.to_owned()),
        ..Secret::default()
    };
    match context.secrets.create(&secret).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        result => Ok(result.map(drop)?),
    }
}
