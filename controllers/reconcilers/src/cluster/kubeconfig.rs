//! Kubeconfig of a Cluster without an object for its control plane. With one, that object's controller creates it.

use std::collections::BTreeMap;

use apiserver_types::Cluster;
use controllers_bootstrap::certificates::{self, KeyAlgorithm, PemPair, usable};
use controllers_runtime::{ControllerContext, ReconcileError};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::core::ObjectMeta;

use super::decide::is_complete;
use super::observe::Observed;
use crate::cluster_certificates::{SECRET_TYPE, kubeconfig_secret_name};
use crate::endpoint_hosts::host_and_port;
use crate::kubeadm_control_plane::authority_of_old_kubeconfig;
use crate::{CLUSTER_NAME_LABEL, ownership};

/// Key of the kubeconfig in its Secret.
const KEY: &str = "value";

/// Returns the URL of the workload API, once the endpoint is known.
fn server(cluster: &Cluster) -> Option<String> {
    let endpoint = cluster.spec.control_plane_endpoint.as_ref().filter(|it| is_complete(it))?;
    let (host, port) = (endpoint.host.as_ref()?, endpoint.port?);
    Some(format!("https://{}", host_and_port(host, port)))
}

/// Returns the URL of the workload API, if a kubeconfig is to be created or renewed.
pub(super) fn due(cluster: &Cluster, observed: &Observed) -> Option<String> {
    let wanted = cluster.spec.control_plane_ref.is_none()
        && (observed.kubeconfig.is_none() || observed.old_kubeconfig.is_some())
        && observed.was_provisioned(cluster);
    server(cluster).filter(|_| wanted && observed.authority.is_some())
}

/// Returns the authority of the kubeconfig in a Secret, if this controller has made it and its certificate is due for
/// renewal. Any other kubeconfig is its user's.
pub(super) fn authority_of_old(cluster: &Cluster, secret: &Secret, now: Timestamp) -> Option<String> {
    let is_ours = secret.type_.as_deref() == Some(SECRET_TYPE) && ownership::is_owned(secret, cluster);
    let config = secret.data.as_ref()?.get(KEY).filter(|_| is_ours)?;
    authority_of_old_kubeconfig(&config.0, &server(cluster)?, now)
}

/// Reports whether an authority is that of a kubeconfig, and can sign. One that signs nothing makes no better kubeconfig.
pub(super) fn renews(authority: &PemPair, known: &str, now: Timestamp) -> bool {
    authority.certificate.trim() == known.trim()
        && !authority.key.is_empty()
        && usable(authority, true, now).is_ok()
}

/// Returns why no kubeconfig can be created, if the certificate authority is all that is missing.
pub(super) fn without_authority(cluster: &Cluster, observed: &Observed) -> Option<String> {
    let is_reachable = cluster.spec.control_plane_endpoint.as_ref().is_some_and(is_complete);
    let is_awaited = observed.authority.is_none() && is_reachable && cluster.spec.topology.is_none();
    let (namespace, name) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
    is_awaited.then(|| {
        format!(
            "Secret {namespace}/{name}-ca with tls.crt and tls.key does not exist, from which the kubeconfig is created. \
             Create it, or Secret {namespace}/{}",
            kubeconfig_secret_name(&name)
        )
    })
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

/// Creates or renews the Secret with the kubeconfig. One that another client has created before is left as it is. An
/// authority that cannot sign is an obstacle for the status: an error would end the pass before anything is reported.
pub(super) async fn create(
    context: &ControllerContext,
    cluster: &Cluster,
    observed: &mut Observed,
    server: &str,
) -> Result<(), ReconcileError> {
    let Some(authority) = &observed.authority else { return Ok(()) };
    let (namespace, name) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
    let algorithm = KeyAlgorithm::default();
    let kubeconfig = match certificates::kubeconfig(&name, server, authority, algorithm, Timestamp::now()) {
        Ok(kubeconfig) => kubeconfig,
        Err(error) => {
            let message = format!("no kubeconfig can be created from Secret {namespace}/{name}-ca: {error}");
            observed.kubeconfig_obstacle = Some(message);
            return Ok(());
        }
    };
    let kubeconfig = ByteString(kubeconfig.into_bytes());
    if let Some(mut old) = observed.old_kubeconfig.take() {
        old.data.get_or_insert_default().insert(KEY.to_owned(), kubeconfig);
        return Ok(context.secrets.replace(&old).await.map(drop)?);
    }
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(kubeconfig_secret_name(&name)),
            namespace: cluster.namespace(),
            labels: Some(BTreeMap::from([(CLUSTER_NAME_LABEL.to_owned(), name)])),
            owner_references: Some(vec![ownership::reference(cluster, false)]),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([(KEY.to_owned(), kubeconfig)])),
        type_: Some(SECRET_TYPE.to_owned()),
        ..Secret::default()
    };
    match context.secrets.create(&secret).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        result => Ok(result.map(drop)?),
    }
}

#[cfg(test)]
mod tests {
    use controllers_bootstrap::certificates::certificate_authority;
    use jiff::SignedDuration;
    use serde_json::json;

    use super::*;
    use crate::api_in_memory::FakeApi;

    const PATH: &str = "/api/v1/namespaces/ns/secrets/blue-kubeconfig";

    fn cluster() -> Cluster {
        let spec = json!({"controlPlaneEndpoint": {"host": "192.0.2.1", "port": 6443}});
        let mut cluster = Cluster::new("blue", serde_json::from_value(spec).unwrap());
        cluster.metadata.namespace = Some("ns".to_owned());
        cluster
    }

    #[test]
    fn a_missing_authority_is_named_once_the_endpoint_is_known() {
        let mut cluster = cluster();
        let found = without_authority(&cluster, &Observed::default()).unwrap();
        assert!(
            found.contains("Secret ns/blue-ca ") && found.ends_with("Secret ns/blue-kubeconfig"),
            "{found}"
        );
        let pair = PemPair { certificate: String::new(), key: String::new() };
        let observed = Observed { authority: Some(pair), ..Observed::default() };
        assert_eq!(without_authority(&cluster, &observed), None);
        cluster.spec.control_plane_endpoint = None;
        assert_eq!(without_authority(&cluster, &Observed::default()), None);
    }

    /// The kubeconfig ended after a year, and with it the connection to the cluster.
    #[tokio::test]
    async fn a_kubeconfig_of_ours_is_renewed_after_half_of_its_year_and_one_of_a_user_stays() {
        let now = Timestamp::now();
        let ago = |days: i64| now.checked_sub(SignedDuration::from_hours(24 * days)).unwrap();
        let authority = certificate_authority(KeyAlgorithm::EcdsaP256, None, ago(300)).unwrap();
        let mut cluster = cluster();
        cluster.metadata.uid = Some("u".to_owned());
        let secret = |server: &str, days: i64, owner: &str| -> Secret {
            let text =
                certificates::kubeconfig("blue", server, &authority, KeyAlgorithm::EcdsaP256, ago(days));
            let owner = json!({"apiVersion": "v1", "kind": "Cluster", "name": "blue", "uid": owner});
            let metadata = json!({"name": "blue-kubeconfig", "namespace": "ns", "ownerReferences": [owner]});
            let mut secret: Secret =
                serde_json::from_value(json!({"metadata": metadata, "type": SECRET_TYPE})).unwrap();
            secret.data = Some([(KEY.to_owned(), ByteString(text.unwrap().into_bytes()))].into());
            secret
        };
        let ours = "https://192.0.2.1:6443";
        let old = secret(ours, 200, "u");
        let found = |secret: &Secret| authority_of_old(&cluster, secret, now);
        assert_eq!(found(&old).as_deref().map(str::trim), Some(authority.certificate.trim()));
        let known = found(&old).unwrap();
        assert!(renews(&authority, &known, now));
        assert!(
            !renews(&PemPair { key: String::new(), ..authority.clone() }, &known, now),
            "it signs nothing"
        );
        assert_eq!(found(&secret(ours, 100, "u")), None, "it lasts for more than half a year");
        assert_eq!(found(&secret(ours, 200, "another")), None, "of a user");
        assert_eq!(found(&secret("https://other:6443", 200, "u")), None, "changed by a user");

        let api = FakeApi::default();
        api.put(PATH, json!(old));
        let context = api.context("cluster-controller");
        let stored = context.secrets.secret("ns", "blue-kubeconfig").await.unwrap();
        let (old_kubeconfig, authority) = (stored, Some(authority));
        let mut observed = Observed { old_kubeconfig, authority, ..Observed::default() };
        create(&context, &cluster, &mut observed, ours).await.unwrap();
        let renewed = context.secrets.secret("ns", "blue-kubeconfig").await.unwrap().unwrap();
        assert_ne!(renewed.data, old.data);
        assert_eq!(authority_of_old(&cluster, &renewed, now), None);
        assert_eq!(renewed.metadata.owner_references, old.metadata.owner_references);
    }

    /// With a Secret of the authority that was no PEM, the Cluster had no status at all.
    #[tokio::test]
    async fn an_authority_that_signs_nothing_is_reported_and_does_not_end_the_pass() {
        let pair = PemPair { certificate: "no PEM".to_owned(), key: "no PEM".to_owned() };
        let mut observed = Observed { authority: Some(pair), ..Observed::default() };
        let context = FakeApi::default().context("cluster-controller");
        create(&context, &cluster(), &mut observed, "https://192.0.2.1:6443").await.unwrap();
        let obstacle = observed.kubeconfig_obstacle.unwrap();
        assert!(obstacle.starts_with("no kubeconfig can be created from Secret ns/blue-ca: "), "{obstacle}");
    }
}
