//! Kubeconfig of a workload cluster's administrator.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::json;

use super::{CertificateError, KeyAlgorithm, PemPair, client_certificate};

/// User of the certificate. kubeadm's own name.
const USER: &str = "kubernetes-admin";

/// Group of the certificate, which every API server gives all permissions.
const GROUP: &str = "system:masters";

/// Validity period of the certificate, as upstream has it. It is renewed after half of it.
const VALIDITY: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Returns the kubeconfig of a Cluster's administrator, with a new client certificate. `server` is the URL of the API.
///
/// # Errors
/// The CA cannot be read, its certificate and key do not belong together, or the generation failed.
pub fn kubeconfig(
    cluster: &str,
    server: &str,
    ca: &PemPair,
    algorithm: KeyAlgorithm,
    now: Timestamp,
) -> Result<String, CertificateError> {
    let client = client_certificate(ca, USER, Some(GROUP), VALIDITY, algorithm, now)?;
    let user = format!("{cluster}-admin");
    let context = format!("{user}@{cluster}");
    let tree = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": {
            "server": server,
            "certificate-authority-data": STANDARD.encode(&ca.certificate),
        }}],
        "contexts": [{"name": context, "context": {"cluster": cluster, "user": user}}],
        "current-context": context,
        "users": [{"name": user, "user": {
            "client-certificate-data": STANDARD.encode(&client.certificate),
            "client-key-data": STANDARD.encode(&client.key),
        }}],
    });
    serde_saphyr::to_string(&tree).map_err(|error| CertificateError::Generation(error.to_string()))
}
