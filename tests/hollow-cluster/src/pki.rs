//! Certificates of a cluster: reading the files of a node, and signing a serving certificate.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{RootCertStore, ServerConfig};
use x509_parser::prelude::{FromDer, X509Certificate};

/// Certificate of a server with its key.
pub(crate) type Serving = (CertificateDer<'static>, PrivateKeyDer<'static>);

/// A certificate authority with its key.
#[derive(Debug)]
pub(crate) struct Authority {
    /// Bundle in PEM format, as it is in the file.
    pub(crate) pem: String,
    /// Key in PEM format, as it is in the file.
    pub(crate) key: String,
    /// Certificates of the bundle.
    pub(crate) certificates: Vec<CertificateDer<'static>>,
    /// Public key information of the first certificate, in DER format.
    pub(crate) public_key: Vec<u8>,
    issuer: Issuer<'static, KeyPair>,
}

/// Returns the label of the first block of a PEM file.
fn label(pem: &str) -> Option<&str> {
    let (_, rest) = pem.split_once("-----BEGIN ")?;
    rest.split_once("-----").map(|(label, _)| label)
}

/// Reads a private key in one of the formats that kubeadm writes: PKCS#1 for RSA, SEC1 for ECDSA.
pub(crate) fn private_key(pem: &str) -> Result<KeyPair, String> {
    match label(pem) {
        Some("RSA PRIVATE KEY" | "EC PRIVATE KEY") => {
            KeyPair::from_pem(pem).map_err(|error| format!("the private key cannot be parsed: {error}"))
        }
        Some(other) => {
            Err(format!("the PEM block has type {other:?}, not a private key in PKCS#1 or SEC1 format"))
        }
        None => Err("data doesn't contain a valid RSA or ECDSA private key".to_owned()),
    }
}

/// Returns the certificates of a PEM file.
pub(crate) fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let found = CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<Vec<_>, _>>();
    let found = found.map_err(|error| format!("the certificate cannot be parsed: {error}"))?;
    if found.is_empty() { Err("data does not contain any valid certificates".to_owned()) } else { Ok(found) }
}

/// Returns the public key information of a certificate in DER format.
pub(crate) fn public_key_of(certificate: &[u8]) -> Result<Vec<u8>, String> {
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|error| error.to_string())?;
    Ok(parsed.public_key().raw.to_vec())
}

/// Returns an error unless the certificate is that of an authority and valid now.
fn check_authority(certificate: &[u8]) -> Result<(), String> {
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|error| error.to_string())?;
    if !parsed.is_ca() {
        return Err("the certificate is not a certificate authority".to_owned());
    }
    if !parsed.validity().is_valid() {
        return Err(format!(
            "the certificate is not valid now: not before {}, not after {}",
            parsed.validity().not_before,
            parsed.validity().not_after
        ));
    }
    Ok(())
}

/// Returns `sha256:<hex>` over public key information, as kubeadm pins it.
pub(crate) fn pin(public_key: &[u8]) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, public_key);
    let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

impl Authority {
    /// Reads an authority from the files of a node. The key must be that of the first certificate.
    pub(crate) fn read(certificate: &str, key: &str) -> Result<Self, String> {
        let certificates = certificates(certificate)?;
        let first = certificates.first().ok_or("no certificate")?;
        check_authority(first)?;
        let public_key = public_key_of(first)?;
        let pair = private_key(key)?;
        if rcgen::PublicKeyData::subject_public_key_info(&pair) != public_key {
            return Err("the certificate and the key do not match".to_owned());
        }
        let issuer = Issuer::from_ca_cert_der(first, pair).map_err(|error| error.to_string())?;
        Ok(Self { pem: certificate.to_owned(), key: key.to_owned(), certificates, public_key, issuer })
    }

    /// Returns the pins of all certificates of the bundle.
    pub(crate) fn pins(&self) -> Vec<String> {
        self.certificates.iter().filter_map(|der| public_key_of(der).ok()).map(|key| pin(&key)).collect()
    }

    /// Returns the certificates as roots.
    pub(crate) fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(self.certificates.iter().cloned());
        roots
    }

    /// Signs a serving certificate for these names, and returns it with its key.
    pub(crate) fn serving(&self, common_name: &str, names: Vec<String>) -> Result<Serving, String> {
        signed(&self.issuer, common_name, named(names)?)
    }

    /// Signs a certificate of a user in a group, and returns it with its key.
    pub(crate) fn client(&self, user: &str, group: &str) -> Result<Serving, String> {
        let mut params = CertificateParams::new(Vec::new()).map_err(|error| error.to_string())?;
        params.distinguished_name.push(DnType::OrganizationName, group);
        signed(&self.issuer, user, params)
    }

    /// Signs a serving certificate that expired yesterday.
    pub(crate) fn expired_serving(&self, common_name: &str, names: Vec<String>) -> Result<Serving, String> {
        let mut params = named(names)?;
        if let Some(yesterday) = SystemTime::now().checked_sub(Duration::from_hours(24)) {
            params.not_after = yesterday.into();
        }
        signed(&self.issuer, common_name, params)
    }
}

/// Returns a block in PEM format.
pub(crate) fn pem(label: &str, der: &[u8]) -> String {
    let encoded = STANDARD.encode(der);
    let lines: Vec<&str> =
        encoded.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

/// Returns a text as a kubeconfig has it.
pub(crate) fn base64(text: &str) -> String {
    STANDARD.encode(text)
}

/// Signs a serving certificate by an authority that is made for it.
pub(crate) fn foreign_serving(common_name: &str, names: Vec<String>) -> Result<Serving, String> {
    let key = KeyPair::generate().map_err(|error| error.to_string())?;
    let mut params = CertificateParams::new(Vec::new()).map_err(|error| error.to_string())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "another authority");
    signed(&Issuer::new(params, key), common_name, named(names)?)
}

fn named(names: Vec<String>) -> Result<CertificateParams, String> {
    CertificateParams::new(names).map_err(|error| error.to_string())
}

/// Signs a certificate, and returns it with its key.
fn signed(
    issuer: &Issuer<'_, KeyPair>,
    common_name: &str,
    mut params: CertificateParams,
) -> Result<Serving, String> {
    let key = KeyPair::generate().map_err(|error| error.to_string())?;
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let signed = params.signed_by(&key, issuer).map_err(|error| error.to_string())?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    Ok((signed.der().clone(), key))
}

/// Returns the only crypto provider of the workspace.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// Returns the TLS settings of a server.
pub(crate) fn server_config(
    verifier: Arc<dyn rustls::server::danger::ClientCertVerifier>,
    serving: (CertificateDer<'static>, PrivateKeyDer<'static>),
    protocols: &[&str],
) -> Result<Arc<ServerConfig>, String> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![serving.0], serving.1)
        .map_err(|error| error.to_string())?;
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    Ok(Arc::new(config))
}
