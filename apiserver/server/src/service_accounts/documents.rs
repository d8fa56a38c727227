//! Documents of OpenID Connect discovery, by which other programs verify the tokens.

use apiserver_http::IssuerDocuments;
use serde_json::{Value, json};

use super::TokenIssuer;

/// Path of the keys.
const KEYS: &str = "/openid/v1/jwks";

/// Path of the description of the issuer.
const CONFIGURATION: &str = "/.well-known/openid-configuration";

/// Documents of one issuer.
#[derive(Debug)]
pub(super) struct Documents(TokenIssuer);

impl Documents {
    pub(super) fn new(issuer: TokenIssuer) -> Self {
        Self(issuer)
    }
}

impl IssuerDocuments for Documents {
    fn get(&self, path: &str) -> Option<(&'static str, Value)> {
        match path.trim_end_matches('/') {
            CONFIGURATION => Some((
                "application/json",
                json!({
                    "issuer": self.0.url(),
                    "jwks_uri": format!("{}{KEYS}", self.0.url().trim_end_matches('/')),
                    "response_types_supported": ["id_token"],
                    "subject_types_supported": ["public"],
                    "id_token_signing_alg_values_supported": ["ES256"],
                }),
            )),
            KEYS => Some(("application/jwk-set+json", json!({"keys": self.0.keys.published()}))),
            _ => None,
        }
    }
}
