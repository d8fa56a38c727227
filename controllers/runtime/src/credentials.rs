//! Cloud credentials that an identity reference names.

use apiserver_types::{IdentityType, OpenStackIdentityReference};
use controllers_infrastructure::{CloudError, Credentials, ErrorClass};

use crate::{ReconcileError, SecretSource};

/// Reads the Secret that an identity names.
pub(crate) async fn read(
    secrets: &dyn SecretSource,
    namespace: &str,
    identity: &OpenStackIdentityReference,
) -> Result<Credentials, ReconcileError> {
    let name = &identity.name;
    let wrong = |message: String| {
        ReconcileError::Cloud(CloudError::new(ErrorClass::Credentials, "read credentials", message))
    };
    if identity.kind == Some(IdentityType::ClusterIdentity) {
        return Err(wrong(format!(
            "identityRef {name:?} is an OpenStackClusterIdentity, which is not served here. Name a Secret instead"
        )));
    }
    let Some(secret) = secrets.secret(namespace, name).await? else {
        return Err(wrong(format!(
            "Secret {namespace}/{name} does not exist. Create it with a clouds.yaml that has the cloud {:?}",
            identity.cloud_name
        )));
    };
    let text = |key: &str| {
        let bytes = secret.data.as_ref().and_then(|data| data.get(key));
        bytes.map(|bytes| String::from_utf8(bytes.0.clone())).transpose()
    };
    let not_text = |key: &str| wrong(format!("key {key:?} of Secret {namespace}/{name} is not UTF-8"));
    let clouds_yaml = text("clouds.yaml").map_err(|_| not_text("clouds.yaml"))?;
    let Some(clouds_yaml) = clouds_yaml else {
        return Err(wrong(format!("Secret {namespace}/{name} has no key \"clouds.yaml\"")));
    };
    let ca_certificate =
        text("cacert").map_err(|_| not_text("cacert"))?.filter(|text| !text.trim().is_empty());
    let cloud_name = identity.cloud_name.clone();
    Ok(Credentials { clouds_yaml, cloud_name, ca_certificate, region: identity.region.clone() })
}
