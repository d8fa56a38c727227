//! From what a request shows to who it is.

mod token;

use std::sync::Arc;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};

use crate::peer::{Peer, PeerIdentity};
use crate::user::User;
use token::Shown;

/// A credential was shown and nobody is known by it. (Nothing shown is anonymous, not this.)
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unauthenticated {
    /// It is not good.
    #[error("Unauthorized")]
    Refused,
    /// Whether it is good cannot be found out now.
    #[error(transparent)]
    Unanswered(#[from] Unanswered),
}

/// Nobody could be asked about a token; says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unanswered(pub String);

/// How the front proxy says who is behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHeaders {
    /// Common names the proxy's certificate may have; empty allows any.
    pub allowed_names: Vec<String>,
    /// Headers with the user's name, in order of preference.
    pub username: Vec<String>,
    /// Headers with the user's id.
    pub uid: Vec<String>,
    /// Headers with the user's groups.
    pub group: Vec<String>,
    /// Prefixes of headers with anything else.
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

/// Who is behind a bearer token: asked of the host.
#[async_trait]
pub trait TokenSource: Send + Sync + std::fmt::Debug + 'static {
    /// The user, or `None` when the token is not good.
    ///
    /// # Errors
    /// [`Unanswered`] when that cannot be found out now.
    async fn review(&self, token: &str) -> Result<Option<User>, Unanswered>;
}

/// Tries, in order: the front proxy's headers, the client certificate, a bearer token, nobody.
#[derive(Debug, Default)]
pub struct Authenticator {
    headers: ArcSwap<RequestHeaders>,
    tokens: Option<Arc<dyn TokenSource>>,
}

impl Authenticator {
    /// An authenticator; without `tokens` every bearer token is refused.
    pub fn new(headers: RequestHeaders, tokens: Option<Arc<dyn TokenSource>>) -> Self {
        Self { headers: ArcSwap::from_pointee(headers), tokens }
    }

    /// Changes how the front proxy is read, from the next request on.
    pub fn set_request_headers(&self, headers: RequestHeaders) {
        self.headers.store(Arc::new(headers));
    }

    /// Who this is. Credentials and identity headers are removed from `headers`, believed or not,
    /// so that nothing behind can mistake them.
    ///
    /// # Errors
    /// [`Unauthenticated`] when a credential was shown that is not good, or not known to be, and no
    /// other is: a token beside a certificate that nobody vouches for is enough.
    pub async fn authenticate(
        &self,
        peer: &Peer,
        headers: &mut HeaderMap,
    ) -> Result<Arc<User>, Unauthenticated> {
        let rules = self.headers.load_full();
        let identity = peer.identity();
        let proxied = identity
            .filter(|peer| peer.is_front_proxy)
            .filter(|peer| rules.allowed_names.is_empty() || rules.allowed_names.contains(&peer.common_name))
            .and_then(|_| rules.read(headers));
        let shown = token::take(headers);
        strip(&rules, headers);
        if let Some(user) = proxied {
            return Ok(Arc::new(without_our_own(user)));
        }
        if let Some(client) = identity.filter(|peer| peer.is_client) {
            return Ok(Arc::clone(client.user.get_or_init(|| Arc::new(without_our_own(certified(client))))));
        }
        match (shown, &self.tokens) {
            (Shown::Token(token), Some(tokens)) => {
                let user = tokens.review(&token).await?;
                user.map(without_our_own).map(Arc::new).ok_or(Unauthenticated::Refused)
            }
            (Shown::Token(_), None) | (Shown::NoToken, _) => Err(Unauthenticated::Refused),
            (Shown::Nothing, _) if peer.is_refused() => Err(Unauthenticated::Refused),
            (Shown::Nothing, _) => Ok(Arc::new(User::anonymous())),
        }
    }
}

/// Groups of our own controllers are given inside the process alone; nothing from outside has them.
fn without_our_own(mut user: User) -> User {
    user.groups.retain(|group| !group.starts_with("system:capstan:"));
    user
}

fn certified(peer: &PeerIdentity) -> User {
    let mut user = User::authenticated(&peer.common_name, peer.organizations.clone());
    let credential = format!("X509SHA256={}", peer.fingerprint);
    user.extra.insert("authentication.kubernetes.io/credential-id".to_owned(), vec![credential]);
    user
}

fn strip(rules: &RequestHeaders, headers: &mut HeaderMap) {
    headers.remove(AUTHORIZATION);
    let names = || [&rules.username, &rules.uid, &rules.group].into_iter().flatten();
    let starts_with = |key: &str, prefix: &str| {
        key.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    let doomed: Vec<_> = headers
        .keys()
        .filter(|key| {
            let key = key.as_str();
            key.starts_with("x-remote-")
                || names().any(|name| name.eq_ignore_ascii_case(key))
                || rules.extra_prefix.iter().any(|prefix| starts_with(key, prefix))
        })
        .cloned()
        .collect();
    for key in doomed {
        headers.remove(key);
    }
}

impl RequestHeaders {
    /// `None` when nobody is named, or anything is not UTF-8: without it, it would be somebody else.
    fn read(&self, headers: &HeaderMap) -> Option<User> {
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

/// Names are not ASCII alone.
fn text(value: &HeaderValue) -> Option<String> {
    std::str::from_utf8(value.as_bytes()).ok().map(str::to_owned)
}

/// Header names cannot carry every character; the proxy escapes the others.
fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let code = rest.strip_prefix('%').and_then(|after| after.get(..2));
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = rest.get(3..).unwrap_or_default();
            }
            None => {
                let length = first.len_utf8();
                bytes.extend_from_slice(rest.get(..length).unwrap_or_default().as_bytes());
                rest = rest.get(length..).unwrap_or_default();
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests;
