//! Cloud credentials that an identity reference names.

use std::time::Duration;

use apiserver_types::{IdentityType, LabelSelector, OpenStackClusterIdentity, OpenStackIdentityReference};
use controllers_infrastructure::{CloudError, Credentials, ErrorClass};
use controllers_workload::drain::matches;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};

use crate::{ReconcileError, SecretSource};

/// Reads the credentials that an object in this namespace refers to: a Secret, or an OpenStackClusterIdentity with the
/// Secret that it names.
///
/// # Errors
/// A cloud error that names the Secret or the identity, and its error; the API's own.
pub async fn read_credentials(
    client: &Client,
    secrets: &dyn SecretSource,
    namespace: &str,
    identity: &OpenStackIdentityReference,
) -> Result<Credentials, ReconcileError> {
    Ok(read_aged(client, secrets, namespace, identity).await?.0)
}

/// Reads the credentials that an object in this namespace refers to, with the age of the copy of their Secret.
///
/// # Errors
/// As of [`read_credentials`].
pub(crate) async fn read_aged(
    client: &Client,
    secrets: &dyn SecretSource,
    namespace: &str,
    identity: &OpenStackIdentityReference,
) -> Result<(Credentials, Duration), ReconcileError> {
    let secret = if identity.kind == Some(IdentityType::ClusterIdentity) {
        let (namespace, name) = shared(client, secrets, namespace, &identity.name).await?;
        secrets.aged_secret(&namespace, &name).await?
    } else {
        secrets.aged_secret(namespace, &identity.name).await?
    };
    let words = words(namespace, identity);
    let Some((secret, age)) = secret else {
        let message = format!(
            "{words} does not exist. Create it with a clouds.yaml that has the cloud {:?}",
            identity.cloud_name
        );
        return Err(refused(ErrorClass::Credentials, message));
    };
    let Some(clouds_yaml) = text(&secret, &words, "clouds.yaml")? else {
        let message = format!("{words} has no key \"clouds.yaml\". Add it");
        return Err(refused(ErrorClass::Credentials, message));
    };
    let ca_certificate = text(&secret, &words, "cacert")?.filter(|text| !text.trim().is_empty());
    let cloud_name = identity.cloud_name.clone();
    let shared = (identity.kind == Some(IdentityType::ClusterIdentity)).then(|| identity.name.clone());
    let region = identity.region.clone();
    Ok((Credentials { clouds_yaml, cloud_name, ca_certificate, region, identity: shared }, age))
}

/// Names the place of credentials: whatever is written there, they are the credentials of the same objects.
pub(crate) fn source(namespace: &str, identity: &OpenStackIdentityReference) -> String {
    let namespace = if identity.kind == Some(IdentityType::ClusterIdentity) { "" } else { namespace };
    let region = identity.region.as_deref().unwrap_or_default();
    format!("{namespace}/{}/{}/{region}", identity.name, identity.cloud_name)
}

/// Returns the words that name the Secret of an identity in an error.
pub(crate) fn words(namespace: &str, identity: &OpenStackIdentityReference) -> String {
    let name = &identity.name;
    match identity.kind {
        // Its namespace is one that the reader of the error may not see.
        Some(IdentityType::ClusterIdentity) => format!("the Secret of OpenStackClusterIdentity {name}"),
        _ => format!("Secret {namespace}/{name}"),
    }
}

/// Returns namespace and name of the Secret of an OpenStackClusterIdentity, if objects in `namespace` may use it.
async fn shared(
    client: &Client,
    secrets: &dyn SecretSource,
    namespace: &str,
    name: &str,
) -> Result<(String, String), ReconcileError> {
    let api: Api<OpenStackClusterIdentity> = Api::all(client.clone());
    let Some(identity) = api.get_opt(name).await? else {
        let message =
            format!("OpenStackClusterIdentity {name} does not exist. Create it, or correct identityRef");
        return Err(refused(ErrorClass::IdentityNotFound, message));
    };
    if let Some(selector) = &identity.spec.namespace_selector {
        let labels = secrets.namespace(namespace).await?.and_then(|found| found.metadata.labels);
        let allowed =
            matches(Some(selector), labels.as_ref()).map_err(|error| denied(name, namespace, &error))?;
        if !allowed {
            return Err(denied(name, namespace, &format!("its selector is {}", shown(selector))));
        }
    }
    let secret = identity.spec.secret_ref;
    Ok((secret.namespace, secret.name))
}

/// Returns the error of a namespace that may not use an identity. It does not name the Secret.
fn denied(identity: &str, namespace: &str, why: &str) -> ReconcileError {
    let message = format!(
        "OpenStackClusterIdentity {identity} does not admit namespace {namespace}: {why}. \
         Change the labels of the namespace, or the selector"
    );
    refused(ErrorClass::IdentityAccessDenied, message)
}

fn shown(selector: &LabelSelector) -> String {
    serde_json::to_string(selector).unwrap_or_default()
}

fn refused(class: ErrorClass, message: String) -> ReconcileError {
    CloudError::new(class, "read credentials", message).into()
}

/// Returns a key of a Secret. `words` name the Secret in errors.
fn text(secret: &Secret, words: &str, key: &str) -> Result<Option<String>, ReconcileError> {
    let bytes = secret.data.as_ref().and_then(|data| data.get(key));
    bytes.map(|bytes| String::from_utf8(bytes.0.clone())).transpose().map_err(|_| {
        let message = format!("key {key:?} of {words} is not UTF-8. Write it again as text");
        refused(ErrorClass::Credentials, message)
    })
}
