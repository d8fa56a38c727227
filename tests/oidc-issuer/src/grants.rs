//! Grants by which a client gets tokens: code, device, client credentials and refresh.

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::State;
use crate::http::{Request, Response};

/// Logs the person in at once, and sends the browser back with a code.
pub(crate) fn authorize(state: &mut State, request: &Request) -> Response {
    state.code = request.fields.clone();
    let field = |name: &str| request.fields.get(name).cloned().unwrap_or_default();
    let back = format!("{}?code=c0de&state={}", field("redirect_uri"), field("state"));
    Response { code: 302, location: Some(back), ..Response::default() }
}

pub(crate) fn device(url: &str) -> Response {
    Response::json(
        200,
        &json!({"device_code": "d3vice", "user_code": "ABCD-EFGH", "interval": 0, "expires_in": 60,
            "verification_uri": format!("{url}/activate")}),
    )
}

pub(crate) fn token(url: &str, state: &mut State, request: &Request) -> Response {
    let field = |name: &str| request.fields.get(name).map(String::as_str).unwrap_or_default();
    let refused = |error: &str| Response::json(400, &json!({"error": error, "error_description": "no"}));
    let is_good = match field("grant_type") {
        "authorization_code" => {
            let hash = digest::digest(&digest::SHA256, field("code_verifier").as_bytes());
            let challenge = URL_SAFE_NO_PAD.encode(hash);
            field("code") == "c0de"
                && state.code.get("code_challenge_method").is_some_and(|it| it == "S256")
                && state.code.get("code_challenge") == Some(&challenge)
                && state.code.get("redirect_uri").map(String::as_str) == Some(field("redirect_uri"))
        }
        "urn:ietf:params:oauth:grant-type:device_code" => {
            if state.pending > 0 {
                state.pending -= 1;
                return refused("authorization_pending");
            }
            field("device_code") == "d3vice"
        }
        "client_credentials" => field("client_secret") == "s3cret",
        "refresh_token" => field("refresh_token") == "r3fresh",
        _ => return refused("unsupported_grant_type"),
    };
    if !is_good {
        return refused("invalid_grant");
    }
    let nonce = state.nonce.clone().or_else(|| state.code.get("nonce").cloned());
    let mut claims = json!({"sub": "alice", "aud": field("client_id")});
    if let Some(nonce) = nonce {
        claims["nonce"] = json!(nonce);
    }
    let key = state.keys.first().unwrap().0.clone();
    let token: Value = json!(crate::token(url, state, &key, &claims));
    Response::json(
        200,
        &json!({"access_token": token, "id_token": token, "token_type": "Bearer", "expires_in": 600,
            "refresh_token": "r3fresh"}),
    )
}
