//! Target for whole requests: the input has the form of HTTP/1, so that the engine changes all parts
//! together.

use bytes::Bytes;
use http::request::Builder;
use http::{Method, Request};
use http_body_util::Full;

use crate::finding::Verdict;
use crate::response;
use crate::server::FuzzServer;

pub(super) fn check_request(server: &FuzzServer, input: &[u8]) -> Verdict {
    let (head, body) = split(input);
    let mut lines = head.split(|byte| *byte == b'\n');
    let first = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    let (method, target) = first.split_once(' ').unwrap_or((&first, "/"));
    let Ok(method) = Method::from_bytes(method.as_bytes()) else { return Ok(()) };
    let mut request = Request::builder().uri(with_dry_run(&method, target)).method(method);
    for line in lines {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = line.split_at(colon);
        request = request.header(name, value.get(1..).unwrap_or_default().trim_ascii());
    }
    send(server, request, body)
}

/// Splits head and body at the first empty line.
fn split(input: &[u8]) -> (&[u8], &[u8]) {
    let Some(at) = input.windows(2).position(|pair| pair == b"\n\n") else { return (input, &[]) };
    (input.get(..at).unwrap_or_default(), input.get(at + 2..).unwrap_or_default())
}

/// Adds the dry-run option to the target of a write, so that each input finds the same objects.
fn with_dry_run(method: &Method, target: &str) -> String {
    if [Method::GET, Method::HEAD].contains(method) {
        return target.to_owned();
    }
    let sign = if target.contains('?') { '&' } else { '?' };
    format!("{target}{sign}dryRun=All")
}

/// Sends a request, and checks the response. An invalid HTTP request would not get this far in a server,
/// either.
pub(super) fn send(server: &FuzzServer, request: Builder, body: &[u8]) -> Verdict {
    let Ok(request) = request.body(Full::new(Bytes::copy_from_slice(body))) else { return Ok(()) };
    let is_head = request.method() == Method::HEAD;
    let is_document = request.uri().path().starts_with("/openapi/");
    let what = format!("{} {}", request.method(), request.uri());
    let response = server.send(request)?;
    // Upstream refuses a format of its documents without a body, too.
    if is_head || (is_document && matches!(response.code, 404 | 406) && response.body.is_empty()) {
        return Ok(());
    }
    response::check(&response).map_err(|finding| crate::Finding(format!("{what}: {finding}")))
}
