//! Answers.

pub(crate) mod body;
pub(crate) mod chunked;
pub(crate) mod compression;
pub(crate) mod encoding;
pub(crate) mod negotiation;
pub(crate) mod streamed;

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

pub(crate) type Answer = Response<ResponseBody>;

/// Longest warnings of one answer, together: upstream's number. Unit: characters.
const LONGEST_WARNINGS: usize = 4096;

/// Longest single warning when they are longer together: likewise.
const LONGEST_CUT_WARNING: usize = 256;

/// An answer with these bytes.
pub(crate) fn bytes(code: u16, content_type: &'static str, bytes: impl Into<Bytes>) -> Answer {
    body(code, content_type, ResponseBody::full(bytes))
}

/// An answer with this body.
pub(crate) fn body(code: u16, content_type: &'static str, body: ResponseBody) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}

/// Plain text, as health checks and unknown paths answer. No browser may take it for anything else:
/// it may quote what it was asked.
pub(crate) fn text(code: u16, body: impl Into<String>) -> Answer {
    let mut answer = bytes(code, "text/plain; charset=utf-8", body.into());
    answer.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

/// Too much is asked at once.
pub(crate) fn overloaded() -> Answer {
    let mut answer = text(429, "Too many requests, please try again later.\n");
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    answer
}

/// Nothing new is begun any more; another server will take it. `Connection` is a header of HTTP/1.1
/// alone: HTTP/2 has `GOAWAY` for it.
pub(crate) fn shutting_down(version: Version) -> Answer {
    let mut answer = text(429, "The apiserver is shutting down, please try again later.\n");
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("5"));
    part(&mut answer, version);
    answer
}

/// Tells the client that its connection ends with this answer, unless it has become something else with it.
pub(crate) fn part(answer: &mut Answer, version: Version) {
    if version < Version::HTTP_2 {
        answer.headers_mut().entry(CONNECTION).or_insert(HeaderValue::from_static("close"));
    }
}

/// The server failed over this request.
pub(crate) fn panicked() -> Answer {
    text(500, "This request caused apiserver to panic. Look in the logs for details.\n")
}

/// A value in the encoding negotiated.
///
/// # Errors
/// 406 when its kind has no such form.
pub(crate) fn value(code: u16, value: &Value, encoding: Encoding) -> ApiResult<Answer> {
    Ok(bytes(code, encoding.content_type(), encoding.encode(value)?))
}

/// What an answer that is a `Status` says, for whoever writes down what happened.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct StatusInfo {
    /// `Success` or `Failure`.
    pub(crate) status: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    /// `Null` when there are none.
    pub(crate) details: Value,
}

/// Says of an answer that it is about a version which clients should move on from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deprecated;

/// A refusal or failure. A `Status` can be written in every encoding.
pub(crate) fn error(error: &ApiError, encoding: Encoding) -> Answer {
    let body = encoding.encode(&error.to_value()).unwrap_or_default();
    let mut answer = bytes(error.code, encoding.content_type(), body);
    if error.code == 403 {
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

/// What a request is about cannot be told from its path.
pub(crate) fn unclear(uri: &Uri) -> Answer {
    let asked = uri.path_and_query().map_or("/", |asked| asked.as_str());
    let reason = "failed to create RequestInfo: unable to determine kind and namespace from url";
    let said = format!("Internal Server Error: {asked:?}: {reason}, {asked}\n");
    text(500, said.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;"))
}

/// What is at no known path.
pub(crate) fn not_found() -> Answer {
    let mut answer = text(404, "404 page not found\n");
    answer.extensions_mut().insert(NoPage);
    answer
}

/// In the extensions of an answer that there is nothing at the path.
#[derive(Debug, Clone, Copy)]
struct NoPage;

/// Whether the answer is that there is nothing at the path, whatever kind it would have been about.
pub(crate) fn is_no_page(answer: &Answer) -> bool {
    answer.extensions().get::<NoPage>().is_some()
}

/// Browsers are not to take text from elsewhere for a page.
pub(crate) fn no_sniffing(answer: &mut Answer) {
    answer.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

/// Leaves the head of an answer, which says how long the body would have been.
pub(crate) fn head_only(answer: &mut Answer) {
    if let Some(length) = answer.body().size_hint().exact() {
        answer.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    *answer.body_mut() = ResponseBody::full(Bytes::new());
}

/// Adds `Warning` headers. Headers are not made for lists, and [`cut`] says what becomes of one.
pub(crate) fn warn(answer: &mut Answer, warnings: &[String]) {
    for text in cut(warnings) {
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(header) = HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) {
            answer.headers_mut().append(WARNING, header);
        }
    }
}

/// The texts that are sent: each once, and none that a header cannot have. When one passes the limit for all, all up to
/// there are cut, and more follow until what is sent has passed it again.
fn cut(warnings: &[String]) -> Vec<String> {
    let mut known = HashSet::new();
    let sayable = warnings.iter().map(String::as_str).filter(|warning| !warning.is_empty());
    let sayable = sayable.filter(|warning| !warning.contains(char::is_control));
    let seen: Vec<&str> = sayable.filter(|warning| known.insert(*warning)).collect();
    let length = |text: &str| text.chars().count();
    let mut whole = 0;
    let fitting = seen.iter().take_while(|warning| {
        whole += length(warning);
        whole <= LONGEST_WARNINGS
    });
    let fitting = fitting.count();
    if fitting == seen.len() {
        return seen.into_iter().map(str::to_owned).collect();
    }
    let (mut sent, mut texts) = (0, Vec::new());
    for (index, warning) in seen.into_iter().enumerate() {
        if index > fitting && sent >= LONGEST_WARNINGS {
            break;
        }
        let text: String = warning.chars().take(LONGEST_CUT_WARNING).collect();
        sent += length(&text);
        texts.push(text);
    }
    texts
}

/// Adds a warning before all others.
pub(crate) fn warn_first(answer: &mut Answer, warning: &str) {
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

/// Nothing in between may keep an answer, unless it says so itself.
pub(crate) fn do_not_cache(answer: &mut Answer) {
    answer.headers_mut().entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache, private"));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a kube-apiserver 1.36.3 does with as many unknown fields.
    #[test]
    fn many_warnings_are_cut_and_then_left_out() {
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
        // What is the same only when it is cut is sent as often as it was said.
        let alike: Vec<String> = texts(2, 3000).iter().map(|text| text.chars().rev().collect()).collect();
        assert_eq!(cut(&alike), ["x".repeat(256), "x".repeat(256)]);
        let odd = ["", "a\nb", "a", "a"].map(str::to_owned);
        assert_eq!(cut(&odd), ["a"]);
    }
}
