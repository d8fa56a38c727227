//! Settings under `tracing`: the export of traces.

use std::path::PathBuf;

use anyhow::bail;
use apiserver_trace::Settings;
use serde::Deserialize;

use crate::pki;

/// Largest sampling rate: all requests.
const MILLION: u32 = 1_000_000;

/// Settings of traces, in the words of Kubernetes' `TracingConfiguration`. Without them, the server records no traces.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Tracing {
    /// Collector that receives OTLP over gRPC: `HOST:PORT` or a URL. Default: `localhost:4317`.
    pub(crate) endpoint: Option<String>,
    /// The CA of the collector's certificate, in PEM. Required for an endpoint with `https`.
    pub(crate) ca_file: Option<PathBuf>,
    /// Number of requests and passes in a million that are sampled if the caller has no trace of its own. Default: 0, so that
    /// only the callers' traces are continued.
    pub(crate) sampling_rate_per_million: u32,
}

impl Tracing {
    pub(super) fn check(&self) -> anyhow::Result<()> {
        if self.sampling_rate_per_million > MILLION {
            bail!("tracing.samplingRatePerMillion: must be at most {MILLION}");
        }
        let url = self.url();
        let is_secure = url.starts_with("https://");
        if !self.has_host_and_port() || (!is_secure && !url.starts_with("http://")) {
            bail!(
                "tracing.endpoint: must be HOST:PORT, or begin with http:// or https://, not {:?}",
                self.given()
            );
        }
        if is_secure != self.ca_file.is_some() {
            bail!("tracing.caFile: is required for an endpoint with https, and not allowed for another one");
        }
        Ok(())
    }

    fn given(&self) -> &str {
        self.endpoint.as_deref().unwrap_or("localhost:4317")
    }

    /// Reports whether the endpoint has a host, and a port if it is no URL: no collector listens on the port of http.
    fn has_host_and_port(&self) -> bool {
        let url: Option<http::Uri> = self.url().parse().ok();
        let url = url.filter(|url| url.host().is_some_and(|host| !host.is_empty()));
        url.is_some_and(|url| url.port_u16().is_some() || self.given().contains("://"))
    }

    fn url(&self) -> String {
        let endpoint = self.given();
        if endpoint.contains("://") { endpoint.to_owned() } else { format!("http://{endpoint}") }
    }

    /// Returns the settings of the exporter.
    ///
    /// # Errors
    /// A CA that cannot be read.
    pub(crate) fn settings(&self, version: String, instance: String) -> anyhow::Result<Settings> {
        let ca = self.ca_file.as_deref().map(pki::read).transpose()?;
        let (endpoint, sampling_rate_per_million) = (self.url(), self.sampling_rate_per_million);
        Ok(Settings { endpoint, ca, sampling_rate_per_million, version, instance })
    }
}
