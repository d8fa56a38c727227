//! Handler of `POST /v3/auth/tokens`.

use http::HeaderName;

use super::*;

/// Authenticated user.
struct Proof {
    user: User,
    methods: Vec<String>,
    /// Project to which an application credential or an earlier token is bound.
    bound: Option<String>,
    application_credential: Option<String>,
}

const MALFORMED: &str = "The server could not comply with the request since it is either malformed or otherwise \
                         incorrect. The client is assumed to be in error.";

fn expecting(what: &str, place: &str) -> Reply {
    refusal(StatusCode::BAD_REQUEST, &format!("Expecting to find {what} in {place}. {MALFORMED}"))
}

/// Issues a token for the credentials in the body.
pub(super) fn issue(
    state: &mut CloudState,
    options: &SimulatorOptions,
    request: &Request,
    now: Timestamp,
) -> HandlerResult {
    let body = request.json().unwrap_or_default();
    let auth = body.get("auth").filter(|auth| auth.is_object());
    let auth = auth.ok_or_else(|| expecting("auth", "request body"))?;
    let identity = object(auth.get("identity").cloned().unwrap_or_default());
    let proof = prove(state, options, &identity, request, now)?;
    let trust = trust(state, auth, &proof, request)?;
    let project_id = match &trust {
        Some(trust) => Some(trust.project_id.clone()),
        None => scope(state, auth, &proof, request)?,
    };
    let token = Token {
        user_id: proof.user.id,
        project_id,
        methods: proof.methods,
        application_credential: proof.application_credential,
        trust: trust.map(|trust| trust.id),
        issued_at: now,
        expires_at: later(now, options.token_lifetime),
    };
    let body = json!({"token": token_view(state, options, &token, request)});
    let id = format!("gAAAAAB{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
    state.tokens.retain(|_, token| token.expires_at > now);
    state.tokens.insert(id.clone(), token);
    let reply = Reply::json(StatusCode::CREATED, &body);
    Ok(reply.with_header(HeaderName::from_static("x-subject-token"), &id))
}

fn prove(
    state: &mut CloudState,
    options: &SimulatorOptions,
    identity: &Object,
    request: &Request,
    now: Timestamp,
) -> Result<Proof, Reply> {
    let methods = crate::object::texts(identity, "methods");
    let method = methods.first().ok_or_else(|| expecting("methods", "identity"))?.clone();
    let details = identity.get(&method).ok_or_else(|| expecting(&method, "identity"))?;
    let proof = match method.as_str() {
        "password" => by_password(state, options, details, methods),
        "application_credential" => by_application_credential(state, details, methods, now),
        "token" => {
            let id = details.get("id").and_then(Value::as_str).unwrap_or_default();
            let token = state.tokens.get(id).filter(|token| token.expires_at > now);
            // Keystone returns 404, not 401, for a token that it cannot read.
            let unknown = || refusal(StatusCode::NOT_FOUND, "Could not recognize Fernet token");
            by_token(state, token.ok_or_else(unknown)?)
        }
        _ => None,
    };
    proof.ok_or_else(|| unauthorized(request))
}

/// A locked user is refused in the same words as a wrong password, also with the right one.
fn by_password(
    state: &mut CloudState,
    options: &SimulatorOptions,
    details: &Value,
    methods: Vec<String>,
) -> Option<Proof> {
    let requested = details.get("user")?;
    let user = find_user(state, requested)?;
    let password = requested.get("password")?.as_str()?;
    let failed = state.failed_logins.entry(user.id.clone()).or_default();
    if user.password != password || options.lockout_attempts.is_some_and(|most| *failed >= most) {
        *failed += 1;
        return None;
    }
    *failed = 0;
    Some(Proof { user, methods, bound: None, application_credential: None })
}

fn find_user(state: &CloudState, requested: &Value) -> Option<User> {
    let id = requested.get("id").and_then(Value::as_str);
    let name = requested.get("name").and_then(Value::as_str);
    let domain = requested.get("domain");
    if id.is_none() && !is_default_domain(domain) {
        return None;
    }
    let found =
        state.users.iter().find(|user| Some(user.id.as_str()) == id || Some(user.name.as_str()) == name);
    found.cloned()
}

fn is_default_domain(domain: Option<&Value>) -> bool {
    let field = |key| domain.and_then(|domain| domain.get(key)).and_then(Value::as_str);
    field("id") == Some("default") || field("name").is_some_and(|name| name.eq_ignore_ascii_case("default"))
}

fn by_application_credential(
    state: &CloudState,
    details: &Value,
    methods: Vec<String>,
    now: Timestamp,
) -> Option<Proof> {
    let field = |key| details.get(key).and_then(Value::as_str);
    let user = details.get("user").and_then(|requested| find_user(state, requested));
    let held = state.application_credentials.iter().find(|held| match (field("id"), field("name")) {
        (Some(id), _) => held.id == id,
        (None, name) => name == Some(&held.name) && user.as_ref().is_some_and(|user| user.id == held.user_id),
    })?;
    if field("secret") != Some(&held.secret) || held.expires_at.is_some_and(|end| end <= now) {
        return None;
    }
    let user = state.users.iter().find(|user| user.id == held.user_id)?.clone();
    let bound = Some(held.project_id.clone());
    Some(Proof { user, methods, bound, application_credential: Some(held.id.clone()) })
}

fn by_token(state: &CloudState, token: &Token) -> Option<Proof> {
    let user = state.users.iter().find(|user| user.id == token.user_id)?.clone();
    let mut methods = token.methods.clone();
    if !methods.iter().any(|method| method == "token") {
        methods.push("token".to_owned());
    }
    let bound = token.project_id.clone();
    Some(Proof { user, methods, bound, application_credential: token.application_credential.clone() })
}

/// Returns the trust that the token is for. One that does not exist is refused as a wrong password is.
fn trust(state: &CloudState, auth: &Value, proof: &Proof, request: &Request) -> Result<Option<Trust>, Reply> {
    let requested = auth.pointer("/scope/OS-TRUST:trust/id").and_then(Value::as_str);
    let Some(id) = requested else { return Ok(None) };
    let trust = state.trusts.iter().find(|trust| trust.id == id).ok_or_else(|| unauthorized(request))?;
    if trust.trustee_id != proof.user.id {
        let words = "You are not authorized to perform the requested action.";
        return Err(refusal(StatusCode::FORBIDDEN, words));
    }
    Ok(Some(trust.clone()))
}

/// Returns the project that the token is for.
fn scope(
    state: &CloudState,
    auth: &Value,
    proof: &Proof,
    request: &Request,
) -> Result<Option<String>, Reply> {
    let Some(requested) = auth.get("scope").and_then(|scope| scope.get("project")) else {
        // Without a scope, a password gets the user's own project, as with `default_project_id`.
        return Ok(proof.bound.clone().or_else(|| Some(proof.user.project_id.clone())));
    };
    let id = requested.get("id").and_then(Value::as_str);
    let name =
        requested.get("name").and_then(Value::as_str).filter(|_| is_default_domain(requested.get("domain")));
    let project = state.projects.iter().find(|project| match id {
        Some(id) => project.id == id,
        None => Some(project.name.as_str()) == name,
    });
    let allowed = project.filter(|project| proof.user.admin || project.id == proof.user.project_id);
    allowed.map(|project| Some(project.id.clone())).ok_or_else(|| unauthorized(request))
}
