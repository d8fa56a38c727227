//! Review of a token, by the authenticators of the direct endpoint. Programs beside this server accept its users by it,
//! also when the host cluster is down.

use apiserver_machinery::status::{ApiError, ApiResult};
use serde_json::{Value, json};

use super::shown;
use crate::state::ApiServer;

/// Returns the status of a review.
///
/// # Errors
/// 400 without a token. 503 if the token cannot be checked now: it may be valid.
pub(super) async fn status(server: &ApiServer, question: &Value) -> ApiResult<Value> {
    let spec = &question["spec"];
    let Some(token) = spec.get("token").and_then(Value::as_str).filter(|token| !token.is_empty()) else {
        return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
    };
    let metadata = question["metadata"].as_object();
    if metadata.is_some_and(|metadata| metadata.contains_key("namespace")) {
        return Err(ApiError::bad_request("namespace is not allowed on this type"));
    }
    let found = server.parts.authenticator.review(token).await;
    let found = found.map_err(|why| ApiError::undecided(why.0))?;
    let Some(user) = found else { return Ok(refused("the token is not valid")) };
    let own = &server.settings.audiences;
    let requested: Vec<&str> =
        spec["audiences"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let audiences: Vec<&String> =
        own.iter().filter(|name| requested.is_empty() || requested.contains(&name.as_str())).collect();
    if audiences.is_empty() && !requested.is_empty() {
        return Ok(refused(&format!("the token is for {own:?}, and not for {requested:?}")));
    }
    let mut status = json!({"authenticated": true, "user": shown(&user)});
    if !audiences.is_empty() {
        status["audiences"] = json!(audiences);
    }
    Ok(status)
}

fn refused(why: &str) -> Value {
    json!({"user": {}, "error": why})
}
