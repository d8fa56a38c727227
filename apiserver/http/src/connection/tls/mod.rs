//! Server certificates and client CAs, replaceable while serving.

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

/// Largest record, with its header: half of a frame of HTTP/2 that is full of data. A record is written into memory of its
/// own, and that is to be in a core's cache: of blocks below 10 KiB the allocator gives again the few that were just given
/// back, of larger ones it goes through half a mebibyte. Unit: bytes.
const RECORD: usize = (16 * 1024 + 9_usize).div_ceil(2) + 5;

/// What TLS is served with.
#[derive(Debug)]
pub struct TlsMaterial {
    /// The serving certificate and its chain.
    pub chain: Vec<CertificateDer<'static>>,
    /// Its key.
    pub key: PrivateKeyDer<'static>,
    /// Certificates for clients that ask for a name. Of several for one name the first is shown.
    pub named: Vec<NamedCertificate>,
    /// CAs of people and programs.
    pub client_cas: Vec<CertificateDer<'static>>,
    /// CAs of front proxies.
    pub request_header_cas: Vec<CertificateDer<'static>>,
}

/// A certificate for clients that ask for one of its names.
#[derive(Debug)]
pub struct NamedCertificate {
    /// The names; one may begin with `*.` for any one label.
    pub names: Vec<String>,
    /// The certificate and its chain.
    pub chain: Vec<CertificateDer<'static>>,
    /// Its key.
    pub key: PrivateKeyDer<'static>,
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
    // HTTP/1.1 must stay on offer: upgrades need it.
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
