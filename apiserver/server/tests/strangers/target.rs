//! Target of the strangers: connections to a server without credentials that it knows.

use std::path::Path;
use std::sync::Arc;

use rcgen::{CertificateParams, DnType, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Number of names in a huge certificate, which then has about 40 KiB.
const NAMES: usize = 1200;

/// Server, and the ways to connect to it.
pub(crate) struct Target {
    pub(crate) port: u16,
    http1: Arc<ClientConfig>,
    http2: Arc<ClientConfig>,
    /// One huge certificate, and a chain that is larger than a message of TLS.
    huge: [Arc<ClientConfig>; 2],
}

/// Protocol or certificate of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Http1,
    Http2,
    HugeCertificate,
    HugeChain,
}

impl Target {
    pub(crate) fn new(port: u16, data: &Path) -> Self {
        let ca = std::fs::read(data.join("pki/ca.crt")).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&ca).unwrap()).unwrap();
        let of = |chain: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>, protocol: &[u8]| {
            let config = ClientConfig::builder().with_root_certificates(roots.clone());
            let mut config = match chain {
                Some((chain, key)) => config.with_client_auth_cert(chain, key).unwrap(),
                None => config.with_no_client_auth(),
            };
            config.alpn_protocols = vec![protocol.to_vec()];
            Arc::new(config)
        };
        let huge = [1, 3].map(|copies| of(Some(huge(copies)), b"http/1.1"));
        Self { port, http1: of(None, b"http/1.1"), http2: of(None, b"h2"), huge }
    }

    pub(crate) async fn tcp(&self) -> Option<TcpStream> {
        TcpStream::connect(("127.0.0.1", self.port)).await.ok()
    }

    pub(crate) async fn tls(&self, kind: Kind) -> Option<TlsStream<TcpStream>> {
        let config = match kind {
            Kind::Http1 => &self.http1,
            Kind::Http2 => &self.http2,
            Kind::HugeCertificate => &self.huge[0],
            Kind::HugeChain => &self.huge[1],
        };
        let name = ServerName::try_from("127.0.0.1").unwrap();
        TlsConnector::from(Arc::clone(config)).connect(name, self.tcp().await?).await.ok()
    }
}

/// Returns a chain of copies of a self-signed certificate with many names.
fn huge(copies: usize) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let names: Vec<String> = (0..NAMES).map(|number| format!("name-{number}.example.with.labels")).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name.push(DnType::CommonName, "root");
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap().der().clone();
    assert!(certificate.len() > 32 * 1024, "{}", certificate.len());
    (vec![certificate; copies], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
}
