//! Where the next page of a list begins.
//!
//! Shape on the wire: base64url without padding of `{"v":"meta.k8s.io/v1","rv":7,"start":"ns/name\u0000"}`,
//! upstream's own, so that a token outlives a replica and a rolling upgrade.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::status::{ApiError, ApiResult};

const VERSION: &str = "meta.k8s.io/v1";

#[derive(Debug, Serialize, Deserialize)]
struct Wire {
    v: String,
    rv: i64,
    start: String,
}

/// A decoded token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContinueToken {
    /// The revision all pages show; `None` continues at the newest.
    pub revision: Option<u64>,
    /// The first key of the page, below the resource's prefix.
    pub start: String,
}

impl ContinueToken {
    /// As it goes out.
    pub fn encode(&self) -> String {
        let rv = self.revision.and_then(|revision| i64::try_from(revision).ok()).unwrap_or(-1);
        let wire = Wire { v: VERSION.to_owned(), rv, start: self.start.clone() };
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&wire).unwrap_or_default())
    }

    /// Reads one that a client sent back.
    ///
    /// # Errors
    /// 400 when it is not one of ours, or leads outside the resource's keys.
    pub fn decode(text: &str) -> ApiResult<Self> {
        let fault = |why: &str| ApiError::bad_request(format!("invalid continue token: {why}"));
        let not_valid = || fault("continue key is not valid");
        let bytes = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).map_err(|_| not_valid())?;
        let wire: Wire = serde_json::from_slice(&bytes).map_err(|_| not_valid())?;
        if wire.v != VERSION {
            return Err(fault(&format!("server does not recognize this encoded version {:?}", wire.v)));
        }
        let start = wire.start.trim_start_matches('/').to_owned();
        if start.is_empty() || start.split('/').any(|part| part == ".." || part == ".") {
            return Err(not_valid());
        }
        let revision = match wire.rv {
            -1 => None,
            rv => Some(u64::try_from(rv).ok().filter(|rv| *rv > 0).ok_or_else(not_valid)?),
        };
        Ok(Self { revision, start })
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
    fn bad_tokens_are_refused() {
        let forged = |json: &str| URL_SAFE_NO_PAD.encode(json);
        for text in [
            "x".to_owned(),
            "%%%".to_owned(),
            forged("{}"),
            forged(r#"{"v":"v2","rv":1,"start":"a"}"#),
            forged(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"../a"}"#),
            forged(r#"{"v":"meta.k8s.io/v1","rv":0,"start":"a"}"#),
            forged(r#"{"v":"meta.k8s.io/v1","rv":-7,"start":"a"}"#),
        ] {
            assert_eq!(ContinueToken::decode(&text).map_err(|error| error.code), Err(400), "{text}");
        }
    }
}
