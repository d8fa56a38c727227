//! Certificates of a workload cluster, in Secrets `<cluster>-<suffix>`.
//!
//! A Secret of the user counts as one of ours. Only a Secret that does not exist is generated, and none is overwritten.

use std::collections::BTreeMap;

use apiserver_types::{Cluster, ClusterConfiguration};
use controllers_bootstrap::File;
use controllers_bootstrap::certificates::{
    self, CertificateError, KeyAlgorithm, PemPair, Purpose, certificate_authority, service_account_keys,
};
use controllers_runtime::{ControllerContext, ReconcileError};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::ResourceExt;

use crate::CLUSTER_NAME_LABEL;

/// Type of Secrets that belong to Cluster API. A Secret of another type is the user's, and its owners stay.
pub(crate) const SECRET_TYPE: &str = "cluster.x-k8s.io/secret";

/// Key of a Secret with the certificate.
const CERTIFICATE: &str = "tls.crt";

/// Key of a Secret with the private key.
const KEY: &str = "tls.key";

/// Reason of conditions about certificates that cannot be used. Upstream's word.
const INTERNAL_ERROR: &str = "InternalError";

/// Certificates of one cluster that were found, and those that were not.
#[derive(Debug, Default)]
pub(crate) struct Certificates {
    found: BTreeMap<Purpose, (PemPair, Secret)>,
    /// Purposes without a Secret.
    pub missing: Vec<Purpose>,
}

impl Certificates {
    /// Returns the pair of a purpose, if its Secret exists.
    pub(crate) fn get(&self, purpose: Purpose) -> Option<&PemPair> {
        self.found.get(&purpose).map(|(pair, _)| pair)
    }

    /// Returns all pairs that exist, with their purposes.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (Purpose, &PemPair)> {
        self.found.iter().map(|(purpose, (pair, _))| (*purpose, pair))
    }

    /// Returns what is wrong for a control plane node: a missing pair, or what [`Self::defect`] finds.
    pub(crate) fn problem(
        &self,
        cluster: &str,
        configuration: Option<&ClusterConfiguration>,
    ) -> Option<String> {
        if !self.missing.is_empty() {
            let names: Vec<String> =
                self.missing.iter().map(|purpose| secret_name(cluster, *purpose)).collect();
            return Some(format!("Secrets with certificates do not exist: {}", names.join(", ")));
        }
        self.defect(cluster, configuration)
    }

    /// Returns what is wrong with a pair that exists: it cannot be read, its parts do not belong together, or it is not
    /// valid now.
    pub(crate) fn defect(
        &self,
        cluster: &str,
        configuration: Option<&ClusterConfiguration>,
    ) -> Option<String> {
        self.found.iter().find_map(|(purpose, (pair, _))| {
            let name = secret_name(cluster, *purpose);
            if pair.key.is_empty() && !purpose.may_lack_key(configuration) {
                return Some(format!("Secret {name} has no key {KEY:?}"));
            }
            judge(*purpose, pair).err().map(|error| format!("Secret {name}: {error}"))
        })
    }

    /// Returns what is wrong with the certificate of a purpose, whose key does not count.
    pub(crate) fn defect_of_certificate(&self, purpose: Purpose) -> Option<CertificateError> {
        let pair = PemPair { key: String::new(), ..self.get(purpose)?.clone() };
        judge(purpose, &pair).err()
    }

    /// Returns the files of a control plane node, in upstream's order.
    pub(crate) fn files(&self, configuration: Option<&ClusterConfiguration>) -> Vec<File> {
        let found = self.found.iter();
        found.flat_map(|(purpose, (pair, _))| purpose.files(pair, configuration)).collect()
    }

    fn add(&mut self, purpose: Purpose, secret: Secret) -> Result<(), ReconcileError> {
        self.found.insert(purpose, (pair(&secret)?, secret));
        Ok(())
    }
}

/// Checks a pair. That of the service account has no certificate, and that of a client signs nothing.
fn judge(purpose: Purpose, pair: &PemPair) -> Result<(), CertificateError> {
    if !pair.key.is_empty() {
        certificates::matches(pair)?;
    }
    match purpose {
        Purpose::ServiceAccount => Ok(()),
        _ => certificates::usable(pair, purpose != Purpose::ApiServerEtcdClient, Timestamp::now()),
    }
}

/// Returns the name of the Secret of a purpose.
pub(crate) fn secret_name(cluster: &str, purpose: Purpose) -> String {
    format!("{cluster}-{}", purpose.suffix())
}

/// Returns the name of the Secret with the administrator's kubeconfig, whose key is `value`.
pub(crate) fn kubeconfig_secret_name(cluster: &str) -> String {
    format!("{cluster}-kubeconfig")
}

/// Reads the certificates of a cluster. A Secret that does not exist is in `missing`.
///
/// # Errors
/// A Secret cannot be read, or has no certificate. This never means that something is missing.
pub(crate) async fn lookup(
    context: &ControllerContext,
    cluster: &Cluster,
    configuration: Option<&ClusterConfiguration>,
) -> Result<Certificates, ReconcileError> {
    lookup_only(context, cluster, &Purpose::all(configuration)).await
}

/// Reads the certificates of these purposes.
///
/// # Errors
/// A Secret cannot be read, or has no certificate.
pub(crate) async fn lookup_only(
    context: &ControllerContext,
    cluster: &Cluster,
    purposes: &[Purpose],
) -> Result<Certificates, ReconcileError> {
    let namespace = cluster.namespace().unwrap_or_default();
    let mut certificates = Certificates::default();
    for purpose in purposes {
        let name = secret_name(&cluster.name_any(), *purpose);
        match context.secrets.secret(&namespace, &name).await? {
            Some(secret) => certificates.add(*purpose, secret)?,
            None => certificates.missing.push(*purpose),
        }
    }
    Ok(certificates)
}

/// Reads the certificates of a cluster, and generates those that are missing. `owner` controls what is generated. What
/// only the user can supply stays in `missing`.
///
/// # Errors
/// A Secret cannot be read or created, or has no certificate.
pub(crate) async fn generate_missing(
    context: &ControllerContext,
    cluster: &Cluster,
    owner: OwnerReference,
    configuration: Option<&ClusterConfiguration>,
) -> Result<Certificates, ReconcileError> {
    let mut certificates = lookup(context, cluster, configuration).await?;
    for purpose in std::mem::take(&mut certificates.missing) {
        if purpose.is_external(configuration) {
            certificates.missing.push(purpose);
            continue;
        }
        let pair = generate(purpose, configuration).await?;
        let secret = secret(cluster, purpose, &pair, owner.clone());
        certificates.add(purpose, create(context, &secret).await?)?;
    }
    Ok(certificates)
}

/// Makes `owner` the controller of all Secrets of Cluster API's type. Owners of the user's own Secrets stay.
///
/// # Errors
/// A conflict, if another client has written since, or the API's own failure.
pub(crate) async fn take_control(
    context: &ControllerContext,
    certificates: &Certificates,
    owner: &OwnerReference,
) -> Result<(), ReconcileError> {
    for (_, secret) in certificates.found.values() {
        if let Some(secret) = controlled(secret, owner) {
            context.secrets.replace(&secret).await?;
        }
    }
    Ok(())
}

/// Returns a Secret with another controller, or `None` if nothing changes.
pub(crate) fn controlled(secret: &Secret, owner: &OwnerReference) -> Option<Secret> {
    if secret.type_.as_deref() != Some(SECRET_TYPE) || secret.owner_references().contains(owner) {
        return None;
    }
    let mut owners = secret.owner_references().to_vec();
    owners.retain(|known| known.controller != Some(true) && known.uid != owner.uid);
    owners.push(owner.clone());
    let mut secret = secret.clone();
    secret.metadata.owner_references = Some(owners);
    Some(secret)
}

/// Generates a pair outside the threads of the runtime: a long RSA key takes seconds.
async fn generate(
    purpose: Purpose,
    configuration: Option<&ClusterConfiguration>,
) -> Result<PemPair, ReconcileError> {
    let algorithm: KeyAlgorithm =
        configuration.and_then(|it| it.encryption_algorithm).map(KeyAlgorithm::from).unwrap_or_default();
    let days = configuration.and_then(|it| it.ca_certificate_validity_period_days);
    let now = Timestamp::now();
    let generated = tokio::task::spawn_blocking(move || match purpose {
        Purpose::ServiceAccount => service_account_keys(algorithm),
        _ => certificate_authority(algorithm, days, now),
    });
    let result = generated.await.map_err(|error| CertificateError::Generation(error.to_string()));
    result.and_then(|pair| pair).map_err(|error| ReconcileError::waiting(INTERNAL_ERROR, error.to_string()))
}

/// Creates a Secret. If it exists already, what is there is used.
async fn create(context: &ControllerContext, secret: &Secret) -> Result<Secret, ReconcileError> {
    match context.secrets.create(secret).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {
            let (namespace, name) = (secret.namespace().unwrap_or_default(), secret.name_any());
            let known = context.secrets.secret(&namespace, &name).await?;
            Ok(known.ok_or(kube::Error::Api(status))?)
        }
        result => Ok(result?),
    }
}

fn secret(cluster: &Cluster, purpose: Purpose, pair: &PemPair, owner: OwnerReference) -> Secret {
    let data = [(CERTIFICATE, &pair.certificate), (KEY, &pair.key)];
    let data = data.map(|(key, text)| (key.to_owned(), ByteString(text.clone().into_bytes())));
    Secret {
        metadata: ObjectMeta {
            name: Some(secret_name(&cluster.name_any(), purpose)),
            namespace: cluster.namespace(),
            labels: Some([(CLUSTER_NAME_LABEL.to_owned(), cluster.name_any())].into()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        type_: Some(SECRET_TYPE.to_owned()),
        data: Some(data.into()),
        ..Secret::default()
    }
}

/// Returns the pair of a Secret. It may lack the private key.
fn pair(secret: &Secret) -> Result<PemPair, ReconcileError> {
    let text = |key: &str| {
        let data = secret.data.as_ref().and_then(|data| data.get(key));
        data.map(|data| String::from_utf8_lossy(&data.0).into_owned()).unwrap_or_default()
    };
    let (certificate, key) = (text(CERTIFICATE), text(KEY));
    if certificate.is_empty() {
        let message = format!("Secret {} has no key {CERTIFICATE:?}", secret.name_any());
        return Err(ReconcileError::waiting(INTERNAL_ERROR, message));
    }
    Ok(PemPair { certificate, key })
}

#[cfg(test)]
mod tests {
    use apiserver_types::ClusterSpec;

    use super::*;

    fn owner(uid: &str, controller: bool) -> OwnerReference {
        let controller = controller.then_some(true);
        OwnerReference { uid: uid.to_owned(), controller, ..OwnerReference::default() }
    }

    fn stored(purpose: Purpose, pair: &PemPair) -> Secret {
        let mut cluster = Cluster::new("blue", ClusterSpec::default());
        cluster.metadata.namespace = Some("default".to_owned());
        secret(&cluster, purpose, pair, owner("first", true))
    }

    #[test]
    fn a_missing_secret_or_key_and_a_wrong_key_are_named() {
        let ca = || certificate_authority(KeyAlgorithm::EcdsaP256, None, Timestamp::now()).unwrap();
        let mut certificates = Certificates { missing: vec![Purpose::EtcdCa], ..Certificates::default() };
        certificates.add(Purpose::ClusterCa, stored(Purpose::ClusterCa, &ca())).unwrap();
        let missing = "Secrets with certificates do not exist: blue-etcd";
        assert_eq!(certificates.problem("blue", None).as_deref(), Some(missing));
        certificates.missing.clear();
        assert_eq!(certificates.problem("blue", None), None);
        let mut pair = PemPair { key: ca().key, ..ca() };
        certificates.add(Purpose::EtcdCa, stored(Purpose::EtcdCa, &pair)).unwrap();
        let wrong = "Secret blue-etcd: the private key belongs to none of the certificates";
        assert_eq!(certificates.problem("blue", None).as_deref(), Some(wrong));
        pair.key.clear();
        certificates.add(Purpose::EtcdCa, stored(Purpose::EtcdCa, &pair)).unwrap();
        assert_eq!(
            certificates.problem("blue", None).as_deref(),
            Some("Secret blue-etcd has no key \"tls.key\"")
        );
        let paths: Vec<String> = certificates.files(None).into_iter().map(|file| file.path).collect();
        let expected = ["ca.crt", "ca.key", "etcd/ca.crt"].map(|name| format!("/etc/kubernetes/pki/{name}"));
        assert_eq!(paths, expected);
        let old = certificate_authority(KeyAlgorithm::EcdsaP256, Some(1), Timestamp::UNIX_EPOCH).unwrap();
        certificates.add(Purpose::EtcdCa, stored(Purpose::EtcdCa, &old)).unwrap();
        let problem = certificates.problem("blue", None).unwrap();
        assert!(problem.starts_with("Secret blue-etcd: the certificate is valid from 1969-"), "{problem}");
        assert!(certificates.defect_of_certificate(Purpose::EtcdCa).is_some());
        assert_eq!(certificates.defect_of_certificate(Purpose::ClusterCa), None);
        pair.certificate.clear();
        assert!(certificates.add(Purpose::EtcdCa, stored(Purpose::EtcdCa, &pair)).is_err());
    }

    #[test]
    fn only_secrets_of_cluster_apis_type_get_another_controller() {
        let pair = PemPair { certificate: "c".to_owned(), key: "k".to_owned() };
        let mut known = stored(Purpose::ClusterCa, &pair);
        known.metadata.owner_references = Some(vec![owner("first", true), owner("other", false)]);
        let new = owner("new", true);
        let changed = controlled(&known, &new).unwrap();
        assert_eq!(changed.owner_references(), [owner("other", false), new.clone()]);
        assert_eq!(controlled(&changed, &new), None, "it is controlled already");
        known.type_ = Some("kubernetes.io/tls".to_owned());
        assert_eq!(controlled(&known, &new), None, "the user's own");
    }
}
