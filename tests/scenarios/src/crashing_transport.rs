//! Transport to the API during whose calls a process can crash.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use apiserver_http::{InProcess, ResponseBody};
use http::{Method, Request, Response};
use kube::client::Body;
use serde_json::Value;
use tower::Service;

use crate::CrashPoint;

/// Transport whose writes count as effects.
#[derive(Debug, Clone)]
pub(crate) struct CrashingTransport {
    pub(crate) transport: InProcess,
    pub(crate) crash_point: Arc<CrashPoint>,
}

impl Service<Request<Body>> for CrashingTransport {
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { mut transport, crash_point } = self.clone();
        Box::pin(async move {
            // Events report what was done; the write of one is no step of the work.
            // A dry run has no effect.
            let is_dry = request.uri().query().is_some_and(|query| query.contains("dryRun"));
            if request.method() == Method::GET || is_dry || request.uri().path().contains("/events") {
                crash_point.alive().await;
                return transport.call(request).await;
            }
            let (effect, request) = described(request).await;
            crash_point.perform(effect, async move { transport.call(request).await }).await
        })
    }
}

/// Returns the text of an effect: the method, the path, and the name of an object that is created.
async fn described(request: Request<Body>) -> (String, Request<Body>) {
    let effect = format!("{} {}", request.method(), request.uri().path());
    if request.method() != Method::POST {
        return (effect, request);
    }
    let (parts, body) = request.into_parts();
    let body = body.collect_bytes().await.unwrap_or_default();
    let object: Value = serde_json::from_slice(&body).unwrap_or_default();
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    (format!("{effect} {name}"), Request::from_parts(parts, Body::from(body)))
}
