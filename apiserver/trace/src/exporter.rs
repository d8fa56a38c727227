//! Export of spans to a collector, by OTLP over gRPC.

use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::tonic_types::transport::{Certificate, ClientTlsConfig};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithTonicConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};

use crate::TRACER;

/// Name of the service in all spans.
const SERVICE: &str = "capstan";

/// Longest time of one export. The queue takes 2048 spans; those that do not fit are dropped.
const LONGEST_EXPORT: Duration = Duration::from_secs(5);

/// Number of traces among which `sampling_rate_per_million` are sampled.
const MILLION: f64 = 1_000_000.0;

/// Settings of the export.
#[derive(Debug, Clone)]
pub struct Settings {
    /// URL of the collector, such as `http://127.0.0.1:4317`.
    pub endpoint: String,
    /// CA of the collector's certificate in PEM, for an endpoint with `https`.
    pub ca: Option<String>,
    /// Number of traces in a million that are sampled if the caller has none.
    pub sampling_rate_per_million: u32,
    /// Version of the program.
    pub version: String,
    /// Name of the replica.
    pub instance: String,
}

/// Error of [`start`].
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The exporter refuses the settings.
    #[error("the exporter of traces cannot be made for {endpoint:?}: {reason}")]
    Refused {
        /// The endpoint.
        endpoint: String,
        /// The exporter's own words.
        reason: String,
    },
    /// Traces are on already.
    #[error("traces were started before")]
    Twice,
}

/// Exporter of the spans of this process.
#[derive(Debug)]
pub struct Exporter(SdkTracerProvider);

impl Exporter {
    /// Sends the spans that are left. It blocks until the collector has them, or for a few seconds.
    ///
    /// # Errors
    /// The exporter's own words, if spans were lost.
    pub fn stop(self) -> Result<(), String> {
        self.0.shutdown().map_err(|error| error.to_string())
    }
}

/// Turns traces on. The collector may become reachable later: spans are dropped until then. Call it in a Tokio runtime.
///
/// # Errors
/// An endpoint that is not a URL; traces that are on already.
pub fn start(settings: &Settings) -> Result<Exporter, StartError> {
    let refused = |reason: String| StartError::Refused { endpoint: settings.endpoint.clone(), reason };
    let mut builder = SpanExporter::builder()
        .with_tonic()
        .with_endpoint(settings.endpoint.as_str())
        .with_timeout(LONGEST_EXPORT);
    if let Some(ca) = &settings.ca {
        let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca));
        builder = builder.with_tls_config(tls);
    }
    let exporter = builder.build().map_err(|error| refused(error.to_string()))?;
    let rate = f64::from(settings.sampling_rate_per_million) / MILLION;
    let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(rate)));
    let resource = Resource::builder_empty().with_service_name(SERVICE).with_attributes([
        KeyValue::new("service.version", settings.version.clone()),
        KeyValue::new("service.instance.id", settings.instance.clone()),
    ]);
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_sampler(sampler)
        .with_resource(resource.build())
        .build();
    TRACER.set(provider.tracer(SERVICE)).map_err(|_| StartError::Twice)?;
    Ok(Exporter(provider))
}
