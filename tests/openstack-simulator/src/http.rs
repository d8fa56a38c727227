//! Requests and replies of the services, without hyper's body types.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use serde_json::Value;

/// Query of a request: decoded pairs in order. A key may occur more than once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(key), decode(value))
        });
        Self(pairs.collect())
    }

    /// Returns the first value of `key`.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Returns all values of `key`, in order.
    pub(crate) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Returns the distinct keys.
    pub(crate) fn keys(&self) -> Vec<&str> {
        let mut keys: Vec<&str> = self.0.iter().map(|(name, _)| name.as_str()).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Returns the query as text, with `marker` replaced, for a `next` link.
    pub(crate) fn with_marker(&self, marker: &str) -> String {
        let mut pairs: Vec<String> = self
            .0
            .iter()
            .filter(|(name, _)| name != "marker")
            .map(|(name, value)| format!("{}={}", encode(name), encode(value)))
            .collect();
        pairs.push(format!("marker={}", encode(marker)));
        pairs.join("&")
    }
}

/// One request with its whole body.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// The whole path as sent, with the service's prefix.
    pub(crate) path: String,
    pub(crate) raw_query: String,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// `req-<uuid>`: it is in the reply, in the log and in instance actions.
    pub(crate) request_id: String,
    /// `http://host:port` as the client addresses the simulator, for links and the catalog.
    pub(crate) base_url: String,
}

impl Request {
    /// Returns the header as text, if it is present and printable.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Returns the body as JSON.
    pub(crate) fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }

    /// Returns the path's decoded segments, without empty ones.
    pub(crate) fn segments(&self) -> Vec<String> {
        self.path.split('/').filter(|part| !part.is_empty()).map(decode).collect()
    }

    /// Returns the name of a server action, which Nova has in the body and not in the path.
    pub(crate) fn action(&self) -> Option<String> {
        if self.method != Method::POST || !self.path.ends_with("/action") {
            return None;
        }
        self.json()?.as_object()?.keys().next().cloned()
    }
}

/// One reply.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: Bytes,
}

/// Result of a handler. The error is a reply, too: an error in the service's own format.
pub(crate) type HandlerResult = Result<Reply, Reply>;

impl Reply {
    /// Creates a reply with a JSON body.
    pub(crate) fn json(status: StatusCode, body: &Value) -> Self {
        Self { status, headers: Vec::new(), body: Bytes::from(body.to_string()) }
            .with_header(http::header::CONTENT_TYPE, "application/json")
    }

    /// Creates a reply 200 with a JSON body.
    pub(crate) fn ok(body: &Value) -> Self {
        Self::json(StatusCode::OK, body)
    }

    /// Creates a reply with a status only.
    pub(crate) fn empty(status: StatusCode) -> Self {
        Self { status, headers: Vec::new(), body: Bytes::new() }
    }

    /// Creates a reply with a body of another content type.
    pub(crate) fn text(status: StatusCode, content_type: &str, body: impl Into<Bytes>) -> Self {
        Self { status, headers: Vec::new(), body: body.into() }
            .with_header(http::header::CONTENT_TYPE, content_type)
    }

    /// Creates the HTML page that webob returns for an unhandled exception.
    pub(crate) fn html(status: StatusCode, explanation: &str) -> Self {
        let title = format!("{} {}", status.as_str(), status.canonical_reason().unwrap_or_default());
        let page = format!(
            "<html>\n <head>\n  <title>{title}</title>\n </head>\n <body>\n  <h1>{title}</h1>\n  \
             {explanation}<br /><br />\n\n\n\n </body>\n</html>"
        );
        Self::text(status, "text/html; charset=UTF-8", page)
    }

    /// Returns the token that the reply issues.
    pub(crate) fn issued_token(&self) -> Option<&str> {
        let header = self.headers.iter().find(|(name, _)| name == "x-subject-token");
        header.and_then(|(_, value)| value.to_str().ok())
    }

    /// Adds a header to the reply; a value that HTTP cannot represent is omitted.
    pub(crate) fn with_header(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.push((name, value));
        }
        self
    }
}

/// Decodes percent-encoding; `+` is a space, as in a form.
pub(crate) fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let escaped = tail.get(..2).and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 16).ok()
        });
        rest = match (*first, escaped) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                tail.get(2..).unwrap_or_default()
            }
            (b'+', _) => {
                bytes.push(b' ');
                tail
            }
            (byte, _) => {
                bytes.push(byte);
                tail
            }
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Percent-encodes all characters except the unreserved ones.
pub(crate) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_decoded_and_encoded_again() {
        let query = Query::parse("name=%5Ea+b%24&fields=id&fields=name&marker=old");
        assert_eq!(query.get("name"), Some("^a b$"));
        assert_eq!(query.all("fields").collect::<Vec<_>>(), ["id", "name"]);
        assert_eq!(query.with_marker("new"), "name=%5Ea%20b%24&fields=id&fields=name&marker=new");
    }
}
