//! What comes over a network and is no request that means one thing: refused as upstream's HTTP library
//! does, before anybody has looked at it, and the connection closed. A proxy before us may have read it
//! otherwise.

use http::header::{CONNECTION, EXPECT, HOST};
use http::{HeaderValue, Method, Request, Version};

use crate::response::{self, Answer};

/// The refusal of a request; `None` for a good one.
pub(crate) fn refusal<B>(request: &Request<B>) -> Option<Answer> {
    let (code, text) = fault(request)?;
    let mut answer = response::bytes(code, "text/plain; charset=utf-8", text);
    if request.version() < Version::HTTP_2 {
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    Some(answer)
}

fn fault<B>(request: &Request<B>) -> Option<(u16, &'static str)> {
    let headers = request.headers();
    let hosts = headers.get_all(HOST).iter().count();
    if request.version() == Version::HTTP_11 && hosts == 0 {
        return Some((400, "400 Bad Request: missing required Host header"));
    }
    if hosts > 1 {
        return Some((400, "400 Bad Request: too many Host headers"));
    }
    if *request.method() == Method::OPTIONS && request.uri().path() == "*" {
        return Some((200, ""));
    }
    // It asks for a tunnel, and a 200 would promise one.
    if *request.method() == Method::CONNECT {
        return Some((404, "404 page not found\n"));
    }
    if !is_escaped_well(request.uri().path()) {
        return Some((400, "400 Bad Request"));
    }
    let expects = headers.get(EXPECT).filter(|expected| !expected.is_empty());
    if expects.is_some_and(|expected| !expected.as_bytes().eq_ignore_ascii_case(b"100-continue")) {
        return Some((417, ""));
    }
    None
}

/// Whether each `%` begins the number of a byte.
fn is_escaped_well(path: &str) -> bool {
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
        fault(&request.body(()).unwrap()).map(|(code, _)| code)
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        let host = ("host", "a");
        assert_eq!(code("GET", "/apis/a%2Fb", &[host]), None);
        assert_eq!(code("GET", "/apis", &[]), Some(400));
        assert_eq!(code("GET", "/apis", &[host, ("host", "b")]), Some(400));
        assert_eq!(code("GET", "/apis/%zz", &[host]), Some(400));
        assert_eq!(code("GET", "/apis/%2", &[host]), Some(400));
        assert_eq!(code("CONNECT", "a:443", &[host]), Some(404));
        assert_eq!(code("OPTIONS", "*", &[host]), Some(200));
        assert_eq!(code("PUT", "/apis", &[host, ("expect", "100-Continue")]), None);
        assert_eq!(code("PUT", "/apis", &[host, ("expect", "wonders")]), Some(417));
    }
}
