//! Headers in which a front proxy names the user, and the removal of all headers with identities and credentials.

use http::{HeaderMap, HeaderValue};

use crate::peer::PeerIdentity;
use crate::user::User;

/// Headers with credentials, of Kubernetes, of OpenStack and of proxies. No code after the authenticator needs them.
const IDENTITY_HEADERS: [&str; 6] = [
    "authorization",
    "proxy-authorization",
    "x-auth-token",
    "x-forwarded-client-cert",
    "x-service-token",
    "x-subject-token",
];

/// Prefixes of headers in which proxies name a user.
const IDENTITY_PREFIXES: [&str; 3] = ["ssl-client-", "x-client-cert", "x-remote-"];

/// Headers in which the front proxy names the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHeaders {
    /// Common names the proxy's certificate may have; empty allows any, if the CA is in the request-header pool alone.
    pub allowed_names: Vec<String>,
    /// Headers with the user's name, in order of preference.
    pub username: Vec<String>,
    /// Headers with the user's id.
    pub uid: Vec<String>,
    /// Headers with the user's groups.
    pub group: Vec<String>,
    /// Prefixes of headers with extra attributes of the user.
    pub extra_prefix: Vec<String>,
}

impl Default for RequestHeaders {
    fn default() -> Self {
        let one = |name: &str| vec![name.to_owned()];
        Self {
            allowed_names: Vec::new(),
            username: one("X-Remote-User"),
            uid: one("X-Remote-Uid"),
            group: one("X-Remote-Group"),
            extra_prefix: one("X-Remote-Extra-"),
        }
    }
}

impl RequestHeaders {
    /// Returns true if a front proxy may have the name of this certificate. An empty list allows every name, but not to
    /// the certificates of a CA that signs clients, too.
    pub(super) fn allow(&self, peer: &PeerIdentity) -> bool {
        if self.allowed_names.is_empty() {
            return !peer.has_shared_ca;
        }
        self.allowed_names.contains(&peer.common_name)
    }

    /// Returns the user, or `None` if the headers name none or are not UTF-8: a user without an unreadable group would
    /// be another one.
    pub(super) fn read(&self, headers: &HeaderMap) -> Option<User> {
        let first = |names: &[String]| {
            let mut values = names.iter().filter_map(|name| headers.get(name.as_str()));
            values.find(|value| !value.is_empty()).map(text)
        };
        let groups = self.group.iter().flat_map(|name| headers.get_all(name.as_str()));
        let groups: Vec<String> = groups.map(text).collect::<Option<_>>()?;
        let mut user = User::authenticated(first(&self.username)??, groups);
        user.uid = match first(&self.uid) {
            Some(uid) => Some(uid?),
            None => None,
        };
        for prefix in &self.extra_prefix {
            let prefix = prefix.to_ascii_lowercase();
            for (name, value) in headers {
                if let Some(key) = name.as_str().strip_prefix(&prefix) {
                    user.extra.entry(percent_decode(key)).or_default().push(text(value)?);
                }
            }
        }
        Some(user)
    }
}

/// Decodes a header value: names are not ASCII alone.
fn text(value: &HeaderValue) -> Option<String> {
    std::str::from_utf8(value.as_bytes()).ok().map(str::to_owned)
}

/// Decodes a header's name: names cannot carry every character, and the proxy escapes the others.
fn percent_decode(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// Removes every header that could carry an identity. Programs between a client and this server may write `_` for `-`.
pub(super) fn strip(rules: &RequestHeaders, headers: &mut HeaderMap) {
    let names = || [&rules.username, &rules.uid, &rules.group].into_iter().flatten().map(String::as_str);
    let prefixes = || IDENTITY_PREFIXES.into_iter().chain(rules.extra_prefix.iter().map(String::as_str));
    let removed: Vec<_> = headers
        .keys()
        .filter(|key| {
            let key = key.as_str().as_bytes();
            prefixes().any(|prefix| key.get(..prefix.len()).is_some_and(|start| is_same(start, prefix)))
                || IDENTITY_HEADERS.into_iter().chain(names()).any(|name| is_same(key, name))
        })
        .cloned()
        .collect();
    for key in removed {
        headers.remove(key);
    }
}

/// Compares header names, without case, and with `_` as `-`.
fn is_same(found: &[u8], name: &str) -> bool {
    let plain = |byte: &u8| if *byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    found.len() == name.len() && found.iter().map(plain).eq(name.as_bytes().iter().map(plain))
}
