//! Simple HTTP client: one connection per request, and no retries.

#![allow(
    clippy::disallowed_methods,
    reason = "a program for tests and measurements awaits its tasks, or ends with them"
)]

use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// Longest time for a response; after it the outcome is unknown.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(15);

async fn request(
    port: u16,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> anyhow::Result<http::Response<Incoming>> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let body = body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()));
    let request = Request::builder().method(method).uri(path).header("host", "127.0.0.1");
    let request = request.header("content-type", media).body(Full::new(body))?;
    Ok(sender.send_request(request).await?)
}

/// Sends a request, and returns the response's status code and body.
pub(crate) async fn send(
    port: u16,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> anyhow::Result<(u16, Value)> {
    let sending = async {
        let response = request(port, method, path, body).await?;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await?.to_bytes();
        Ok((code, serde_json::from_slice(&bytes)?))
    };
    tokio::time::timeout(RESPONSE_TIMEOUT, sending).await.context("no response")?
}

/// Reads a document that is not JSON.
pub(crate) async fn text(port: u16, path: &str) -> anyhow::Result<String> {
    let response = request(port, "GET", path, None).await?;
    let bytes = response.into_body().collect().await?.to_bytes();
    Ok(String::from_utf8(bytes.to_vec())?)
}

/// Lines of a watch.
pub(crate) struct Stream {
    body: Incoming,
    rest: Vec<u8>,
}

impl Stream {
    pub(crate) async fn open(port: u16, path: &str) -> anyhow::Result<Self> {
        Self::send(port, "GET", path, None).await
    }

    /// Sends any request, and returns the lines of its response.
    pub(crate) async fn send(
        port: u16,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Self> {
        let response = tokio::time::timeout(RESPONSE_TIMEOUT, request(port, method, path, body)).await??;
        anyhow::ensure!(response.status() == 200, "the status of a watch is {}", response.status());
        Ok(Self { body: response.into_body(), rest: Vec::new() })
    }

    /// Returns the next event; `None` at the end or after an error.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return serde_json::from_slice(&line).ok();
            }
            let frame = tokio::time::timeout(RESPONSE_TIMEOUT, self.body.frame()).await.ok()??.ok()?;
            self.rest.extend_from_slice(&frame.into_data().ok()?);
        }
    }
}
