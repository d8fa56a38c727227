//! Cloud credentials that an identity reference names.

use apiserver_types::{IdentityType, OpenStackIdentityReference};
use controllers_infrastructure::{CloudError, Credentials, ErrorClass};
use kube::Client;

use crate::{ReconcileError, SecretSource, cluster_identity};

/// Reads the Secret that an identity names, itself or by an OpenStackClusterIdentity.
pub(crate) async fn read(
    client: &Client,
    secrets: &dyn SecretSource,
    namespace: &str,
    identity: &OpenStackIdentityReference,
) -> Result<Credentials, ReconcileError> {
    // The Secret of a shared identity is in a namespace that the reader of an error may not see.
    let (namespace, name, secret_text) = match identity.kind {
        Some(IdentityType::ClusterIdentity) => {
            let (at, name) = cluster_identity::secret(client, namespace, &identity.name).await?;
            (at, name, format!("the Secret of OpenStackClusterIdentity {}", identity.name))
        }
        Some(IdentityType::Secret) | None => {
            let name = identity.name.clone();
            (namespace.to_owned(), name.clone(), format!("Secret {namespace}/{name}"))
        }
    };
    let wrong = |message: String| {
        ReconcileError::Cloud(CloudError::new(ErrorClass::Credentials, "read credentials", message))
    };
    let Some(secret) = secrets.secret(&namespace, &name).await? else {
        return Err(wrong(format!(
            "{secret_text} does not exist. Create it with a clouds.yaml that has the cloud {:?}",
            identity.cloud_name
        )));
    };
    let text = |key: &str| {
        let bytes = secret.data.as_ref().and_then(|data| data.get(key));
        bytes.map(|bytes| String::from_utf8(bytes.0.clone())).transpose()
    };
    let not_text = |key: &str| wrong(format!("key {key:?} of {secret_text} is not UTF-8"));
    let clouds_yaml = text("clouds.yaml").map_err(|_| not_text("clouds.yaml"))?;
    let Some(clouds_yaml) = clouds_yaml else {
        return Err(wrong(format!("{secret_text} has no key \"clouds.yaml\"")));
    };
    let ca_certificate =
        text("cacert").map_err(|_| not_text("cacert"))?.filter(|text| !text.trim().is_empty());
    let cloud_name = identity.cloud_name.clone();
    Ok(Credentials { clouds_yaml, cloud_name, ca_certificate, region: identity.region.clone() })
}
