//! Application credentials of a user: listed, created, deleted.

use http::{Method, StatusCode};
use jiff::{Timestamp, civil, tz::TimeZone};
use serde_json::{Value, json};

use super::{ApplicationCredential, caller, forbidden, refusal, roles, unauthorized};
use crate::context::Caller;
use crate::http::{HandlerResult, Reply, Request};
use crate::object::new_id;
use crate::state::CloudState;

/// Handles a call below `/v3/users/{user}/application_credentials`.
pub(super) fn handle(
    state: &mut CloudState,
    request: &Request,
    now: Timestamp,
    (user, path): (&str, &[&str]),
) -> HandlerResult {
    let caller = caller(state, request, now).ok_or_else(|| unauthorized(request))?;
    let action = match (&request.method, path) {
        (&Method::GET, []) => "list_application_credentials",
        (&Method::GET, [_]) => "get_application_credential",
        (&Method::POST, []) => "create_application_credential",
        (&Method::DELETE, [_]) => "delete_application_credential",
        _ => return Err(super::not_found_page()),
    };
    let is_read = request.method == Method::GET;
    // Only the owner creates one. A token of a restricted credential may not manage any.
    let is_allowed = caller.user_id == *user || (caller.admin && request.method != Method::POST);
    if !is_allowed || (!is_read && is_restricted(state, request)) {
        return Err(forbidden(action));
    }
    match (&request.method, path) {
        (&Method::POST, _) => create(state, request, &caller),
        (&Method::DELETE, [id, ..]) => delete(state, user, id),
        (_, [id, ..]) => {
            let held = find(state, user, id)?;
            Ok(Reply::ok(&json!({"application_credential": view(held, &caller, request)})))
        }
        _ => {
            let held = state.application_credentials.iter().filter(|held| held.user_id == user);
            let name = request.query.get("name");
            let held = held.filter(|held| name.is_none_or(|name| held.name == name));
            let views: Vec<Value> = held.map(|held| view(held, &caller, request)).collect();
            let own = format!("{}{}", request.base_url, request.path);
            let links = json!({"self": own, "previous": null, "next": null});
            Ok(Reply::ok(&json!({"application_credentials": views, "links": links})))
        }
    }
}

fn is_restricted(state: &CloudState, request: &Request) -> bool {
    let token = request.header("x-auth-token").and_then(|id| state.tokens.get(id));
    let id = token.and_then(|token| token.application_credential.as_ref());
    id.is_some_and(|id| state.application_credentials.iter().any(|held| held.id == *id && !held.unrestricted))
}

fn find<'a>(state: &'a CloudState, user: &str, id: &str) -> Result<&'a ApplicationCredential, Reply> {
    let missing = || refusal(StatusCode::NOT_FOUND, &format!("Could not find Application Credential: {id}."));
    let mut all = state.application_credentials.iter();
    all.find(|held| held.id == id && held.user_id == user).ok_or_else(missing)
}

fn view(held: &ApplicationCredential, caller: &Caller, request: &Request) -> Value {
    let expires = held.expires_at.map(|time| time.strftime("%Y-%m-%dT%H:%M:%S.000000").to_string());
    let own = format!("{}/v3/users/{}/application_credentials/{}", request.base_url, held.user_id, held.id);
    let mut view = json!({
        "id": held.id, "name": held.name, "description": held.description, "project_id": held.project_id,
        "roles": roles(caller.admin, caller.reader), "expires_at": expires, "unrestricted": held.unrestricted,
        "system": null, "links": {"self": own},
    });
    if let Some(rules) = &held.access_rules {
        view["access_rules"] = json!(rules);
    }
    view
}

fn create(state: &mut CloudState, request: &Request, caller: &Caller) -> HandlerResult {
    let body = request.json().unwrap_or_default();
    let text = |key: &str| body.pointer(&format!("/application_credential/{key}")).and_then(Value::as_str);
    let name =
        text("name").ok_or_else(|| refusal(StatusCode::BAD_REQUEST, "'name' is a required property"))?;
    let mut own = state.application_credentials.iter().filter(|held| held.user_id == caller.user_id);
    if own.any(|held| held.name == name) {
        let message = "Conflict occurred attempting to store application_credential - Duplicate entry found with \
                       name";
        return Err(refusal(StatusCode::CONFLICT, message));
    }
    let held = roles(caller.admin, caller.reader);
    let requested = body.pointer("/application_credential/roles").and_then(Value::as_array);
    for role in requested.into_iter().flatten() {
        if !held.as_array().into_iter().flatten().any(|it| it["name"] == role["name"]) {
            let message =
                format!("Invalid application credential: Could not find role assignment with role: {role}");
            return Err(refusal(StatusCode::BAD_REQUEST, &message));
        }
    }
    let expires_at = match text("expires_at") {
        None => None,
        Some(time) => Some(parsed(time).ok_or_else(|| {
            refusal(
                StatusCode::BAD_REQUEST,
                "Failed validating 'format' in schema['properties']['expires_at']",
            )
        })?),
    };
    let unrestricted = body.pointer("/application_credential/unrestricted") == Some(&Value::Bool(true));
    let access_rules = body.pointer("/application_credential/access_rules").and_then(Value::as_array);
    let new = ApplicationCredential {
        id: new_id().replace('-', ""),
        name: name.to_owned(),
        secret: text("secret").map_or_else(new_id, str::to_owned),
        user_id: caller.user_id.clone(),
        project_id: caller.project_id.clone(),
        expires_at,
        description: text("description").unwrap_or_default().to_owned(),
        unrestricted,
        access_rules: access_rules.filter(|rules| !rules.is_empty()).cloned(),
    };
    let mut shown = view(&new, caller, request);
    // Only this response has the secret.
    shown["secret"] = json!(new.secret);
    state.application_credentials.push(new);
    Ok(Reply::json(StatusCode::CREATED, &json!({"application_credential": shown})))
}

fn parsed(text: &str) -> Option<Timestamp> {
    let time: civil::DateTime = text.parse().ok()?;
    TimeZone::UTC.to_timestamp(time).ok()
}

/// Deletes a credential. The tokens that it was exchanged for end with it.
fn delete(state: &mut CloudState, user: &str, id: &str) -> HandlerResult {
    find(state, user, id)?;
    state.application_credentials.retain(|held| held.id != id);
    state.tokens.retain(|_, token| token.application_credential.as_deref() != Some(id));
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}
