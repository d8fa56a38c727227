//! Secrets with the certificate authorities of a cluster.

use std::collections::BTreeMap;

use apiserver_types::KubeadmControlPlane;
use controllers_bootstrap::certificates::{
    CertificateError, KeyAlgorithm, PemPair, certificate_authority, service_account_keys,
};
use controllers_runtime::{ControllerContext, ReconcileError, SecretSource};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use super::replica::managed_etcd;
use crate::{CLUSTER_NAME_LABEL, ownership};

/// Type of the Secrets of Cluster API. A Secret of another type belongs to a user.
pub(super) const SECRET_TYPE: &str = "cluster.x-k8s.io/secret";

/// Suffix of the Secret of the cluster's own authority.
pub(super) const CLUSTER: &str = "ca";

/// Suffix of the Secret of etcd's authority.
pub(super) const ETCD: &str = "etcd";

/// Suffix of the Secret with the pair that signs service account tokens.
const SERVICE_ACCOUNT: &str = "sa";

/// Suffix of the Secret with the client certificate for external etcd, which a user provides.
const ETCD_CLIENT: &str = "apiserver-etcd-client";

/// The pairs that were found, by suffix, and the names of the Secrets that are missing.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub pairs: BTreeMap<&'static str, PemPair>,
    pub missing: Vec<String>,
}

/// Returns the algorithm of generated keys.
pub(super) fn algorithm(control_plane: &KubeadmControlPlane) -> KeyAlgorithm {
    let spec = control_plane.spec.kubeadm_config_spec.as_ref();
    let cluster = spec.and_then(|spec| spec.cluster_configuration.as_ref());
    cluster.and_then(|cluster| cluster.encryption_algorithm).unwrap_or_default().into()
}

/// Reads the Secrets. With `generate`, missing ones are made, except those that only a user can provide.
pub(super) async fn ensure(
    context: &ControllerContext,
    control_plane: &KubeadmControlPlane,
    cluster: &str,
    generate: bool,
) -> Result<Found, ReconcileError> {
    let managed = managed_etcd(control_plane);
    let client = (!managed).then_some((ETCD_CLIENT, false));
    let suffixes = [(CLUSTER, true), (SERVICE_ACCOUNT, true), ("proxy", true), (ETCD, managed)];
    let namespace = control_plane.namespace().unwrap_or_default();
    let secrets = context.secrets.as_ref();
    let mut found = Found::default();
    for (suffix, is_generated) in suffixes.into_iter().chain(client) {
        let name = format!("{cluster}-{suffix}");
        let known = match secrets.secret(&namespace, &name).await? {
            None if generate && is_generated => Some(create(secrets, control_plane, cluster, suffix).await?),
            known => known,
        };
        let Some(secret) = known else {
            found.missing.push(name);
            continue;
        };
        found.pairs.insert(suffix, pair(&secret)?);
        take_over(secrets, control_plane, secret).await?;
    }
    Ok(found)
}

/// Makes a Secret. One that another client made meanwhile is used.
async fn create(
    secrets: &dyn SecretSource,
    control_plane: &KubeadmControlPlane,
    cluster: &str,
    suffix: &str,
) -> Result<Secret, ReconcileError> {
    let name = format!("{cluster}-{suffix}");
    let pair = generated(control_plane, suffix).map_err(|error| {
        ReconcileError::waiting("CertificateGenerationFailed", format!("generate Secret {name}: {error}"))
    })?;
    let data = [("tls.crt", pair.certificate), ("tls.key", pair.key)];
    let secret = secret(control_plane, cluster, &name, data);
    match secrets.create(&secret).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {
            let namespace = control_plane.namespace().unwrap_or_default();
            let known = secrets.secret(&namespace, &name).await?;
            known.ok_or_else(|| kube::Error::Api(status).into())
        }
        result => Ok(result?),
    }
}

fn generated(control_plane: &KubeadmControlPlane, suffix: &str) -> Result<PemPair, CertificateError> {
    let algorithm = algorithm(control_plane);
    if suffix == SERVICE_ACCOUNT {
        return service_account_keys(algorithm);
    }
    let spec = control_plane.spec.kubeadm_config_spec.as_ref();
    let cluster = spec.and_then(|spec| spec.cluster_configuration.as_ref());
    let days = cluster.and_then(|cluster| cluster.ca_certificate_validity_period_days);
    certificate_authority(algorithm, days, Timestamp::now())
}

/// Returns a Secret that the control plane controls.
pub(super) fn secret(
    control_plane: &KubeadmControlPlane,
    cluster: &str,
    name: &str,
    data: impl IntoIterator<Item = (&'static str, String)>,
) -> Secret {
    let data = data.into_iter().map(|(key, value)| (key.to_owned(), ByteString(value.into_bytes())));
    Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: control_plane.namespace(),
            labels: Some(BTreeMap::from([(CLUSTER_NAME_LABEL.to_owned(), cluster.to_owned())])),
            owner_references: Some(vec![ownership::reference(control_plane, true)]),
            ..ObjectMeta::default()
        },
        data: Some(data.collect()),
        type_: Some(SECRET_TYPE.to_owned()),
        ..Secret::default()
    }
}

fn pair(secret: &Secret) -> Result<PemPair, ReconcileError> {
    let name = secret.name_any();
    let text = |key: &str| {
        let value = secret.data.as_ref().and_then(|data| data.get(key));
        value.map(|value| String::from_utf8_lossy(&value.0).into_owned()).unwrap_or_default()
    };
    let certificate = text("tls.crt");
    if certificate.is_empty() {
        let message =
            format!("Secret {name} has no tls.crt. Add it, or delete the Secret before the first Machine");
        return Err(ReconcileError::waiting("InvalidCertificate", message));
    }
    Ok(PemPair { certificate, key: text("tls.key") })
}

/// Makes the control plane the controller of a Secret of Cluster API. A user's own stays as it is.
pub(super) async fn take_over(
    secrets: &dyn SecretSource,
    control_plane: &KubeadmControlPlane,
    mut secret: Secret,
) -> Result<(), ReconcileError> {
    let owner = ownership::reference(control_plane, true);
    let mut owners = secret.owner_references().to_vec();
    let is_ours = owners.iter().any(|it| it.uid == owner.uid && it.controller == Some(true));
    if is_ours || secret.type_.as_deref() != Some(SECRET_TYPE) {
        return Ok(());
    }
    owners.retain(|it| it.uid != owner.uid && it.controller != Some(true));
    owners.push(owner);
    secret.metadata.owner_references = Some(owners);
    secrets.replace(&secret).await?;
    Ok(())
}
