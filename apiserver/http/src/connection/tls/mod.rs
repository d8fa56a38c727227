//! TLS: server certificates and client CAs, replaceable while serving.

mod clients;
mod names;

use std::collections::BTreeMap;
use std::sync::Arc;

use apiserver_access::{CLOCK, CertificatePools, Clock, ReloadablePools, RequestHeaders, Revocations};
use arc_swap::ArcSwap;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, UnixTime};
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
    /// Headers of these front proxies. They are replaced in one step with the CAs.
    pub request_headers: RequestHeaders,
    /// CAs of the host cluster's users.
    pub host_cas: Vec<CertificateDer<'static>>,
    /// Lists of the certificates that CAs have revoked.
    pub crls: Vec<CertificateRevocationListDer<'static>>,
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

/// TLS settings that can be replaced. Every new connection takes the newest, and every request is verified against the
/// newest client CAs.
#[derive(Debug)]
pub struct ReloadableTls {
    config: ArcSwap<ServerConfig>,
    pools: Arc<ReloadablePools>,
}

impl ReloadableTls {
    /// Creates settings of `material`. Client certificates are verified at the [corrected](CLOCK) time of now.
    ///
    /// # Errors
    /// A text, if the key does not fit the certificate or a CA certificate is invalid.
    pub fn new(material: TlsMaterial) -> Result<Self, String> {
        Self::with_clock(material, Arc::new(|| UnixTime::since_unix_epoch(CLOCK.time())))
    }

    /// Creates settings that verify client certificates at the time of `clock`.
    ///
    /// # Errors
    /// As [`ReloadableTls::new`].
    pub fn with_clock(material: TlsMaterial, clock: Clock) -> Result<Self, String> {
        let (config, pools) = load(material)?;
        let pools = Arc::new(ReloadablePools::new(pools, clock));
        Ok(Self { config: ArcSwap::from_pointee(config), pools })
    }

    /// Replaces the certificates for new connections, and the client CAs and headers for the next request of every
    /// connection.
    ///
    /// # Errors
    /// As [`ReloadableTls::new`]; the old material then stays.
    pub fn replace(&self, material: TlsMaterial) -> Result<(), String> {
        let (config, pools) = load(material)?;
        self.config.store(Arc::new(config));
        self.pools.replace(pools);
        Ok(())
    }

    /// Replaces the revocations of client certificates, for the next request of every connection.
    pub fn revoke(&self, revocations: Revocations) {
        self.pools.revoke(revocations);
    }

    /// Returns true once [`ReloadableTls::revoke`] has been called. Until then, requests with a client certificate that
    /// need more than health and documents get 503.
    pub fn has_revocations(&self) -> bool {
        self.pools.has_revocations()
    }

    /// Returns the subjects of the client CAs that are not used, because their key is one of the front proxies' CAs, too.
    pub fn shared_cas(&self) -> Vec<String> {
        self.pools.current().shared_names().to_vec()
    }

    /// Returns the settings for a new connection.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        self.config.load_full()
    }

    /// Returns the pools that verify client certificates.
    pub(crate) fn pools(&self) -> Arc<ReloadablePools> {
        Arc::clone(&self.pools)
    }
}

fn load(material: TlsMaterial) -> Result<(ServerConfig, CertificatePools), String> {
    let TlsMaterial { chain, key, named, client_cas, request_header_cas, request_headers, host_cas, crls } =
        material;
    let pools = CertificatePools::with_crls(&client_cas, &request_header_cas, &host_cas, &crls);
    let pools = pools.map_err(|error| error.to_string())?.with_request_headers(request_headers);
    let mut roots = RootCertStore::empty();
    for ca in client_cas.into_iter().chain(request_header_cas).chain(host_cas) {
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
    Ok((config, pools))
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
