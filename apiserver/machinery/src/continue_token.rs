//! Continue token: the position at which the next page of a list begins.
//!
//! Shape on the wire: base64url without padding of `{"v":"meta.k8s.io/v1","rv":7,"start":"/name\u0000"}`. It is
//! upstream's own, so that a token outlives a replica and a rolling upgrade. The start may have a leading slash; in
//! both cases it is below the list's prefix.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::status::{ApiError, ApiResult};

const VERSION: &str = "meta.k8s.io/v1";

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Wire {
    v: String,
    rv: i64,
    start: String,
}

/// A decoded token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContinueToken {
    /// The revision that all pages show; `None` continues at the newest revision.
    pub revision: Option<u64>,
    /// The first key of the page, below the list's prefix: `name\0` in a namespace, `ns/name\0` in
    /// all of them.
    pub start: String,
}

impl ContinueToken {
    /// Encodes the token.
    pub fn encode(&self) -> String {
        let rv = self.revision.and_then(|revision| i64::try_from(revision).ok()).unwrap_or(-1);
        // Without the slash where upstream has none, so that clients cannot distinguish the tokens.
        let slash = if self.revision.is_some() { "/" } else { "" };
        let wire = Wire { v: VERSION.to_owned(), rv, start: format!("{slash}{}", self.start) };
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&wire).unwrap_or_default())
    }

    /// Decodes a token that a client returned.
    ///
    /// # Errors
    /// 400 if it is not a token of this server, or leads outside the resource's keys.
    pub fn decode(text: &str) -> ApiResult<Self> {
        let not_valid = |why: String| {
            ApiError::bad_request(format!("invalid continue token: continue key is not valid{why}"))
        };
        // Line ends are ignored, as in Go.
        let text: String = text.chars().filter(|letter| !matches!(letter, '\r' | '\n')).collect();
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|error| not_valid(format!(": {error}")))?;
        let wire: Wire = serde_json::from_slice(&bytes).map_err(|error| not_valid(format!(": {error}")))?;
        if wire.v != VERSION {
            let version = &wire.v;
            return Err(not_valid(format!(": server does not recognize this encoded version {version}")));
        }
        let revision = match wire.rv {
            0 => {
                return Err(not_valid(format!(
                    ": incorrect encoded start resourceVersion (version {VERSION})"
                )));
            }
            // For upstream, any number below zero means "now".
            rv => u64::try_from(rv).ok(),
        };
        let start = wire.start.strip_prefix('/').unwrap_or(&wire.start);
        if wire.start.is_empty() {
            return Err(not_valid(format!(": encoded start key empty (version {VERSION})")));
        }
        // A client may have changed the token to leave its list, or to name another key that looks alike. Only the
        // slash begins a new segment.
        if !start.is_empty() && start.split('/').any(|part| matches!(part, "" | ".." | ".")) {
            return Err(not_valid(format!(": {}", wire.start)));
        }
        Ok(Self { revision, start: start.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_survives_the_round_trip() {
        for revision in [None, Some(7)] {
            let token = ContinueToken { revision, start: "ns/name\0".to_owned() };
            assert_eq!(ContinueToken::decode(&token.encode()), Ok(token));
        }
    }

    #[test]
    fn tokens_that_kube_apiserver_accepts_are_accepted() {
        let begins_anew = URL_SAFE_NO_PAD.encode(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"/"}"#);
        let (first, second) = begins_anew.split_at(9);
        for text in [&begins_anew, &format!("{first}\r\n{second}\n")] {
            let token = ContinueToken { revision: Some(1), start: String::new() };
            assert_eq!(ContinueToken::decode(text), Ok(token), "{text:?}");
        }
    }

    #[test]
    fn invalid_tokens_get_the_errors_of_kube_apiserver() {
        let forged = |json: &str| URL_SAFE_NO_PAD.encode(json);
        let token = |rv: &str, start: &str| {
            forged(&format!(r#"{{"v":"meta.k8s.io/v1","rv":{rv},"start":"{start}"}}"#))
        };
        let table = [
            ("%%%".to_owned(), ": "),
            (forged("x"), ": "),
            (forged("{}"), ": server does not recognize this encoded version "),
            (
                forged(r#"{"v":"v2","rv":1,"start":"a"}"#),
                ": server does not recognize this encoded version v2",
            ),
            (token("0", "a"), ": incorrect encoded start resourceVersion (version meta.k8s.io/v1)"),
            (token("1", ""), ": encoded start key empty (version meta.k8s.io/v1)"),
            (token("1", "../a"), ": ../a"),
            (token("1", "/../a"), ": /../a"),
            (token("1", "a//b"), ": a//b"),
            (token("1", "a/./b"), ": a/./b"),
            (token("1", "//a"), ": //a"),
        ];
        for (text, why) in table {
            let error = ContinueToken::decode(&text).unwrap_err();
            let expected = format!("invalid continue token: continue key is not valid{why}");
            assert_eq!(error.code, 400, "{text}");
            assert!(error.message.starts_with(&expected), "{}", error.message);
        }
    }

    #[test]
    fn a_start_key_may_begin_with_a_slash() {
        for start in ["ns/name", "/ns/name"] {
            let text =
                URL_SAFE_NO_PAD.encode(format!(r#"{{"v":"meta.k8s.io/v1","rv":7,"start":"{start}"}}"#));
            let token = ContinueToken { revision: Some(7), start: "ns/name".to_owned() };
            assert_eq!(ContinueToken::decode(&text), Ok(token));
        }
    }
}
