//! Collector of traces: the one call of OTLP over gRPC that an exporter makes, and the spans that it has sent.

#![allow(clippy::disallowed_methods, reason = "its tasks end with the test")]

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::net::TcpListener;

use crate::process::PATIENCE;

/// Bytes before a message of gRPC: a flag and the length.
const HEAD: usize = 5;

/// Collector on loopback.
pub(crate) struct Collector {
    pub(crate) port: u16,
    received: Arc<Mutex<Vec<u8>>>,
    spans: Arc<Mutex<Vec<Span>>>,
}

impl Collector {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let collector = Self { port, received: Arc::default(), spans: Arc::default() };
        let (received, spans) = (Arc::clone(&collector.received), Arc::clone(&collector.spans));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (received, spans) = (Arc::clone(&received), Arc::clone(&spans));
                let service = service_fn(move |request: http::Request<Incoming>| {
                    let (received, spans) = (Arc::clone(&received), Arc::clone(&spans));
                    async move {
                        assert_eq!(
                            request.uri().path(),
                            "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
                        );
                        let body = request.into_body().collect().await.unwrap().to_bytes();
                        received.lock().unwrap().extend_from_slice(&body);
                        let export = ExportTraceServiceRequest::decode(body.slice(HEAD..)).unwrap();
                        let of_scopes = export.resource_spans.into_iter().flat_map(|it| it.scope_spans);
                        spans.lock().unwrap().extend(of_scopes.flat_map(|it| it.spans));
                        Ok::<_, Infallible>(accepted())
                    }
                });
                let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
            }
        });
        collector
    }

    /// Returns the spans so far.
    pub(crate) fn spans(&self) -> Vec<Span> {
        self.spans.lock().unwrap().clone()
    }

    /// Returns everything that the exporter has sent, as text.
    pub(crate) fn received(&self) -> String {
        String::from_utf8_lossy(&self.received.lock().unwrap()).into_owned()
    }

    /// Waits until a span matches.
    pub(crate) async fn until(&self, what: &str, matches: impl Fn(&Span) -> bool) -> Span {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = self.spans().into_iter().find(&matches) {
                return found;
            }
            let names: Vec<String> = self.spans().iter().map(|span| span.name.clone()).collect();
            assert!(Instant::now() < end, "no span is {what}: {names:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Returns the attributes of a span as text.
pub(crate) fn attributes(span: &Span) -> HashMap<String, String> {
    let text = |value: &Value| match value {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    let attribute = |it: &opentelemetry_proto::tonic::common::v1::KeyValue| {
        Some((it.key.clone(), text(it.value.as_ref()?.value.as_ref()?)))
    };
    span.attributes.iter().filter_map(attribute).collect()
}

/// Returns the response of a collector that has taken all spans: an empty message, and the status 0 in the trailers.
fn accepted() -> Response<impl hyper::body::Body<Data = Bytes, Error = Infallible>> {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", http::HeaderValue::from_static("0"));
    let body = Full::new(Bytes::from_static(&[0; HEAD])).with_trailers(async move { Some(Ok(trailers)) });
    Response::builder().header("content-type", "application/grpc").body(body).unwrap()
}
