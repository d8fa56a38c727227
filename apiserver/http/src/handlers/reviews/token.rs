//! Review of a token, by the authenticators of the direct endpoint. Programs beside this server accept its users by it,
//! also when the host cluster is down.

use std::net::IpAddr;
use std::sync::Arc;

use apiserver_access::{ReviewFailed, User};
use apiserver_machinery::status::{ApiError, ApiResult};
use serde_json::{Value, json};

use super::shown;
use crate::state::ApiServer;

/// Returns the status of a review that a program at this address requests.
///
/// # Errors
/// 400 without a token. 503 if the token cannot be checked now: it may be valid.
pub(super) async fn status(
    server: &ApiServer,
    address: Option<IpAddr>,
    question: &Value,
) -> ApiResult<Value> {
    let spec = &question["spec"];
    let Some(token) = spec.get("token").and_then(Value::as_str).filter(|token| !token.is_empty()) else {
        return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
    };
    let metadata = question["metadata"].as_object();
    if metadata.is_some_and(|metadata| metadata.contains_key("namespace")) {
        return Err(ApiError::bad_request("namespace is not allowed on this type"));
    }
    let requested: Vec<String> = spec["audiences"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    let found = reviewed(server, (token, address), requested).await;
    let found = found.map_err(|why| ApiError::undecided(why.0))?;
    let Some((user, audiences)) = found else {
        return Ok(refused("the token is not valid, or is for none of the audiences"));
    };
    let mut status = json!({"authenticated": true, "user": shown(&user)});
    if !audiences.is_empty() {
        status["audiences"] = json!(audiences);
    }
    Ok(status)
}

/// Returns the user of a token, and the requested audiences that it is for. Without a request, it must be for this server.
async fn reviewed(
    server: &ApiServer,
    (token, address): (&str, Option<IpAddr>),
    requested: Vec<String>,
) -> Result<Option<(Arc<User>, Vec<String>)>, ReviewFailed> {
    let (authenticator, own) = (&server.parts.authenticator, &server.settings.audiences);
    let mut found = None;
    if requested.is_empty() || requested.iter().any(|name| own.contains(name)) {
        let of_server =
            || own.iter().filter(|name| requested.is_empty() || requested.contains(name)).cloned();
        found =
            authenticator.review(token, address).await?.map(|user| (user, of_server().collect::<Vec<_>>()));
    }
    if requested.is_empty() {
        return Ok(found);
    }
    // A token can be for this server and for others.
    let others = authenticator.review_for(token, &requested).await?;
    Ok(others.or(found))
}

fn refused(why: &str) -> Value {
    json!({"user": {}, "error": why})
}
