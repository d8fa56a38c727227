//! Secret with the bootstrap data, which the infrastructure provider reads.

use apiserver_types::{BootstrapFormat, Cluster, KubeadmConfig, Machine};
use controllers_runtime::{ControllerContext, ReconcileError, now};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use super::decide::secret_owner;
use super::stop::Failure;
use super::tokens;
use crate::CLUSTER_NAME_LABEL;
use crate::cluster_certificates::SECRET_TYPE;

/// Key of the document. Part of Cluster API's contract.
const VALUE: &str = "value";

/// Annotation of a Cluster. With the value `true`, bootstrap data is removed once its Machine has joined.
const RETIRE: &str = "capstan.dev/remove-bootstrap-data";

/// Annotation of a Secret with the time at which its data was removed.
const RETIRED: &str = "capstan.dev/bootstrap-data-removed";

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

/// Removes the data of a Machine that has joined, if its Cluster wants that. An operation that takes the disk of the
/// machine needs the data, and waits for it then.
pub(super) async fn retire(
    context: &ControllerContext,
    cluster: &Cluster,
    machine: &Machine,
    secret: Option<&Secret>,
) -> Result<(), Failure> {
    let is_wanted = cluster.annotations().get(RETIRE).is_some_and(|value| value == "true");
    let Some(secret) = secret.filter(|it| is_wanted && has_value(it) && tokens::has_joined(machine)) else {
        return Ok(());
    };
    let mut secret = secret.clone();
    secret.data.get_or_insert_default().insert(VALUE.to_owned(), ByteString::default());
    secret.annotations_mut().insert(RETIRED.to_owned(), now().0);
    context.secrets.replace(&secret).await?;
    Ok(())
}

/// Returns the document in a Secret.
pub(super) fn document(secret: &Secret) -> Option<&[u8]> {
    secret.data.as_ref().and_then(|data| data.get(VALUE)).map(|value| value.0.as_slice())
}

fn has_value(secret: &Secret) -> bool {
    document(secret).is_some_and(|value| !value.is_empty())
}

fn secret(config: &KubeadmConfig, cluster: &str, document: String) -> Secret {
    let format = match config.spec.format.unwrap_or_default() {
        BootstrapFormat::CloudConfig => "cloud-config",
        BootstrapFormat::Ignition => "ignition",
    };
    let data = [(VALUE, document), ("format", format.to_owned())];
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
