//! Claims of a JWT, before anything has verified them.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

/// Returns the claims; `None` for a token that is no JWT. They only select who verifies the token, and against what.
pub(crate) fn claims(token: &str) -> Option<Value> {
    let parts: Vec<&str> = token.split('.').collect();
    let [_, claims, _] = parts.as_slice() else { return None };
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
}
