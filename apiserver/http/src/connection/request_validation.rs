//! Request validation: refuses malformed and ambiguous requests before the chain, as upstream's HTTP library does, and
//! closes the connection. A proxy in front of the server may have read such a request in another way.

use http::header::{CONNECTION, CONTENT_TYPE, EXPECT, HOST, TRANSFER_ENCODING};
use http::{HeaderValue, Method, Request, Version};
use hyper::ext::ReasonPhrase;

use crate::response::{self, HttpResponse};

/// Returns the refusal of a request; `None` for a valid one.
pub(crate) fn refusal<B>(request: &Request<B>) -> Option<HttpResponse> {
    let (code, text) = error(request)?;
    let mut answer = response::bytes(code, "text/plain; charset=utf-8", text);
    if text.is_empty() {
        answer.headers_mut().remove(CONTENT_TYPE);
    }
    if request.version() < Version::HTTP_2 && code >= 400 {
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        // Upstream has the whole text in the status line.
        let reason = text.strip_prefix("400 ").map(|reason| ReasonPhrase::try_from(reason.as_bytes()));
        if let Some(Ok(reason)) = reason {
            answer.extensions_mut().insert(reason);
        }
    }
    Some(answer)
}

/// Largest head of a request in HTTP/1: upstream's limit, with its allowance for the request line. Unit: bytes.
const LARGEST_HEAD: usize = (1 << 20) + 4096;

/// Returns errors that only HTTP/1 has, and that hyper accepts.
fn error_of_http1<B>(request: &Request<B>) -> Option<(u16, &'static str)> {
    let headers = request.headers();
    let size: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    if size > LARGEST_HEAD {
        return Some((431, "431 Request Header Fields Too Large"));
    }
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    if let Some(coding) = codings.next()
        && (codings.next().is_some() || !coding.as_bytes().eq_ignore_ascii_case(b"chunked"))
    {
        return Some((501, "Unsupported transfer encoding"));
    }
    let uri = request.uri();
    // A target without a slash, which is parsed as an authority.
    if *request.method() != Method::CONNECT && uri.scheme().is_none() && uri.authority().is_some() {
        return Some((400, "400 Bad Request"));
    }
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) if request.version() == Version::HTTP_11 => {
            Some((400, "400 Bad Request: missing required Host header"))
        }
        (Some(_), Some(_)) => Some((400, "400 Bad Request")),
        (Some(host), None) if !host.as_bytes().iter().all(|byte| is_in_host(*byte)) => {
            Some((400, "400 Bad Request: malformed Host header"))
        }
        _ => None,
    }
}

/// Returns true if a byte may be in a host.
fn is_in_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!$%&'()*+,-.:;=[]_~".contains(&byte)
}

fn error<B>(request: &Request<B>) -> Option<(u16, &'static str)> {
    let headers = request.headers();
    if request.version() < Version::HTTP_2 {
        if let Some(error) = error_of_http1(request) {
            return Some(error);
        }
    } else if headers.get_all(HOST).iter().count() > 1 {
        return Some((400, "400 Bad Request: too many Host headers"));
    }
    if *request.method() == Method::OPTIONS && request.uri().path() == "*" {
        return Some((200, ""));
    }
    // CONNECT requests a tunnel.
    if *request.method() == Method::CONNECT && request.uri().authority().is_some() {
        return Some((404, "404 page not found\n"));
    }
    if !has_valid_escapes(request.uri().path()) {
        return Some((400, "400 Bad Request"));
    }
    let expects = headers.get(EXPECT).filter(|expected| !expected.is_empty());
    if expects.is_some_and(|expected| !expected.as_bytes().eq_ignore_ascii_case(b"100-continue")) {
        return Some((417, ""));
    }
    None
}

/// Returns true if every `%` begins the number of a byte.
fn has_valid_escapes(path: &str) -> bool {
    let mut escapes = path.split('%');
    escapes.next();
    escapes.all(|rest| rest.as_bytes().get(..2).is_some_and(|code| code.iter().all(u8::is_ascii_hexdigit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(method: &str, uri: &str, headers: &[(&str, &str)]) -> Option<u16> {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        error(&request.body(()).unwrap()).map(|(code, _)| code)
    }

    #[test]
    fn ambiguous_requests_are_refused() {
        let host = ("host", "a");
        assert_eq!(code("GET", "/apis/a%2Fb", &[host]), None);
        assert_eq!(code("GET", "/apis", &[]), Some(400));
        assert_eq!(code("GET", "/apis", &[host, ("host", "b")]), Some(400));
        assert_eq!(code("GET", "/apis", &[("host", "a b")]), Some(400));
        assert_eq!(code("GET", "/apis", &[("host", "")]), None);
        assert_eq!(code("GET", "/apis", &[("host", "[::1]:6443")]), None);
        assert_eq!(code("GET", "apis", &[host]), Some(400));
        assert_eq!(code("GET", "https://a/apis", &[host]), None);
        let (chunked, zipped) = (("transfer-encoding", "Chunked"), ("transfer-encoding", "gzip, chunked"));
        assert_eq!(code("PUT", "/apis", &[host, chunked]), None);
        assert_eq!(code("PUT", "/apis", &[host, zipped]), Some(501));
        assert_eq!(code("PUT", "/apis", &[host, chunked, chunked]), Some(501));
        let large = "a".repeat(LARGEST_HEAD);
        assert_eq!(code("GET", "/apis", &[host, ("x", &large)]), Some(431));
        assert_eq!(code("GET", "/apis/%zz", &[host]), Some(400));
        assert_eq!(code("GET", "/apis/%2", &[host]), Some(400));
        assert_eq!(code("CONNECT", "a:443", &[host]), Some(404));
        assert_eq!(code("CONNECT", "/apis", &[host]), None);
        assert_eq!(code("OPTIONS", "*", &[host]), Some(200));
        assert_eq!(code("PUT", "/apis", &[host, ("expect", "100-Continue")]), None);
        assert_eq!(code("PUT", "/apis", &[host, ("expect", "wonders")]), Some(417));
    }
}
