//! Settings under `tls`: serving certificates.

use std::path::PathBuf;

use anyhow::bail;
use serde::Deserialize;

use super::is_dns_name;

/// Serving certificate, with additional ones for certain names.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Tls {
    /// The certificate and its chain, in PEM.
    pub(crate) cert_file: PathBuf,
    /// Its key, in PEM.
    pub(crate) key_file: PathBuf,
    /// Additional certificates, selected by the server name that the client sends. Default: none.
    #[serde(default)]
    pub(crate) sni_certificates: Vec<SniCertificate>,
}

/// Serving certificate for certain names.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SniCertificate {
    /// The certificate and its chain, in PEM.
    pub(crate) cert_file: PathBuf,
    /// Its key, in PEM.
    pub(crate) key_file: PathBuf,
    /// Server names. A name may begin with `*.`, which matches any one label. Default: the DNS names in the
    /// certificate.
    #[serde(default)]
    pub(crate) names: Vec<String>,
}

impl Tls {
    pub(super) fn check(&self) -> anyhow::Result<()> {
        for (index, certificate) in self.sni_certificates.iter().enumerate() {
            if let Some(bad) = certificate.names.iter().find(|name| !is_dns_name(name)) {
                bail!(
                    "tls.sniCertificates[{index}].names: {bad:?} is not a DNS name; use a name such as a.example or *.example"
                );
            }
        }
        Ok(())
    }
}
