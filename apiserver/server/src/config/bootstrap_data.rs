//! Settings under `bootstrapData`: an address from which machines fetch their bootstrap data.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, bail};
use serde::Deserialize;

/// Address of its own for machines. The networks of the machines need a route to it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct BootstrapData {
    /// Address and port to listen on.
    pub(crate) listen: String,
    /// URL by which machines reach it, e.g. `https://capstan.example.org:7444`.
    pub(crate) url: String,
    /// Serving certificate for the host of the URL, in PEM. Default: one of the server's own CA.
    #[serde(default)]
    pub(crate) cert_file: Option<PathBuf>,
    /// Its key, in PEM.
    #[serde(default)]
    pub(crate) key_file: Option<PathBuf>,
    /// CA of the certificate, in PEM, which machines trust.
    #[serde(default)]
    pub(crate) ca_file: Option<PathBuf>,
}

impl BootstrapData {
    pub(super) fn check(&self) -> anyhow::Result<()> {
        self.address()?;
        self.host()?;
        match [&self.cert_file, &self.key_file, &self.ca_file].iter().filter(|file| file.is_some()).count() {
            0 | 3 => Ok(()),
            _ => bail!(
                "bootstrapData.certFile: certFile, keyFile and caFile belong together; name all or none"
            ),
        }
    }

    /// Returns the address to listen on.
    pub(crate) fn address(&self) -> anyhow::Result<SocketAddr> {
        let text = &self.listen;
        text.parse().with_context(|| format!("bootstrapData.listen: {text:?} is not an address with a port"))
    }

    /// Returns the host of the URL, without the brackets of an IPv6 address.
    pub(crate) fn host(&self) -> anyhow::Result<String> {
        let url: http::Uri =
            self.url.parse().with_context(|| format!("bootstrapData.url: {:?}", self.url))?;
        let host = url.host().filter(|_| url.scheme_str() == Some("https"));
        match host.map(|host| host.trim_start_matches('[').trim_end_matches(']')) {
            Some(host) if !self.url.contains('\'') => Ok(host.to_owned()),
            _ => bail!("bootstrapData.url: {:?} is not a URL with https and a host", self.url),
        }
    }
}
