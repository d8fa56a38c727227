//! Serving certificate of the API server on a control plane Node.

use std::sync::Arc;
use std::time::Duration;

use controllers_infrastructure::without_present_time;
use kube::Client;
use rustls::pki_types::ServerName;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::WorkloadError;
use crate::authority;
use crate::forward::Forwarded;

/// Longest duration of the forwarding and the TLS handshake, as upstream has it.
const HANDSHAKE: Duration = Duration::from_secs(15);

/// Returns the certificates that the API server of a Node presents, in DER, its own first. `ca` is the authority of the
/// cluster in PEM; `port` is the port on which the API server of this Node listens.
///
/// # Errors
/// The Pod of the API server cannot be reached, or another authority has signed its certificate.
pub async fn api_server_certificates(
    client: &Client,
    node: &str,
    port: u16,
    ca: &[u8],
) -> Result<Vec<Vec<u8>>, WorkloadError> {
    let shaken = timeout(HANDSHAKE, handshake(client, node, port, ca)).await;
    let late =
        |_| format!("no TLS handshake with the API server of Node {node} in {} s", HANDSHAKE.as_secs());
    shaken.map_err(late).flatten().map_err(WorkloadError::Request)
}

async fn handshake(client: &Client, node: &str, port: u16, ca: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let config = authority::verified_by(ca, "cluster CA certificate")?.with_no_client_auth();
    let stream = Forwarded::open(client, &format!("kube-apiserver-{node}"), port).await?;
    // The name is not verified, but TLS wants one.
    let name = ServerName::try_from("kubernetes").map_err(|error| error.to_string())?;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    let stream = stream.map_err(|error| {
        let cause = without_present_time(error.to_string());
        format!("TLS handshake with the API server of Node {node} failed: {cause}")
    })?;
    let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
    Ok(certificates.iter().map(|it| it.to_vec()).collect())
}
