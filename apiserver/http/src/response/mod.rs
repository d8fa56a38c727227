//! Responses: encoding, content negotiation, compression and streamed bodies.

pub(crate) mod body;
pub(crate) mod chunked;
pub(crate) mod compression;
pub(crate) mod encoding;
pub(crate) mod negotiation;
pub(crate) mod streamed;

use std::borrow::Cow;
use std::collections::HashSet;

use apiserver_machinery::status::{ApiError, ApiResult};
use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, WARNING, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderValue, Response, StatusCode, Uri, Version};
use http_body::Body;
use serde_json::Value;

use crate::response::body::ResponseBody;
use crate::response::encoding::Encoding;

pub(crate) type HttpResponse = Response<ResponseBody>;

/// Longest warnings of one response, together: upstream's number. Unit: characters.
const LONGEST_WARNINGS: usize = 4096;

/// Longest single warning if they are longer together: upstream's number. Unit: characters.
const LONGEST_CUT_WARNING: usize = 256;

/// Returns a response with these bytes.
pub(crate) fn bytes(code: u16, content_type: &'static str, bytes: impl Into<Bytes>) -> HttpResponse {
    body(code, content_type, ResponseBody::full(bytes))
}

/// Returns a response with this body.
pub(crate) fn body(code: u16, content_type: &'static str, body: ResponseBody) -> HttpResponse {
    let mut answer = Response::new(body);
    *answer.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}

/// Returns plain text, as health checks and unknown paths do. Browsers must not interpret it otherwise: it may quote
/// the request.
pub(crate) fn text(code: u16, body: impl Into<String>) -> HttpResponse {
    let mut answer = bytes(code, "text/plain; charset=utf-8", body.into());
    answer.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

/// Returns the refusal of flow control.
pub(crate) fn overloaded() -> HttpResponse {
    let mut answer = text(429, "Too many requests, please try again later.\n");
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    answer
}

/// Returns the refusal of a server that shuts down; another server will take the request. The header `Connection` is
/// one of HTTP/1.1 alone: HTTP/2 has `GOAWAY`.
pub(crate) fn shutting_down(version: Version) -> HttpResponse {
    let mut answer = text(429, "The apiserver is shutting down, please try again later.\n");
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("5"));
    close_connection(&mut answer, version);
    answer
}

/// Marks the connection to be closed with this response, unless the response is an upgrade.
pub(crate) fn close_connection(answer: &mut HttpResponse, version: Version) {
    if version < Version::HTTP_2 {
        answer.headers_mut().entry(CONNECTION).or_insert(HeaderValue::from_static("close"));
    }
}

/// Returns the response to a request whose handler panicked.
pub(crate) fn panicked() -> HttpResponse {
    text(500, "This request caused apiserver to panic. Look in the logs for details.\n")
}

/// Returns a value in the negotiated encoding.
///
/// # Errors
/// 406 if its kind has no such form.
pub(crate) fn value(code: u16, value: &Value, encoding: Encoding) -> ApiResult<HttpResponse> {
    Ok(bytes(code, encoding.content_type(), encoding.encode(value)?))
}

/// Returns a document that other programs may keep for an hour: upstream's time for the keys of an issuer.
pub(crate) fn published(content_type: &'static str, document: &Value) -> HttpResponse {
    let mut answer = bytes(200, content_type, document.to_string());
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=3600"));
    answer
}

/// `Status` of a response, for metrics and the audit log.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct StatusInfo {
    /// `Success` or `Failure`.
    pub(crate) status: &'static str,
    pub(crate) reason: Cow<'static, str>,
    pub(crate) message: String,
    /// `Null` if there are none.
    pub(crate) details: Value,
}

/// Marker of a response about a deprecated version.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deprecated;

/// Returns an error. A `Status` can be written in every encoding.
pub(crate) fn error(error: &ApiError, encoding: Encoding) -> HttpResponse {
    let body = encoding.encode(&error.to_value()).unwrap_or_default();
    let mut answer = bytes(error.code, encoding.content_type(), body);
    if error.is_denial {
        no_sniffing(&mut answer);
    }
    let ApiError { reason, message, details, .. } = error.clone();
    answer.extensions_mut().insert(StatusInfo { status: "Failure", reason, message, details });
    if let Some(seconds) = error.retry_after() {
        answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    warn(&mut answer, &error.warnings);
    answer
}

/// Returns the error of a path that has a verb and no resource.
pub(crate) fn unclear(uri: &Uri) -> HttpResponse {
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    let reason = "failed to create RequestInfo: unable to determine kind and namespace from url";
    let text_of_error = format!("Internal Server Error: {target:?}: {reason}, {target}\n");
    text(500, text_of_error.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;"))
}

/// Returns the response for an unknown path.
pub(crate) fn not_found() -> HttpResponse {
    let mut answer = text(404, "404 page not found\n");
    answer.extensions_mut().insert(NoPage);
    answer
}

/// Mark of a response for an unknown path.
#[derive(Debug, Clone, Copy)]
struct NoPage;

/// Returns true for the response of an unknown path, whichever kind it may have been about.
pub(crate) fn is_no_page(answer: &HttpResponse) -> bool {
    answer.extensions().get::<NoPage>().is_some()
}

/// Forbids browsers to guess another content type.
pub(crate) fn no_sniffing(answer: &mut HttpResponse) {
    answer.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

/// Removes the body of a response, and keeps its length in the head.
pub(crate) fn head_only(answer: &mut HttpResponse) {
    if let Some(length) = answer.body().size_hint().exact() {
        answer.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    *answer.body_mut() = ResponseBody::full(Bytes::new());
}

/// Adds `Warning` headers. Headers are not made for lists; [`cut`] shortens one.
pub(crate) fn warn(answer: &mut HttpResponse, warnings: &[String]) {
    for text in cut(warnings) {
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(header) = HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) {
            answer.headers_mut().append(WARNING, header);
        }
    }
}

/// Returns the warnings that are sent: each once, and only those that a header can hold. If one passes the limit for
/// all, all up to it are cut, and more follow until they have passed it again.
fn cut(warnings: &[String]) -> Vec<String> {
    let mut known = HashSet::new();
    let printable = warnings.iter().map(String::as_str).filter(|warning| !warning.is_empty());
    let printable = printable.filter(|warning| !warning.contains(char::is_control));
    let sent: Vec<&str> = printable.filter(|warning| known.insert(*warning)).collect();
    let length = |text: &str| text.chars().count();
    let mut whole = 0;
    let fitting = sent.iter().take_while(|warning| {
        whole += length(warning);
        whole <= LONGEST_WARNINGS
    });
    let fitting = fitting.count();
    if fitting == sent.len() {
        return sent.into_iter().map(str::to_owned).collect();
    }
    let (mut length_sent, mut texts) = (0, Vec::new());
    for (index, warning) in sent.into_iter().enumerate() {
        if index > fitting && length_sent >= LONGEST_WARNINGS {
            break;
        }
        let text: String = warning.chars().take(LONGEST_CUT_WARNING).collect();
        length_sent += length(&text);
        texts.push(text);
    }
    texts
}

/// Adds a warning before all others.
pub(crate) fn warn_first(answer: &mut HttpResponse, warning: &str) {
    let headers = answer.headers_mut();
    let others: Vec<HeaderValue> = headers.get_all(WARNING).iter().cloned().collect();
    headers.remove(WARNING);
    warn(answer, &[warning.to_owned()]);
    for other in others {
        let known = answer.headers().get_all(WARNING).iter().any(|one| *one == other);
        if !known {
            answer.headers_mut().append(WARNING, other);
        }
    }
}

/// Forbids caches, unless the response has its own rule.
pub(crate) fn do_not_cache(answer: &mut HttpResponse) {
    answer.headers_mut().entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache, private"));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As kube-apiserver 1.36.3 does with as many unknown fields.
    #[test]
    fn many_warnings_are_truncated_and_then_omitted() {
        let texts = |count: usize, length: usize| -> Vec<String> {
            (0..count).map(|index| format!("{index:02}{}", "x".repeat(length - 2))).collect()
        };
        let lengths = |texts: &[String]| {
            let sent = cut(texts);
            (sent.len(), sent.iter().map(String::len).max().unwrap_or_default())
        };
        assert_eq!(lengths(&texts(20, 271)), (16, 256));
        assert_eq!(lengths(&texts(3, 5021)), (3, 256));
        assert_eq!(lengths(&texts(60, 121)), (34, 121));
        assert_eq!(lengths(&texts(16, 256)), (16, 256));
        // Warnings that differ only after the cut are all sent.
        let alike: Vec<String> = texts(2, 3000).iter().map(|text| text.chars().rev().collect()).collect();
        assert_eq!(cut(&alike), ["x".repeat(256), "x".repeat(256)]);
        let odd = ["", "a\nb", "a", "a"].map(str::to_owned);
        assert_eq!(cut(&odd), ["a"]);
    }
}
