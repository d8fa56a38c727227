//! Certificates of the server's own making: a CA, a serving certificate, client certificates.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// The CA outlives what it signs by far; renewing it means handing out every kubeconfig anew.
const CA_LIFETIME: Duration = Duration::from_secs(10 * 365 * 86_400);

/// A serving certificate is looked at when TLS files are, so any time far above that would do.
const SERVING_LIFETIME: Duration = Duration::from_secs(365 * 86_400);

/// Renewed when less than this is left.
const RENEW_BEFORE: Duration = Duration::from_secs(30 * 86_400);

/// Clocks differ; a certificate is good from a little before it was made.
const SKEW: Duration = Duration::from_secs(5 * 60);

/// The CA in a data directory.
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
    /// Whether there is nothing of a CA in a data directory.
    pub(crate) fn is_missing(data: &Path) -> bool {
        let directory = data.join("pki");
        !directory.join("ca.crt").exists() && !directory.join("ca.key").exists()
    }

    /// Opens the CA in `<data>/pki`, making it when there is none.
    pub(crate) fn open(data: &Path) -> anyhow::Result<Self> {
        if Self::is_missing(data) {
            let directory = data.join("pki");
            let (certificate, key) = (directory.join("ca.crt"), directory.join("ca.key"));
            private_directory(&directory)?;
            make_authority(&certificate, &key)?;
        }
        Self::read(data)
    }

    /// Opens the CA that a server has made.
    pub(crate) fn read(data: &Path) -> anyhow::Result<Self> {
        let directory = data.join("pki");
        let certificate_pem = read(&directory.join("ca.crt"))?;
        let key = KeyPair::from_pem(&read(&directory.join("ca.key"))?)
            .with_context(|| format!("{}: is not a key", directory.join("ca.key").display()))?;
        let issuer = Issuer::from_ca_cert_pem(&certificate_pem, key)
            .with_context(|| format!("{}: is not a CA certificate", directory.join("ca.crt").display()))?;
        Ok(Self { directory, certificate_pem, issuer })
    }

    /// The CA's certificate, in PEM.
    pub(crate) fn certificate(&self) -> &str {
        &self.certificate_pem
    }

    /// The serving certificate for these names, made anew when it is old or the names changed.
    pub(crate) fn serving(&self, names: &[String]) -> anyhow::Result<Pair> {
        let (certificate, key) = (self.directory.join("server.crt"), self.directory.join("server.key"));
        if certificate.exists() && key.exists() {
            let pair = Pair { certificate: read(&certificate)?, key: read(&key)? };
            if is_good(&pair.certificate, names) {
                return Ok(pair);
            }
        }
        let mut params =
            CertificateParams::new(names.to_vec()).context("a name of the server is not a name")?;
        params.distinguished_name.push(DnType::CommonName, "capstan");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let pair = self.sign(params, SERVING_LIFETIME)?;
        write_private(&key, &pair.key)?;
        write_private(&certificate, &pair.certificate)?;
        Ok(pair)
    }

    /// A new client certificate, of no group when that is empty.
    pub(crate) fn client(&self, user: &str, group: &str, lifetime: Duration) -> anyhow::Result<Pair> {
        if user.is_empty() {
            bail!("--user: must not be empty");
        }
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, user);
        if !group.is_empty() {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params, lifetime)
    }

    fn sign(&self, mut params: CertificateParams, lifetime: Duration) -> anyhow::Result<Pair> {
        set_lifetime(&mut params, lifetime);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

fn make_authority(certificate: &Path, key: &Path) -> anyhow::Result<()> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "capstan-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_lifetime(&mut params, CA_LIFETIME);
    let pair = KeyPair::generate()?;
    let signed = params.self_signed(&pair)?;
    // The key first: a certificate without its key would look like a CA that lost it.
    write_private(key, &pair.serialize_pem())?;
    write_private(certificate, &signed.pem())
}

fn set_lifetime(params: &mut CertificateParams, lifetime: Duration) {
    let now = std::time::SystemTime::now();
    params.not_before = (now - SKEW).into();
    params.not_after = (now + lifetime).into();
}

/// Whether a certificate lasts for a while and has exactly these names.
fn is_good(pem: &str, names: &[String]) -> bool {
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
    let mut wanted = names.to_vec();
    found.sort();
    wanted.sort();
    certificate.validity().not_after.timestamp() > renew_at && found == wanted
}

fn address(bytes: &[u8]) -> Option<String> {
    let v4 = <[u8; 4]>::try_from(bytes).map(|bytes| std::net::IpAddr::from(bytes).to_string());
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(|bytes| std::net::IpAddr::from(bytes).to_string())).ok()
}

/// The certificates in a PEM text.
pub(crate) fn certificates(pem: &str, what: &str) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let found = found.with_context(|| format!("{what}: is not PEM"))?;
    if found.is_empty() {
        bail!("{what}: holds no certificate");
    }
    Ok(found)
}

/// The names that a certificate is good for.
pub(crate) fn names(chain: &[CertificateDer<'static>]) -> anyhow::Result<Vec<String>> {
    let leaf = chain.first().context("holds no certificate")?;
    let (_, certificate) = X509Certificate::from_der(leaf).context("is no X.509 certificate")?;
    let found = certificate.subject_alternative_name().context("its names cannot be read")?;
    let names =
        found.into_iter().flat_map(|found| &found.value.general_names).filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        });
    let names: Vec<String> = names.collect();
    if names.is_empty() {
        bail!("a certificate in tls.sniCertificates has no DNS name: give `names`");
    }
    Ok(names)
}

/// The key in a PEM text.
pub(crate) fn key(pem: &str, what: &str) -> anyhow::Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| anyhow::anyhow!("{what}: holds no private key"))
}

/// Reads a text; the error names the file.
pub(crate) fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("{}: cannot be read", path.display()))
}

/// Makes a directory for the owner alone.
pub(crate) fn private_directory(path: &Path) -> anyhow::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).with_context(|| {
        format!("{}: cannot be made; give a directory you may write to with --data-dir", path.display())
    })
}

/// Writes a file for the owner alone: whole or not at all.
pub(crate) fn write_private(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let write = || -> std::io::Result<()> {
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&temporary, path)
    };
    write().with_context(|| format!("{}: cannot be written", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_kept_until_names_change() {
        let data = tempfile::tempdir().unwrap();
        let authority = Authority::open(data.path()).unwrap();
        let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
        let first = authority.serving(&names).unwrap();
        let again = Authority::open(data.path()).unwrap().serving(&names).unwrap();
        assert_eq!(first.certificate, again.certificate);
        let more = [names, vec!["capstan.example".to_owned()]].concat();
        assert_ne!(first.certificate, authority.serving(&more).unwrap().certificate);
    }
}
