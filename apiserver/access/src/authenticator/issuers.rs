//! Issuers of JWTs, each with the verifier of its tokens.

use std::sync::Arc;

use arc_swap::ArcSwap;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::authenticator::TokenSource;
use crate::user::Realm;

/// Issuer of JWTs.
#[derive(Debug, Clone)]
pub struct Issuer {
    /// Claim `iss` of its tokens. The comparison is exact.
    pub url: String,
    /// Realm of its users.
    pub realm: Realm,
    /// Verifier of its tokens.
    pub verifier: Arc<dyn TokenSource>,
}

/// Issuers whose tokens are accepted. A token goes to the verifier of its issuer alone.
#[derive(Debug, Default)]
pub(super) struct Issuers {
    /// Issuers that this server is, or that its start has set.
    fixed: Vec<Issuer>,
    /// Issuers of the authentication file.
    configured: ArcSwap<Vec<Issuer>>,
}

#[derive(Deserialize)]
struct Claims {
    iss: String,
}

impl Issuers {
    /// Adds an issuer. It comes before those of the file.
    pub(super) fn add(&mut self, issuer: Issuer) {
        self.fixed.push(issuer);
    }

    /// Replaces the issuers of the authentication file.
    pub(super) fn configure(&self, issuers: Vec<Issuer>) {
        self.configured.store(Arc::new(issuers));
    }

    /// Returns true if the server issues tokens itself.
    pub(super) fn has_own(&self) -> bool {
        self.fixed.iter().any(|issuer| issuer.realm == Realm::Own)
    }

    /// Returns the issuer that a token names, or `None` if it names none of these.
    pub(super) fn of(&self, token: &str) -> Option<Issuer> {
        let configured = self.configured.load();
        if self.fixed.is_empty() && configured.is_empty() {
            return None;
        }
        let url = named(token)?;
        self.fixed.iter().chain(configured.iter()).find(|issuer| issuer.url == url).cloned()
    }
}

/// Returns the issuer that a JWT names. Nothing is verified yet.
fn named(token: &str) -> Option<String> {
    let claims: Claims = serde_json::from_slice(&payload(token)?).ok()?;
    Some(claims.iss)
}

/// Returns true for a JWT that names no issuer. Nothing is verified yet.
pub(super) fn names_no_issuer(token: &str) -> bool {
    let claims: Option<Map<String, Value>> = payload(token).and_then(|it| serde_json::from_slice(&it).ok());
    claims.is_some_and(|claims| !claims.contains_key("iss"))
}

/// Returns the claims of a JWT, in JSON.
fn payload(token: &str) -> Option<Vec<u8>> {
    let mut parts = token.split('.');
    let (_header, payload, _signature) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    URL_SAFE_NO_PAD.decode(payload).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(claims: &str) -> String {
        format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims))
    }

    #[test]
    fn a_jwt_has_three_parts_and_one_issuer() {
        assert_eq!(named(&token(r#"{"iss": "https://a", "sub": 7}"#)).as_deref(), Some("https://a"));
        for bad in [
            token(r#"{"sub": "x"}"#),
            token(r#"{"iss": 7}"#),
            token(r#"{"iss": "https://a", "iss": "https://b"}"#),
            token("x"),
            format!("{}.x", token(r#"{"iss": "https://a"}"#)),
            "a.b".to_owned(),
            "a.!.c".to_owned(),
        ] {
            assert_eq!(named(&bad), None, "{bad}");
        }
    }

    #[test]
    fn a_jwt_without_an_issuer_is_an_object_without_that_claim() {
        assert!(names_no_issuer(&token(r#"{"sub": "x", "exp": 7}"#)));
        for other in
            [token(r#"{"iss": "https://a"}"#), token(r#"{"iss": null}"#), token("[]"), "a.b".to_owned()]
        {
            assert!(!names_no_issuer(&other), "{other}");
        }
    }
}
