//! What a TLS client certificate proves.
//!
//! Two pools of CAs are kept apart: one vouches for people and programs, the other for the front
//! proxy. One trust set for both would let anybody's certificate pose as the proxy.

use std::sync::{Arc, OnceLock};

use aws_lc_rs::digest::{SHA256, digest};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::user::User;

/// Why a pool cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("a CA certificate cannot be used: {0}")]
pub struct PoolError(String);

/// The two pools.
#[derive(Debug, Clone, Default)]
pub struct CertificatePools {
    client: Option<Arc<dyn ClientCertVerifier>>,
    request_header: Option<Arc<dyn ClientCertVerifier>>,
}

impl CertificatePools {
    /// Pools of these CA certificates. An empty list trusts nobody.
    ///
    /// # Errors
    /// [`PoolError`] when a certificate is not a CA certificate.
    pub fn new(
        client: &[CertificateDer<'static>],
        request_header: &[CertificateDer<'static>],
    ) -> Result<Self, PoolError> {
        Ok(Self { client: verifier(client)?, request_header: verifier(request_header)? })
    }

    /// What the certificate chain of a connection proves.
    pub fn classify(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Peer {
        let Some((leaf, intermediates)) = chain.split_first() else { return Peer::Nobody };
        let vouched = |pool: &Option<Arc<dyn ClientCertVerifier>>| {
            pool.as_ref().is_some_and(|pool| pool.verify_client_cert(leaf, intermediates, now).is_ok())
        };
        let (client, request_header) = (vouched(&self.client), vouched(&self.request_header));
        if !client && !request_header {
            return Peer::Stranger;
        }
        PeerIdentity::read(leaf, client, request_header).map_or(Peer::Nobody, Peer::Known)
    }
}

/// Who is at the other end of a connection, by the certificate shown there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Peer {
    /// None was shown, or a good one that names nobody.
    #[default]
    Nobody,
    /// One that nobody vouches for: foreign, over, or meant for something else. Other credentials may
    /// still be good.
    Stranger,
    /// One that somebody vouches for.
    Known(PeerIdentity),
}

impl Peer {
    /// What the certificate proves.
    pub fn identity(&self) -> Option<&PeerIdentity> {
        match self {
            Self::Known(identity) => Some(identity),
            Self::Nobody | Self::Stranger => None,
        }
    }

    /// Whether it is a front proxy's.
    pub fn is_front_proxy(&self) -> bool {
        self.identity().is_some_and(|peer| peer.is_front_proxy)
    }

    /// Whether a certificate was shown that makes nobody a client.
    pub(crate) fn is_refused(&self) -> bool {
        match self {
            Self::Nobody => false,
            Self::Stranger => true,
            Self::Known(identity) => !identity.is_client,
        }
    }
}

fn verifier(roots: &[CertificateDer<'static>]) -> Result<Option<Arc<dyn ClientCertVerifier>>, PoolError> {
    if roots.is_empty() {
        return Ok(None);
    }
    let mut store = RootCertStore::empty();
    for root in roots {
        store.add(root.clone()).map_err(|error| PoolError(error.to_string()))?;
    }
    let verifier = WebPkiClientVerifier::builder(Arc::new(store)).build();
    verifier.map(Some).map_err(|error| PoolError(error.to_string()))
}

/// A verified client certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerIdentity {
    /// Subject CN.
    pub common_name: String,
    /// Subject O, each a group.
    pub organizations: Vec<String>,
    /// SHA-256 of the certificate in lower-case hex.
    pub fingerprint: String,
    /// When it is over. Unit: seconds since 1970.
    pub not_after: i64,
    /// The client pool vouches for it.
    pub is_client: bool,
    /// The request-header pool vouches for it.
    pub is_front_proxy: bool,
    /// The user it makes a client, once somebody has asked: all requests of a connection are one user's.
    pub(crate) user: OnceLock<Arc<User>>,
}

impl PeerIdentity {
    fn read(leaf: &CertificateDer<'_>, is_client: bool, is_front_proxy: bool) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(leaf).ok()?;
        let subject = certificate.subject();
        let common_name = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
        let organizations =
            subject.iter_organization().filter_map(|name| name.as_str().ok()).map(str::to_owned).collect();
        let hash = digest(&SHA256, leaf);
        let fingerprint = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let not_after = certificate.validity().not_after.timestamp();
        let user = OnceLock::new();
        Some(Self { common_name, organizations, fingerprint, not_after, is_client, is_front_proxy, user })
    }
}
