//! Peer of a connection, identified by its TLS client certificate.
//!
//! Three pools of CAs are kept apart: one signs the certificates of users and programs, one those of the front proxy, and
//! one those of users of the host cluster. With one trust set for all, any client certificate could pose as the front proxy.
//! For the same reason a CA key in the pool of front proxies and in another one signs front proxies only.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use aws_lc_rs::digest::{SHA256, digest};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use x509_parser::prelude::{CertificateRevocationList, FromDer, X509Certificate};

use crate::authenticator::{LastReport, RequestHeaders};
use crate::revocation::RevocableCertificate;
use crate::user::{MASTERS, User};

/// Error of a pool.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// A certificate in it cannot be used.
    #[error("a CA certificate cannot be used: {0}")]
    Certificate(String),
    /// A list of revoked certificates cannot be used.
    #[error("a certificate revocation list cannot be used: {0}")]
    RevocationList(String),
}

/// Pools of client CAs.
#[derive(Debug, Clone, Default)]
pub struct CertificatePools {
    client: Option<Arc<dyn ClientCertVerifier>>,
    request_header: Option<Arc<dyn ClientCertVerifier>>,
    host: Option<Arc<dyn ClientCertVerifier>>,
    /// CAs of the request-header pool whose key is in another pool, too.
    shared: Option<Arc<dyn ClientCertVerifier>>,
    shared_names: Vec<String>,
    /// Headers of the front proxies whose CAs are in the request-header pool.
    headers: Arc<RequestHeaders>,
}

impl CertificatePools {
    /// Creates pools of these CA certificates. An empty list trusts no certificate.
    ///
    /// # Errors
    /// [`PoolError`] if a certificate is not a CA certificate.
    pub fn new(
        client: &[CertificateDer<'static>],
        request_header: &[CertificateDer<'static>],
    ) -> Result<Self, PoolError> {
        Self::with_host(client, request_header, &[])
    }

    /// Creates pools with the CAs that sign the certificates of the host cluster's users, too.
    ///
    /// # Errors
    /// As [`CertificatePools::new`].
    pub fn with_host(
        client: &[CertificateDer<'static>],
        request_header: &[CertificateDer<'static>],
        host: &[CertificateDer<'static>],
    ) -> Result<Self, PoolError> {
        Self::with_crls(client, request_header, host, &[])
    }

    /// Creates pools that refuse the certificates that a certificate revocation list names. A list applies to the CA that
    /// has signed it, also after its next update is due. A CA without a list revokes nothing.
    ///
    /// # Errors
    /// As [`CertificatePools::new`], and [`PoolError`] if a list cannot be read, or if two lists are of the same name of a
    /// CA.
    pub fn with_crls(
        client: &[CertificateDer<'static>],
        request_header: &[CertificateDer<'static>],
        host: &[CertificateDer<'static>],
        crls: &[CertificateRevocationListDer<'static>],
    ) -> Result<Self, PoolError> {
        check_issuers(crls)?;
        let front_proxy_keys = keys(request_header)?;
        let user_keys = &keys(client)? | &keys(host)?;
        let (mut shared, mut shared_names) = (Vec::new(), Vec::new());
        let mut without_shared = |pool: &[CertificateDer<'static>]| -> Result<Vec<_>, PoolError> {
            let mut others = Vec::new();
            for ca in pool {
                let read = read(ca)?;
                if front_proxy_keys.contains(&key(&read)) {
                    shared_names.push(read.subject().to_string());
                } else {
                    others.push(ca.clone());
                }
            }
            Ok(others)
        };
        let client = verifier(&without_shared(client)?, crls)?;
        let host = verifier(&without_shared(host)?, crls)?;
        for ca in request_header {
            if user_keys.contains(&key(&read(ca)?)) {
                shared.push(ca.clone());
            }
        }
        // A certificate of a shared CA stays recognizable as one.
        let (request_header, shared) = (verifier(request_header, crls)?, verifier(&shared, &[])?);
        let headers = Arc::default();
        Ok(Self { client, request_header, host, shared, shared_names, headers })
    }

    /// Sets the headers in which the front proxies of the request-header pool name users, and the names that their
    /// certificates may have. Default: the usual headers, and any name.
    #[must_use]
    pub fn with_request_headers(self, headers: RequestHeaders) -> Self {
        Self { headers: Arc::new(headers), ..self }
    }

    /// Returns the subjects of the CAs of users whose key is in the request-header pool, too. The other pools do not use
    /// them.
    pub fn shared_names(&self) -> &[String] {
        &self.shared_names
    }

    /// Returns the peer that a certificate chain proves.
    pub fn classify(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Peer {
        let Some((leaf, intermediates)) = chain.split_first() else { return Peer::Unidentified };
        let is_signed_by = |pool: &Option<Arc<dyn ClientCertVerifier>>| {
            pool.as_ref().is_some_and(|pool| pool.verify_client_cert(leaf, intermediates, now).is_ok())
        };
        let (client, request_header) = (is_signed_by(&self.client), is_signed_by(&self.request_header));
        let host = is_signed_by(&self.host);
        if !client && !request_header && !host {
            return Peer::Untrusted;
        }
        // Such a client has shown a credential that names no user, so it is not anonymous.
        let Some(identity) = PeerIdentity::read(leaf) else { return Peer::Untrusted };
        Peer::Known(Box::new(PeerIdentity {
            is_client: client && !request_header,
            is_front_proxy: request_header,
            is_of_host: host && !client && !request_header,
            has_shared_ca: request_header && (client || host || is_signed_by(&self.shared)),
            headers: request_header.then(|| Arc::clone(&self.headers)),
            ..identity
        }))
    }
}

/// Peer of a connection, by the certificate that it has shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Peer {
    /// Peer without a certificate.
    #[default]
    Unidentified,
    /// Peer with a certificate of an unknown CA, an expired one, one for another use, or one without a readable common
    /// name, or one that is revoked. Other credentials may still be valid.
    Untrusted,
    /// Peer with a certificate that was valid when the connection was opened, and is not valid any more.
    Lapsed,
    /// Peer with a valid certificate.
    Known(Box<PeerIdentity>),
}

impl Peer {
    /// Returns the identity of a valid certificate.
    pub fn identity(&self) -> Option<&PeerIdentity> {
        match self {
            Self::Known(identity) => Some(identity),
            Self::Unidentified | Self::Untrusted | Self::Lapsed => None,
        }
    }

    /// Returns true if the certificate is a front proxy's.
    pub fn is_front_proxy(&self) -> bool {
        self.identity().is_some_and(|peer| peer.is_front_proxy)
    }

    /// Returns true if the certificate was valid earlier on this connection, and is not any more.
    pub fn is_lapsed(&self) -> bool {
        matches!(self, Self::Lapsed)
    }

    /// Returns true if a certificate was shown that is not valid.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(self, Self::Untrusted | Self::Lapsed)
    }
}

/// Public key of a CA, with its algorithm (SPKI).
type Key = Vec<u8>;

fn read<'a>(ca: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, PoolError> {
    X509Certificate::from_der(ca)
        .map(|(_, read)| read)
        .map_err(|error| PoolError::Certificate(error.to_string()))
}

fn key(ca: &X509Certificate<'_>) -> Key {
    ca.public_key().raw.to_vec()
}

fn keys(pool: &[CertificateDer<'static>]) -> Result<BTreeSet<Key>, PoolError> {
    pool.iter().map(|ca| read(ca).map(|read| key(&read))).collect()
}

/// Checks that no name of a CA has two lists: the verifier would use the first one, and ignore the other.
fn check_issuers(crls: &[CertificateRevocationListDer<'static>]) -> Result<(), PoolError> {
    let mut issuers = BTreeSet::new();
    for crl in crls {
        let (_, list) = CertificateRevocationList::from_der(crl)
            .map_err(|error| PoolError::RevocationList(error.to_string()))?;
        if !issuers.insert(list.issuer().as_raw().to_vec()) {
            let why = format!("there are two lists of {}, of which only one could apply", list.issuer());
            return Err(PoolError::RevocationList(why));
        }
    }
    Ok(())
}

fn verifier(
    roots: &[CertificateDer<'static>],
    crls: &[CertificateRevocationListDer<'static>],
) -> Result<Option<Arc<dyn ClientCertVerifier>>, PoolError> {
    if roots.is_empty() {
        return Ok(None);
    }
    let mut store = RootCertStore::empty();
    for root in roots {
        store.add(root.clone()).map_err(|error| PoolError::Certificate(error.to_string()))?;
    }
    let builder = WebPkiClientVerifier::builder(Arc::new(store)).with_crls(crls.iter().cloned());
    // Only the lists can be wrong: there are roots.
    let verifier = builder.allow_unknown_revocation_status().build();
    verifier.map(Some).map_err(|error| PoolError::RevocationList(error.to_string()))
}

/// Content of the object identifier of a description: 2.5.4.13.
const DESCRIPTION: &[u8] = &[0x55, 0x04, 0x0d];

/// Content of the object identifier of a user's uid: 1.3.6.1.4.1.57683.2, as upstream has it.
const UID: &[u8] = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0x83, 0xc2, 0x53, 0x02];

/// Begin of the common names of the server's own CAs of machines, before their number.
const MACHINE_CA: &str = "capstan-machine-ca-";

/// Identity of a verified client certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerIdentity {
    /// Subject CN.
    pub common_name: String,
    /// Subject O, each a group.
    pub organizations: Vec<String>,
    /// SHA-256 of the certificate in lower-case hex.
    pub fingerprint: String,
    /// CN of the issuer; empty if it is unreadable.
    pub issuer: String,
    /// Serial number in lower-case hex, without leading zeros.
    pub serial_number: String,
    /// Description in the subject: the reason of a certificate for emergencies.
    pub description: Option<Box<str>>,
    /// Uid in the subject, which the certificate of a machine has.
    pub uid: Option<Box<str>>,
    /// Begin of the validity. Unit: seconds since 1970.
    pub not_before: i64,
    /// Expiry. Unit: seconds since 1970.
    pub not_after: i64,
    /// Set if a CA of the client pool has signed it, and none of the request-header pool.
    pub is_client: bool,
    /// Set if a CA of the request-header pool has signed it.
    pub is_front_proxy: bool,
    /// Set if a CA of the host cluster's users has signed it, and none of another pool.
    pub is_of_host: bool,
    /// Set for a front proxy's certificate that is a client's certificate, too: its CA is in both pools.
    pub has_shared_ca: bool,
    /// Set while the revocations have not been read: the certificate may be a revoked one.
    pub may_be_revoked: bool,
    /// Headers in which this front proxy names users: those of the pools that have verified its certificate.
    pub(crate) headers: Option<Arc<RequestHeaders>>,
    /// User of the client certificate, once a request has needed it: all requests of a connection have the same one.
    pub(crate) user: OnceLock<Arc<User>>,
    /// Last report of its use.
    pub(crate) last_report: LastReport,
}

impl PeerIdentity {
    /// Returns the reason of a certificate for emergencies: one whose user may do everything, and that says why.
    pub fn break_glass_reason(&self) -> Option<&str> {
        let is_master = self.organizations.iter().any(|group| group == MASTERS);
        self.description.as_deref().filter(|_| is_master && !self.is_of_host)
    }

    /// Returns true for a certificate of a CA of machines.
    pub(crate) fn is_machine(&self) -> bool {
        !self.is_of_host && self.issuer.starts_with(MACHINE_CA)
    }

    /// Returns the certificate as revocations name it.
    pub(crate) fn certificate(&self) -> RevocableCertificate<'_> {
        RevocableCertificate {
            fingerprint: &self.fingerprint,
            issuer: &self.issuer,
            serial_number: &self.serial_number,
            not_before: self.not_before,
            user: &self.common_name,
            groups: &self.organizations,
        }
    }

    /// Returns the identity in a certificate, which nothing has verified; `None` if it has no readable name.
    pub fn read(leaf: &CertificateDer<'_>) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(leaf).ok()?;
        let subject = certificate.subject();
        let common_name = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
        if common_name.is_empty() {
            return None;
        }
        let organizations =
            subject.iter_organization().filter_map(|name| name.as_str().ok()).map(str::to_owned).collect();
        let attribute = |kind: &[u8]| {
            let found = subject.iter_attributes().find(|it| it.attr_type().as_bytes() == kind)?;
            found.as_str().ok().map(Box::from)
        };
        let (description, uid) = (attribute(DESCRIPTION), attribute(UID));
        let hash = digest(&SHA256, leaf);
        let fingerprint = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let issuer = certificate.issuer().iter_common_name().next().and_then(|name| name.as_str().ok());
        let issuer = issuer.unwrap_or_default().to_owned();
        let serial_number = certificate.serial.to_str_radix(16);
        let not_before = certificate.validity().not_before.timestamp();
        let not_after = certificate.validity().not_after.timestamp();
        let (user, last_report) = (OnceLock::new(), LastReport::default());
        let (is_client, is_front_proxy, is_of_host, has_shared_ca) = (false, false, false, false);
        Some(Self {
            common_name,
            organizations,
            fingerprint,
            issuer,
            serial_number,
            description,
            uid,
            not_before,
            not_after,
            is_client,
            is_front_proxy,
            is_of_host,
            has_shared_ca,
            may_be_revoked: false,
            headers: None,
            user,
            last_report,
        })
    }
}
