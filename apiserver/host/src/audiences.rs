//! Audiences of tokens: the servers that a token is for.
//!
//! A token for another server must not work here, because that server could use it here. A token for the host's own API
//! works while a setting allows it.

use std::collections::HashSet;

use serde_json::Value;

use crate::jwt;

/// Audiences that the server accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audiences {
    /// Names of this server in tokens.
    pub own: Vec<String>,
    /// True if a token for the host's own API is accepted, too.
    pub accepts_host: bool,
}

impl Audiences {
    /// Returns the audiences to request in the review of a token; `None` for those of the host's own API. The claim is
    /// not verified yet, and only selects the question: the host verifies the token against it.
    pub(crate) fn requested(&self, token: &str) -> Option<Vec<String>> {
        let is_own = || claimed(token).iter().any(|name| self.own.contains(name));
        (!self.accepts_host || is_own()).then(|| self.own.clone())
    }

    /// Returns true if a review confirms the audiences that were requested. A host that does not know audiences returns
    /// none. Its tokens are for its own API.
    pub(crate) fn are_confirmed(&self, requested: Option<&[String]>, confirmed: Option<&[String]>) -> bool {
        let Some(requested) = requested else { return true };
        let requested: HashSet<&String> = requested.iter().collect();
        match confirmed.unwrap_or_default() {
            [] => self.accepts_host,
            confirmed => confirmed.iter().any(|name| requested.contains(name)),
        }
    }
}

/// Returns the audiences in the claims of a JWT; none for any other token.
fn claimed(token: &str) -> Vec<String> {
    match jwt::claims(token).unwrap_or_default().get("aud") {
        Some(Value::String(name)) => vec![name.clone()],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use serde_json::json;

    use super::*;

    /// Returns a token with these claims, which nothing has signed.
    pub(crate) fn jwt(claims: &Value) -> String {
        format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims.to_string()))
    }

    /// Returns a token with these audiences.
    pub(crate) fn token(audiences: &Value) -> String {
        jwt(&json!({"aud": audiences}))
    }

    #[test]
    fn the_claims_of_a_token_select_the_requested_audiences() {
        let own = vec!["capstan".to_owned()];
        let lenient = Audiences { own: own.clone(), accepts_host: true };
        let strict = Audiences { own: own.clone(), accepts_host: false };
        for (shown, is_own) in [
            (token(&json!("capstan")), true),
            (token(&json!(["https://kubernetes.default.svc", "capstan"])), true),
            (token(&json!(["https://kubernetes.default.svc"])), false),
            (token(&json!(7)), false),
            ("opaque".to_owned(), false),
            ("a.!.b".to_owned(), false),
        ] {
            assert_eq!(lenient.requested(&shown).is_some(), is_own, "{shown}");
            assert_eq!(strict.requested(&shown).as_ref(), Some(&own), "{shown}");
        }
        let other = ["other".to_owned()];
        for (requested, confirmed, by_lenient, by_strict) in [
            (None, None, true, true),
            (Some(&own[..]), Some(&own[..]), true, true),
            (Some(&own), Some(&other), false, false),
            (Some(&own), None, true, false),
        ] {
            assert_eq!(lenient.are_confirmed(requested, confirmed), by_lenient);
            assert_eq!(strict.are_confirmed(requested, confirmed), by_strict);
        }
    }
}
