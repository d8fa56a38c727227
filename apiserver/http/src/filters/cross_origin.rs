//! Cross-origin filter: refuses requests that a web page of another origin sends.
//!
//! A browser shows its client certificate with every request to this port, whichever page sends it. A foreign page
//! cannot read responses, because none has CORS headers. But it can send forms and open WebSockets, to which CORS
//! does not apply. Browsers label both: `Sec-Fetch-Site` says how the page relates to the server, and `Origin` names
//! the page. Pages can set neither header. kubectl, client-go, curl and the aggregator send neither and pass.
//!
//! GET, HEAD and OPTIONS without `Upgrade` pass unchecked: they change nothing, and their responses are unreadable.
//!
//! Through the host, both headers describe the host's address, because kube-apiserver forwards them as they came.
//! `Sec-Fetch-Site` is a relation and needs no address, so it decides there as well. `Origin` is compared with
//! `X-Forwarded-Host`, since our own `Host` is the address of a Service. kube-apiserver sets that header to the
//! Service's address, or not at all on an upgrade, so an `Origin` without `Sec-Fetch-Site` is refused behind a plain
//! kube-apiserver: the address that the browser used is unknown, and a watch of Secrets is readable over a WebSocket.
//! A page cannot forge `X-Forwarded-Host`: a form and a WebSocket set no headers, and others need a CORS preflight.

use apiserver_machinery::status::{ApiError, ApiResult};
use http::header::{HOST, ORIGIN, UPGRADE};
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request};

use crate::request::connection::Connection;

/// Relation of the page that sends a request to its target, stated by every browser since 2023.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Host that a client addressed at the first proxy.
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// Port of an origin without one: this server and its front proxies speak TLS alone.
const HTTPS: u16 = 443;

/// Longest part of a header that an error repeats. Origins are shorter. Unit: characters.
const LONGEST_QUOTE: usize = 200;

/// Checks that no web page of another origin sent the request. Callers inside the process pass.
///
/// # Errors
/// 403 that names the header that shows the other origin.
pub(crate) fn check<B>(request: &Request<B>, connection: &Connection) -> ApiResult<()> {
    let headers = request.headers();
    let is_safe = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if connection.internal.is_some() || (is_safe && !headers.contains_key(UPGRADE)) {
        return Ok(());
    }
    if headers.contains_key(SEC_FETCH_SITE) {
        // `same-site` covers every host of a domain, and one of them may be an attacker's.
        let is_own = |site: &HeaderValue| matches!(site.as_bytes(), b"same-origin" | b"none");
        let foreign = headers.get_all(SEC_FETCH_SITE).iter().find(|site| !is_own(site));
        return foreign.map_or(Ok(()), |site| Err(refused("Sec-Fetch-Site", site)));
    }
    let mut origins = headers.get_all(ORIGIN).iter().peekable();
    if origins.peek().is_none() {
        return Ok(());
    }
    let addressed =
        if connection.peer.is_front_proxy() { single(headers, &X_FORWARDED_HOST) } else { target(request) };
    let is_own =
        |origin: &&HeaderValue| addressed.as_ref().is_some_and(|own| Some(own) == page(origin).as_ref());
    match origins.find(|origin| !is_own(origin)) {
        Some(origin) => Err(refused("Origin", origin)),
        None => Ok(()),
    }
}

fn refused(header: &str, value: &HeaderValue) -> ApiError {
    let text: String = String::from_utf8_lossy(value.as_bytes()).chars().take(LONGEST_QUOTE).collect();
    ApiError::forbidden_path(&format!(
        "a web page of another origin sent this request ({header}: {text:?}): such a page may neither change \
         anything nor open a WebSocket here"
    ))
}

/// Host in lower case, and port.
type Address = (String, u16);

fn address(authority: &Authority) -> Address {
    (authority.host().to_ascii_lowercase(), authority.port_u16().unwrap_or(HTTPS))
}

/// Address of the page that an `Origin` names; `None` for `null`, for plain HTTP and for anything else.
fn page(origin: &HeaderValue) -> Option<Address> {
    let authority: Authority = origin.to_str().ok()?.strip_prefix("https://")?.parse().ok()?;
    (!authority.as_str().contains('@')).then(|| address(&authority))
}

/// Address that the client of this connection sent the request to.
fn target<B>(request: &Request<B>) -> Option<Address> {
    match request.uri().authority() {
        Some(authority) => Some(address(authority)),
        None => single(request.headers(), &HOST),
    }
}

/// Address in a header that is there once.
fn single(headers: &HeaderMap, name: &HeaderName) -> Option<Address> {
    let mut values = headers.get_all(name).iter();
    let (first, None) = (values.next()?, values.next()) else { return None };
    Some(address(&first.to_str().ok()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns true if a request of this method with these headers passes on the direct endpoint at `capstan:6443`.
    fn passes(method: &str, headers: &[(&str, &str)]) -> bool {
        let mut request = Request::builder().method(method).uri("/apis").header("host", "capstan:6443");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        check(&request.body(()).unwrap(), &Connection::default()).is_ok()
    }

    #[test]
    fn only_pages_of_the_same_origin_may_write() {
        let table = [
            (&[][..], true),
            (&[("sec-fetch-site", "same-origin")], true),
            (&[("sec-fetch-site", "none")], true),
            (&[("sec-fetch-site", "same-site")], false),
            (&[("sec-fetch-site", "cross-site")], false),
            (&[("sec-fetch-site", "")], false),
            (&[("sec-fetch-site", "none"), ("sec-fetch-site", "cross-site")], false),
            (&[("sec-fetch-site", "cross-site"), ("origin", "https://capstan:6443")], false),
            (&[("sec-fetch-site", "same-origin"), ("origin", "https://proxy.example")], true),
            (&[("origin", "https://capstan:6443")], true),
            (&[("origin", "https://CAPSTAN:6443")], true),
            (&[("origin", "https://capstan")], false),
            (&[("origin", "https://capstan:6444")], false),
            (&[("origin", "http://capstan:6443")], false),
            (&[("origin", "https://evil.example")], false),
            (&[("origin", "https://evil@capstan:6443")], false),
            (&[("origin", "https://capstan:6443/")], false),
            (&[("origin", "https://capstan:6443"), ("origin", "https://evil.example")], false),
            (&[("origin", "null")], false),
            (&[("origin", "")], false),
            (&[("origin", "https://capstan:6443"), ("x-forwarded-host", "evil.example")], true),
            (&[("origin", "https://evil.example"), ("x-forwarded-host", "evil.example")], false),
        ];
        for (headers, expected) in table {
            for method in ["POST", "PUT", "PATCH", "DELETE", "TRACE"] {
                assert_eq!(passes(method, headers), expected, "{method} {headers:?}");
            }
            for method in ["GET", "HEAD", "OPTIONS"] {
                assert!(passes(method, headers), "{method} {headers:?}");
                let upgrade = [headers, &[("upgrade", "websocket")]].concat();
                assert_eq!(passes(method, &upgrade), expected, "{method} {upgrade:?}");
            }
        }
    }

    #[test]
    fn the_target_in_the_request_line_comes_before_the_host_header() {
        let uri = "https://capstan/apis";
        let request = |origin| Request::post(uri).header("host", "other").header("origin", origin).body(());
        let passes = |origin| check(&request(origin).unwrap(), &Connection::default()).is_ok();
        assert!(passes("https://capstan") && passes("https://capstan:443") && !passes("https://other"));
        let nowhere = Request::post("/apis").header("origin", "https://capstan").body(()).unwrap();
        assert!(check(&nowhere, &Connection::default()).is_err());
    }
}
