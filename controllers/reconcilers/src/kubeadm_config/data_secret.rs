//! Secret with the bootstrap data, which the infrastructure provider reads.

use apiserver_types::{BootstrapFormat, KubeadmConfig};
use controllers_runtime::{ControllerContext, ReconcileError};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use super::decide::secret_owner;
use super::stop::Failure;
use crate::CLUSTER_NAME_LABEL;
use crate::cluster_certificates::SECRET_TYPE;

/// Stores the bootstrap data. A Secret of an earlier pass is replaced as a whole.
pub(super) async fn store(
    context: &ControllerContext,
    config: &KubeadmConfig,
    cluster: &str,
    document: String,
) -> Result<(), Failure> {
    let mut secret = secret(config, cluster, document);
    match context.secrets.create(&secret).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {
            let (namespace, name) = (secret.namespace().unwrap_or_default(), secret.name_any());
            let known = context.secrets.secret(&namespace, &name).await?;
            let known = known.ok_or_else(|| ReconcileError::Api(kube::Error::Api(status)))?;
            secret.metadata.resource_version = known.resource_version();
            secret.metadata.uid = known.uid();
            context.secrets.replace(&secret).await?;
        }
        result => drop(result?),
    }
    Ok(())
}

fn secret(config: &KubeadmConfig, cluster: &str, document: String) -> Secret {
    let format = match config.spec.format.unwrap_or_default() {
        BootstrapFormat::CloudConfig => "cloud-config",
        BootstrapFormat::Ignition => "ignition",
    };
    let data = [("value", document), ("format", format.to_owned())];
    Secret {
        metadata: ObjectMeta {
            name: Some(config.name_any()),
            namespace: config.namespace(),
            labels: Some([(CLUSTER_NAME_LABEL.to_owned(), cluster.to_owned())].into()),
            owner_references: Some(vec![secret_owner(config)]),
            ..ObjectMeta::default()
        },
        type_: Some(SECRET_TYPE.to_owned()),
        data: Some(data.map(|(key, text)| (key.to_owned(), ByteString(text.into_bytes()))).into()),
        ..Secret::default()
    }
}
