//! TLS to an etcd member.

use rustls::ClientConfig;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;

use super::EtcdCredentials;
use crate::authority::{self, certificates};

/// Returns the TLS settings for a client certificate and an authority.
///
/// # Errors
/// A part of the credentials is not the PEM that it should be.
pub(super) fn client_config(credentials: &EtcdCredentials) -> Result<ClientConfig, String> {
    let chain = certificates(&credentials.certificate, "etcd client certificate")?;
    let key = PrivateKeyDer::from_pem_slice(&credentials.key)
        .map_err(|error| format!("the key of the etcd client certificate is not PEM: {error}"))?;
    let mut config = authority::verified_by(&credentials.ca, "etcd CA certificate")?
        .with_client_auth_cert(chain, key)
        .map_err(|error| format!("the etcd client certificate cannot be used: {error}"))?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}
