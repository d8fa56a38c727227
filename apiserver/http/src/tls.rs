//! Server certificates and client CAs, replaceable while serving.

use std::sync::Arc;

use apiserver_access::CertificatePools;
use arc_swap::ArcSwap;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

/// What TLS is served with.
#[derive(Debug)]
pub struct TlsMaterial {
    /// The serving certificate and its chain.
    pub chain: Vec<CertificateDer<'static>>,
    /// Its key.
    pub key: PrivateKeyDer<'static>,
    /// CAs of people and programs.
    pub client_cas: Vec<CertificateDer<'static>>,
    /// CAs of front proxies.
    pub request_header_cas: Vec<CertificateDer<'static>>,
}

#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) pools: CertificatePools,
}

/// TLS settings that can change: every new connection takes the newest.
#[derive(Debug)]
pub struct ReloadableTls(ArcSwap<Loaded>);

impl ReloadableTls {
    /// Starts with `material`.
    ///
    /// # Errors
    /// In words, when the key does not fit the certificate or a CA is none.
    pub fn new(material: TlsMaterial) -> Result<Self, String> {
        load(material).map(|loaded| Self(ArcSwap::from_pointee(loaded)))
    }

    /// Replaces the material for connections to come.
    ///
    /// # Errors
    /// As [`ReloadableTls::new`]; the old material then stays.
    pub fn replace(&self, material: TlsMaterial) -> Result<(), String> {
        self.0.store(Arc::new(load(material)?));
        Ok(())
    }

    pub(crate) fn current(&self) -> Arc<Loaded> {
        self.0.load_full()
    }
}

fn load(material: TlsMaterial) -> Result<Loaded, String> {
    let TlsMaterial { chain, key, client_cas, request_header_cas } = material;
    let pools = CertificatePools::new(&client_cas, &request_header_cas).map_err(|error| error.to_string())?;
    // The handshake takes a certificate that either pool vouches for; which one it was is asked
    // again afterwards, of each pool by itself.
    let mut roots = RootCertStore::empty();
    for ca in client_cas.into_iter().chain(request_header_cas) {
        roots.add(ca).map_err(|error| format!("a client CA cannot be used: {error}"))?;
    }
    let builder = ServerConfig::builder();
    let builder = if roots.is_empty() {
        builder.with_no_client_auth()
    } else {
        let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).allow_unauthenticated().build();
        builder.with_client_cert_verifier(verifier.map_err(|error| error.to_string())?)
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|error| error.to_string())?;
    // HTTP/1.1 must stay on offer: upgrades need it.
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Loaded { config: Arc::new(config), pools })
}
