//! Certificates that the server creates: a CA, a serving certificate and client certificates.

mod files;
mod pem;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DnType, ExtendedKeyUsagePurpose,
    IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKeyData,
};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use crate::subject;

pub(crate) use files::{if_missing, private_directory, read, unreadable, write_private};
pub(crate) use pem::{certificates, key, names, revocation_lists, valid_certificates};

/// Lifetime of the CA, far longer than that of the certificates that it signs. A new CA requires a new kubeconfig for
/// every user.
const CA_LIFETIME: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Lifetime of the serving certificate. The server checks it as often as the TLS files, so any much longer time works.
const SERVING_LIFETIME: Duration = Duration::from_secs(90 * 86_400);

/// Remaining lifetime below which the serving certificate is renewed.
const RENEW_BEFORE: Duration = Duration::from_secs(30 * 86_400);

/// Time before its creation from which a certificate is valid, because clocks differ.
const SKEW: Duration = Duration::from_secs(5 * 60);

/// Object identifier of a subject's description, in which a certificate for emergencies has its reason.
const DESCRIPTION: [u64; 4] = [2, 5, 4, 13];

/// Object identifier of a user's uid, as upstream has it.
pub(crate) const UID: [u64; 8] = [1, 3, 6, 1, 4, 1, 57683, 2];

/// Certificate authority in a data directory.
pub(crate) struct Authority {
    directory: PathBuf,
    certificate_pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, in PEM.
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    /// Reports whether a data directory has neither a CA certificate nor a CA key.
    pub(crate) fn is_missing(data: &Path) -> bool {
        let directory = data.join("pki");
        !directory.join("ca.crt").exists() && !directory.join("ca.key").exists()
    }

    /// Opens the CA in `<data>/pki`, and creates it if there is none.
    pub(crate) fn open(data: &Path) -> anyhow::Result<Self> {
        Self::open_named(data, "capstan-ca")
    }

    /// Opens the CA in `<data>/pki`, and creates it with this name if there is none.
    pub(crate) fn open_named(data: &Path, name: &str) -> anyhow::Result<Self> {
        if Self::is_missing(data) {
            let (certificate, key) = new_authority(name)?;
            Self::save(data, &certificate, &key)?;
        }
        Self::read(data)
    }

    /// Writes a new CA to the files of a data directory.
    pub(crate) fn save(data: &Path, certificate: &str, key: &str) -> anyhow::Result<()> {
        let directory = data.join("pki");
        private_directory(&directory)?;
        // The key is written first: a certificate alone would look like a CA that lost its key.
        write_private(&directory.join("ca.key"), key)?;
        write_private(&directory.join("ca.crt"), certificate)
    }

    /// Opens an existing CA.
    pub(crate) fn read(data: &Path) -> anyhow::Result<Self> {
        Self::read_named(data, "ca")
    }

    /// Opens the CA in the files of this name, without their endings.
    pub(crate) fn read_named(data: &Path, name: &str) -> anyhow::Result<Self> {
        let directory = data.join("pki");
        let certificate = directory.join(format!("{name}.crt"));
        let text = read(&certificate)?;
        let key = read(&directory.join(format!("{name}.key")))?;
        Self::from_pem(data, &text, &key).with_context(|| format!("{}", certificate.display()))
    }

    /// Opens a CA from its certificate and its key. Files of it are in `<data>/pki`. If there are several certificates, the
    /// key belongs to the first one.
    pub(crate) fn from_pem(data: &Path, certificate: &str, key: &str) -> anyhow::Result<Self> {
        // The error of the decoder may quote the key.
        let key =
            KeyPair::from_pem(key).map_err(|_| anyhow::anyhow!("the key is not a private key in PEM"))?;
        let found = certificates(certificate, "the certificate")?;
        let first = found.first().context("there is no certificate")?;
        let (_, parsed) = X509Certificate::from_der(first).context("not an X.509 certificate")?;
        if parsed.public_key().raw != key.subject_public_key_info() {
            bail!(
                "the key does not belong to the certificate. If the CA was rotated, give --config with storage.etcd, or \
                 the data directory of the server"
            );
        }
        let issuer = Issuer::from_ca_cert_pem(certificate, key).context("not a CA certificate in PEM")?;
        Ok(Self { directory: data.join("pki"), certificate_pem: certificate.to_owned(), issuer })
    }

    /// Creates a CA in memory, for a server that cannot read its own one yet. No client trusts it.
    pub(crate) fn temporary(data: &Path) -> anyhow::Result<Self> {
        let (certificate, key) = new_authority("capstan-temporary-ca")?;
        Self::from_pem(data, &certificate, &key)
    }

    /// Returns the CA's certificate, in PEM.
    pub(crate) fn certificate(&self) -> &str {
        &self.certificate_pem
    }

    /// Returns the serving certificate for these names. Creates a new one if it expires soon or if the names changed.
    pub(crate) fn serving(&self, names: &[String]) -> anyhow::Result<Pair> {
        let (certificate, key) = (self.directory.join("server.crt"), self.directory.join("server.key"));
        if certificate.exists() && key.exists() {
            let pair = Pair { certificate: read(&certificate)?, key: read(&key)? };
            let is_own = || names.first().is_none_or(|name| self.has_signed(&pair.certificate, name));
            if is_current(&pair.certificate, names) && is_own() {
                return Ok(pair);
            }
        }
        let mut params = CertificateParams::new(names.to_vec())
            .context("cannot create the serving certificate: a server name is invalid")?;
        params.distinguished_name.push(DnType::CommonName, "capstan");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let pair = self.sign(params, SERVING_LIFETIME)?;
        private_directory(&self.directory)?;
        write_private(&key, &pair.key)?;
        write_private(&certificate, &pair.certificate)?;
        Ok(pair)
    }

    /// Reports whether this CA has signed the serving certificate for a name. Two CAs may have the same subject, so the
    /// signature is checked.
    fn has_signed(&self, pem: &str, name: &str) -> bool {
        let parse = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes());
        let (Ok(leaf), Ok(ca), Ok(name)) =
            (parse(pem), parse(&self.certificate_pem), ServerName::try_from(name))
        else {
            return false;
        };
        let mut roots = RootCertStore::empty();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        roots.add(ca).is_ok()
            && WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().is_ok_and(
                |verifier| verifier.verify_server_cert(&leaf, &[], &name, &[], UnixTime::now()).is_ok(),
            )
    }

    /// Reads the CA of clients. An installation whose server has not started yet has one CA for all.
    pub(crate) fn of_clients(data: &Path) -> anyhow::Result<Self> {
        let has_client_ca = data.join("pki/client-ca.key").exists();
        Self::read_named(data, if has_client_ca { "client-ca" } else { "ca" })
    }

    /// Creates a serving certificate for one host. Nothing renews it while the process runs, so it is as long valid as its
    /// CA.
    pub(crate) fn for_host(&self, host: String) -> anyhow::Result<Pair> {
        let mut params = CertificateParams::new(vec![host])
            .context("cannot create the serving certificate: the host is invalid")?;
        params.distinguished_name.push(DnType::CommonName, "capstan");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(params, CA_LIFETIME)
    }

    /// Creates a client certificate. An empty group is left out. A certificate with a `reason` has at most one group.
    pub(crate) fn client(
        &self,
        user: &str,
        groups: &[String],
        reason: Option<&str>,
        lifetime: Duration,
    ) -> anyhow::Result<Pair> {
        if user.is_empty() {
            bail!("--user: must not be empty");
        }
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, user);
        if let Some(reason) = reason {
            params.distinguished_name.push(DnType::CustomDnType(DESCRIPTION.to_vec()), reason);
        }
        let groups: Vec<String> = groups.iter().filter(|group| !group.is_empty()).cloned().collect();
        if let Some(first) = groups.first() {
            params.distinguished_name.push(DnType::OrganizationName, first);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let pair = self.sign(params, lifetime)?;
        if groups.len() < 2 {
            return Ok(pair);
        }
        let signed = CertificateDer::from_pem_slice(pair.certificate.as_bytes())?;
        let certificate = subject::replace(&signed, user, &groups, self.issuer.key())?;
        Ok(Pair { certificate, ..pair })
    }

    /// Creates a client certificate for the key of a request in PEM. A `uid` is for a user with one group.
    ///
    /// # Errors
    /// The request cannot be read, or its signature is wrong.
    pub(crate) fn client_of_request(
        &self,
        request: &str,
        user: &str,
        groups: &[String],
        uid: Option<&str>,
        lifetime: Duration,
    ) -> anyhow::Result<String> {
        let request =
            CertificateSigningRequestParams::from_pem(request).context("the request cannot be used")?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, user);
        if let Some(first) = groups.first() {
            params.distinguished_name.push(DnType::OrganizationName, first);
        }
        if let Some(uid) = uid {
            params.distinguished_name.push(DnType::CustomDnType(UID.to_vec()), uid);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        set_lifetime(&mut params, lifetime);
        let signed = params.signed_by(&request.public_key, &self.issuer)?;
        if groups.len() < 2 {
            return Ok(signed.pem());
        }
        subject::replace(signed.der(), user, groups, self.issuer.key())
    }

    /// Creates a certificate for a member of an etcd, or for a client of it. Nothing renews it, so it lives as long as the
    /// CA.
    pub(crate) fn member(&self, name: &str, hosts: &[String]) -> anyhow::Result<Pair> {
        let mut params = CertificateParams::new(hosts.to_vec())
            .context("cannot create the certificate for etcd: a host is invalid")?;
        params.distinguished_name.push(DnType::CommonName, name);
        // Members are clients of each other.
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params, CA_LIFETIME)
    }

    fn sign(&self, mut params: CertificateParams, lifetime: Duration) -> anyhow::Result<Pair> {
        set_lifetime(&mut params, lifetime);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

/// Creates the certificate and the key of a CA, in PEM.
pub(crate) fn new_authority(name: &str) -> anyhow::Result<(String, String)> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_lifetime(&mut params, CA_LIFETIME);
    let pair = KeyPair::generate()?;
    let signed = params.self_signed(&pair)?;
    Ok((signed.pem(), pair.serialize_pem()))
}

fn set_lifetime(params: &mut CertificateParams, lifetime: Duration) {
    let now = std::time::SystemTime::now();
    params.not_before = (now - SKEW).into();
    params.not_after = (now + lifetime).into();
}

/// Reports whether a certificate does not expire soon and has exactly these names.
fn is_current(pem: &str, names: &[String]) -> bool {
    let Ok(der) = CertificateDer::from_pem_slice(pem.as_bytes()) else { return false };
    let Ok((_, certificate)) = X509Certificate::from_der(&der) else { return false };
    let renew_at = Timestamp::now().as_second().saturating_add_unsigned(RENEW_BEFORE.as_secs());
    let Ok(Some(found)) = certificate.subject_alternative_name() else { return false };
    let mut found: Vec<String> = found
        .value
        .general_names
        .iter()
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            GeneralName::IPAddress(bytes) => address(bytes),
            _ => None,
        })
        .collect();
    let mut expected = names.to_vec();
    found.sort();
    expected.sort();
    certificate.validity().not_after.timestamp() > renew_at && found == expected
}

fn address(bytes: &[u8]) -> Option<String> {
    let v4 = <[u8; 4]>::try_from(bytes).map(|bytes| std::net::IpAddr::from(bytes).to_string());
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(|bytes| std::net::IpAddr::from(bytes).to_string())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_serving_certificate_is_kept_until_its_names_change() {
        let data = tempfile::tempdir().unwrap();
        let authority = Authority::open(data.path()).unwrap();
        let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
        let first = authority.serving(&names).unwrap();
        let again = Authority::open(data.path()).unwrap().serving(&names).unwrap();
        assert_eq!(first.certificate, again.certificate);
        let more = [names, vec!["capstan.example".to_owned()]].concat();
        assert_ne!(first.certificate, authority.serving(&more).unwrap().certificate);
    }

    #[test]
    fn a_serving_certificate_of_another_ca_with_the_same_name_is_replaced() {
        let data = tempfile::tempdir().unwrap();
        let names = vec!["localhost".to_owned()];
        let first = Authority::open(data.path()).unwrap().serving(&names).unwrap();
        let (certificate, key) = new_authority("capstan-ca").unwrap();
        Authority::save(data.path(), &certificate, &key).unwrap();
        let other = Authority::open(data.path()).unwrap();
        assert!(!other.has_signed(&first.certificate, "localhost"));
        let second = other.serving(&names).unwrap();
        assert!(other.has_signed(&second.certificate, "localhost"));
        assert_eq!(other.serving(&names).unwrap().certificate, second.certificate);
    }
}
