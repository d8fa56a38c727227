//! Contents of the TLS sources, in PEM. Each source is read and checked on its own, so that one that cannot be used does
//! not hold back the others.

use anyhow::Context;
use apiserver_access::{CertificatePools, RequestHeaders};
use apiserver_http::{NamedCertificate, ReloadableTls, TlsMaterial};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};

use crate::config::SniCertificate;
use crate::pki;

/// Contents of all sources.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct PemTexts {
    pub(super) serving: ServingTexts,
    /// CAs of clients and of machines.
    pub(super) client_cas: String,
    /// Certificate revocation lists; empty without a file.
    pub(super) client_crls: String,
    pub(super) front_proxy: FrontProxyTexts,
}

/// Serving certificates with their keys.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct ServingTexts {
    pub(super) chain: String,
    pub(super) key: String,
    pub(super) named: Vec<NamedPemText>,
}

/// Certificate for certain names.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct NamedPemText {
    /// Server names. If empty, the names in the certificate are used.
    names: Vec<String>,
    pub(super) chain: String,
    key: String,
}

/// Front proxy of the host cluster, and the CAs of the host's users.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct FrontProxyTexts {
    /// CAs of the front proxy; empty while they are unknown.
    pub(super) cas: String,
    pub(super) headers: RequestHeaders,
    /// CAs of the host's users; empty if their certificates are not accepted.
    pub(super) host_cas: String,
}

impl NamedPemText {
    pub(super) fn read(configured: &SniCertificate) -> anyhow::Result<Self> {
        let SniCertificate { cert_file, key_file, names } = configured;
        Ok(Self { names: names.clone(), chain: pki::read(cert_file)?, key: pki::read(key_file)? })
    }

    fn material(&self) -> anyhow::Result<NamedCertificate> {
        let chain = pki::certificates(&self.chain, "a certificate in tls.sniCertificates")?;
        let names = if self.names.is_empty() { pki::names(&chain)? } else { self.names.clone() };
        Ok(NamedCertificate { names, chain, key: pki::key(&self.key, "a key in tls.sniCertificates")? })
    }
}

impl ServingTexts {
    /// Checks that each key belongs to its certificate.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let tls = ReloadableTls::new(self.material()?);
        tls.map(drop).map_err(anyhow::Error::msg).context("certificate and key do not match")
    }

    /// Returns material that trusts no client.
    fn material(&self) -> anyhow::Result<TlsMaterial> {
        Ok(TlsMaterial {
            chain: pki::certificates(&self.chain, "the serving certificate")?,
            key: pki::key(&self.key, "the serving key")?,
            named: self.named.iter().map(NamedPemText::material).collect::<Result<_, _>>()?,
            client_cas: Vec::new(),
            request_header_cas: Vec::new(),
            request_headers: RequestHeaders::default(),
            host_cas: Vec::new(),
            crls: Vec::new(),
        })
    }
}

impl FrontProxyTexts {
    /// Checks that all CAs can be used.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        CertificatePools::with_host(&[], &self.cas()?, &self.host_cas()?)?;
        Ok(())
    }

    fn cas(&self) -> anyhow::Result<Vec<CertificateDer<'static>>> {
        certificates(&self.cas, "the host's front-proxy CA")
    }

    fn host_cas(&self) -> anyhow::Result<Vec<CertificateDer<'static>>> {
        certificates(&self.host_cas, "the host's CA for clients")
    }
}

/// Returns the certificates of a text, which may be empty.
fn certificates(pem: &str, what: &str) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    if pem.is_empty() { Ok(Vec::new()) } else { pki::certificates(pem, what) }
}

fn client_cas(pem: &str) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    pki::certificates(pem, "the CA of clients")
}

/// Checks that all CAs of clients can be used.
pub(super) fn check_client_cas(pem: &str) -> anyhow::Result<()> {
    CertificatePools::new(&client_cas(pem)?, &[])?;
    Ok(())
}

/// Returns the certificate revocation lists of a text, which may be empty.
fn client_crls(pem: &str) -> anyhow::Result<Vec<CertificateRevocationListDer<'static>>> {
    if pem.is_empty() { Ok(Vec::new()) } else { pki::revocation_lists(pem, "clientCrlFile") }
}

/// Checks that all certificate revocation lists can be used with the CAs of clients.
pub(super) fn check_client_crls(pem: &str, cas: &str) -> anyhow::Result<()> {
    CertificatePools::with_crls(&client_cas(cas)?, &[], &[], &client_crls(pem)?).context("clientCrlFile")?;
    Ok(())
}

impl PemTexts {
    /// Returns the settings to serve with.
    pub(super) fn material(&self) -> anyhow::Result<TlsMaterial> {
        let of_serving = self.serving.material()?;
        Ok(TlsMaterial {
            client_cas: client_cas(&self.client_cas)?,
            request_header_cas: self.front_proxy.cas()?,
            request_headers: self.front_proxy.headers.clone(),
            host_cas: self.front_proxy.host_cas()?,
            crls: client_crls(&self.client_crls)?,
            ..of_serving
        })
    }
}

/// Returns a source, or its last state if it cannot be used now. The error is then added to `errors`.
pub(super) fn or_last<T: Clone + PartialEq>(
    read: anyhow::Result<T>,
    last: &T,
    check: impl FnOnce(&T) -> anyhow::Result<()>,
    errors: &mut Vec<anyhow::Error>,
) -> T {
    let usable = read.and_then(|read| {
        if read != *last {
            check(&read)?;
        }
        Ok(read)
    });
    usable.unwrap_or_else(|error| {
        errors.push(error);
        last.clone()
    })
}
