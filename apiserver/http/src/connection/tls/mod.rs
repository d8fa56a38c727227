//! TLS: server certificates and client CAs, replaceable while serving.

mod clients;
mod names;

use std::collections::BTreeMap;
use std::sync::Arc;

use apiserver_access::CertificatePools;
use arc_swap::ArcSwap;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{ConfigBuilder, RootCertStore, ServerConfig, WantsVerifier};

use clients::AnyCertificate;
use names::ByName;

/// Largest record, with its header: half of a full HTTP/2 data frame. A record is written into a buffer of its own,
/// which should be in a core's cache. The allocator reuses the latest blocks below 10 KiB; for larger ones it cycles
/// through 512 KiB. Unit: bytes.
const RECORD: usize = (16 * 1024 + 9_usize).div_ceil(2) + 5;

/// Certificates and CAs that TLS is served with.
#[derive(Debug)]
pub struct TlsMaterial {
    /// Serving certificate and its chain.
    pub chain: Vec<CertificateDer<'static>>,
    /// Its key.
    pub key: PrivateKeyDer<'static>,
    /// Certificates for clients that send a server name. The first of several for one name is used.
    pub named: Vec<NamedCertificate>,
    /// CAs of users and programs.
    pub client_cas: Vec<CertificateDer<'static>>,
    /// CAs of front proxies.
    pub request_header_cas: Vec<CertificateDer<'static>>,
}

/// Certificate for clients that send one of its names as the server name.
#[derive(Debug)]
pub struct NamedCertificate {
    /// Names; one may begin with `*.` for any one label.
    pub names: Vec<String>,
    /// Certificate and its chain.
    pub chain: Vec<CertificateDer<'static>>,
    /// Its key.
    pub key: PrivateKeyDer<'static>,
}

#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) pools: CertificatePools,
}

/// TLS settings that can be replaced: every new connection takes the newest.
#[derive(Debug)]
pub struct ReloadableTls(ArcSwap<Loaded>);

impl ReloadableTls {
    /// Creates settings of `material`.
    ///
    /// # Errors
    /// A text, if the key does not fit the certificate or a CA certificate is invalid.
    pub fn new(material: TlsMaterial) -> Result<Self, String> {
        load(material).map(|loaded| Self(ArcSwap::from_pointee(loaded)))
    }

    /// Replaces the material for new connections.
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
    let TlsMaterial { chain, key, named, client_cas, request_header_cas } = material;
    let pools = CertificatePools::new(&client_cas, &request_header_cas).map_err(|error| error.to_string())?;
    let mut roots = RootCertStore::empty();
    for ca in client_cas.into_iter().chain(request_header_cas) {
        roots.add(ca).map_err(|error| format!("a client CA cannot be used: {error}"))?;
    }
    let builder = ServerConfig::builder();
    let certificates = certificates(&builder, chain, key, named)?;
    let builder = if roots.is_empty() {
        builder.with_no_client_auth()
    } else {
        builder.with_client_cert_verifier(AnyCertificate::verifier(&roots))
    };
    let mut config = builder.with_cert_resolver(Arc::new(certificates));
    // Upgrades need HTTP/1.1.
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.max_fragment_size = Some(RECORD);
    Ok(Loaded { config: Arc::new(config), pools })
}

fn certificates(
    builder: &ConfigBuilder<ServerConfig, WantsVerifier>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    named: Vec<NamedCertificate>,
) -> Result<ByName, String> {
    let certified = |chain, key| CertifiedKey::from_der(chain, key, builder.crypto_provider()).map(Arc::new);
    let default = certified(chain, key).map_err(|error| error.to_string())?;
    let mut by_name = BTreeMap::new();
    for NamedCertificate { names, chain, key } in named {
        let certified = certified(chain, key)
            .map_err(|error| format!("the certificate for {}: {error}", names.join(", ")))?;
        for name in names {
            by_name.entry(name.to_ascii_lowercase()).or_insert_with(|| Arc::clone(&certified));
        }
    }
    Ok(ByName { named: by_name, default })
}
