//! Whole requests: the input is one as HTTP/1 has it, so that everything in it changes together.

use bytes::Bytes;
use http::request::Builder;
use http::{Method, Request};
use http_body_util::Full;

use crate::answer;
use crate::finding::Verdict;
use crate::server::World;

pub(super) fn judge(world: &World, input: &[u8]) -> Verdict {
    let (head, body) = split(input);
    let mut lines = head.split(|byte| *byte == b'\n');
    let first = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    let (method, target) = first.split_once(' ').unwrap_or((&first, "/"));
    let Ok(method) = Method::from_bytes(method.as_bytes()) else { return Ok(()) };
    let mut request = Request::builder().uri(kept_out(&method, target)).method(method);
    for line in lines {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = line.split_at(colon);
        request = request.header(name, value.get(1..).unwrap_or_default().trim_ascii());
    }
    ask(world, request, body)
}

/// Head and body, parted by the first empty line.
fn split(input: &[u8]) -> (&[u8], &[u8]) {
    let Some(at) = input.windows(2).position(|pair| pair == b"\n\n") else { return (input, &[]) };
    (input.get(..at).unwrap_or_default(), input.get(at + 2..).unwrap_or_default())
}

/// The target with what keeps a write from being kept: each input finds the same objects.
fn kept_out(method: &Method, target: &str) -> String {
    if [Method::GET, Method::HEAD].contains(method) {
        return target.to_owned();
    }
    let sign = if target.contains('?') { '&' } else { '?' };
    format!("{target}{sign}dryRun=All")
}

/// Has a request answered, and checks the answer. What is no request of HTTP never gets this far in a
/// server, either.
pub(super) fn ask(world: &World, request: Builder, body: &[u8]) -> Verdict {
    let Ok(request) = request.body(Full::new(Bytes::copy_from_slice(body))) else { return Ok(()) };
    let is_head = request.method() == Method::HEAD;
    let is_document = request.uri().path().starts_with("/openapi/");
    let what = format!("{} {}", request.method(), request.uri());
    let answer = world.ask(request)?;
    // Upstream, too, refuses a form of its documents without a word.
    if is_head || (is_document && matches!(answer.code, 404 | 406) && answer.body.is_empty()) {
        return Ok(());
    }
    answer::check(&answer).map_err(|finding| crate::Finding(format!("{what}: {finding}")))
}
