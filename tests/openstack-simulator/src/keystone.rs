//! Keystone v3: tokens, and the catalog that names the other services.

use http::{HeaderName, Method, StatusCode};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::context::{Caller, later};
use crate::http::{HandlerResult, Reply, Request};
use crate::object::{Object, object};
use crate::options::SimulatorOptions;
use crate::state::CloudState;

mod application_credentials;
mod authentication;
mod catalog;
mod regions;

/// The only region.
pub(crate) const REGION: &str = "RegionOne";

/// Header by which a service promises to enforce access rules, with the version of their form.
const ACCESS_RULES: &str = "openstack-identity-access-rules";

/// A project.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Project {
    pub(crate) id: String,
    pub(crate) name: String,
}

/// A user, a member of one project.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct User {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) password: String,
    pub(crate) project_id: String,
    pub(crate) admin: bool,
    /// Its only role is `reader`.
    #[serde(default)]
    pub(crate) reader: bool,
}

/// Trust: the delegation of the role `member` in the project of the trustor to another user.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Trust {
    pub(crate) id: String,
    trustor_id: String,
    trustee_id: String,
    project_id: String,
}

impl Trust {
    /// Creates a trust without impersonation.
    pub(crate) fn new(trustor: &User, trustee: &User) -> Self {
        Self {
            id: crate::object::new_id().replace('-', ""),
            trustor_id: trustor.id.clone(),
            trustee_id: trustee.id.clone(),
            project_id: trustor.project_id.clone(),
        }
    }
}

/// Application credential: a secret with the rights of a user in a project.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ApplicationCredential {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) secret: String,
    pub(crate) user_id: String,
    pub(crate) project_id: String,
    #[serde(default)]
    pub(crate) expires_at: Option<Timestamp>,
    #[serde(default)]
    pub(crate) description: String,
    /// It may create others.
    #[serde(default)]
    pub(crate) unrestricted: bool,
    /// Requests that its tokens are for; `None` for all. Other services of this cloud do not compare them.
    #[serde(default)]
    pub(crate) access_rules: Option<Vec<Value>>,
}

/// Token that was issued.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Token {
    pub(crate) user_id: String,
    /// `None` for a token without a scope.
    pub(crate) project_id: Option<String>,
    pub(crate) methods: Vec<String>,
    pub(crate) application_credential: Option<String>,
    /// Id of the trust that the token is for.
    #[serde(default)]
    pub(crate) trust: Option<String>,
    pub(crate) issued_at: Timestamp,
    pub(crate) expires_at: Timestamp,
}

/// Returns an error in Keystone's format.
pub(crate) fn refusal(status: StatusCode, message: &str) -> Reply {
    let title = status.canonical_reason().unwrap_or_default();
    let body = json!({"error": {"code": status.as_u16(), "message": message, "title": title}});
    Reply::json(status, &body)
}

/// 401 in the words that Keystone and the middleware before every other service use.
pub(crate) fn unauthorized(request: &Request) -> Reply {
    refusal(StatusCode::UNAUTHORIZED, "The request you have made requires authentication.")
        .with_header(http::header::WWW_AUTHENTICATE, &format!("Keystone uri=\"{}/v3\"", request.base_url))
}

/// The caller that the request's token stands for, if it is good.
pub(crate) fn caller(state: &CloudState, request: &Request, now: Timestamp) -> Option<Caller> {
    let token = state.tokens.get(request.header("x-auth-token")?).filter(|token| token.expires_at > now)?;
    let user = state.users.iter().find(|user| user.id == token.user_id)?;
    let (project_id, user_id, own) = (token.project_id.clone()?, user.id.clone(), token.trust.is_none());
    // A trust delegates a role of the trustor, whatever the trustee has elsewhere.
    Some(Caller { project_id, user_id, admin: user.admin && own, reader: user.reader && own })
}

/// Returns the name of the project of a token.
pub(crate) fn project_of<'a>(state: &'a CloudState, token: &str) -> Option<&'a str> {
    let id = state.tokens.get(token)?.project_id.as_ref()?;
    state.project(id).map(|project| project.name.as_str())
}

/// Handles a call to Keystone.
pub(crate) fn handle(
    state: &mut CloudState,
    options: &SimulatorOptions,
    request: &Request,
    now: Timestamp,
) -> HandlerResult {
    let segments = request.segments();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    match (&request.method, segments.as_slice()) {
        (_, []) => Ok(catalog::versions(request)),
        (&Method::GET | &Method::HEAD, ["v3"]) => Ok(catalog::version(request)),
        (&Method::POST, ["v3", "auth", "tokens"]) => authentication::issue(state, options, request, now),
        (&Method::GET | &Method::HEAD, ["v3", "auth", "tokens"]) => validate(state, options, request, now),
        (&Method::DELETE, ["v3", "auth", "tokens"]) => revoke(state, request, now),
        (&Method::GET, ["v3", "auth", "catalog"]) => {
            let caller = caller(state, request, now).ok_or_else(|| unauthorized(request))?;
            let services = catalog::catalog(&request.base_url, &caller.project_id, options);
            Ok(Reply::ok(&json!({"catalog": services})))
        }
        (&Method::GET, ["v3", "auth", "projects"] | ["v3", "projects"]) => projects(state, request, now),
        (&Method::GET, ["v3", "projects", id]) => project(state, request, now, id),
        (_, ["v3", "regions", path @ ..]) => regions::handle(state, request, now, path),
        (&Method::GET, ["v3", "users"]) => {
            let caller = caller(state, request, now).ok_or_else(|| unauthorized(request))?;
            if caller.admin { Err(not_found_page()) } else { Err(forbidden("list_users")) }
        }
        (_, ["v3", "users", user, "application_credentials", path @ ..]) => {
            application_credentials::handle(state, request, now, (user, path))
        }
        _ if caller(state, request, now).is_none() => Err(unauthorized(request)),
        _ => Err(not_found_page()),
    }
}

/// 403 of a call for which the caller has no role.
fn forbidden(action: &str) -> Reply {
    let message = format!("You are not authorized to perform the requested action: identity:{action}.");
    refusal(StatusCode::FORBIDDEN, &message)
}

fn not_found_page() -> Reply {
    let page = "<!doctype html>\n<html lang=en>\n<title>404 Not Found</title>\n<h1>Not Found</h1>\n\
                <p>The requested URL was not found on the server. If you entered the URL manually please \
                check your spelling and try again.</p>\n";
    Reply::text(StatusCode::NOT_FOUND, "text/html; charset=utf-8", page)
}

fn subject<'a>(
    state: &'a CloudState,
    request: &'a Request,
    now: Timestamp,
) -> Result<(&'a str, &'a Token), Reply> {
    caller(state, request, now).ok_or_else(|| unauthorized(request))?;
    let id = request.header("x-subject-token").unwrap_or_default();
    let token = state.tokens.get(id).filter(|token| token.expires_at > now);
    let token = token.ok_or_else(|| refusal(StatusCode::NOT_FOUND, "Could not recognize Fernet token"))?;
    Ok((id, token))
}

fn validate(
    state: &CloudState,
    options: &SimulatorOptions,
    request: &Request,
    now: Timestamp,
) -> HandlerResult {
    let (id, token) = subject(state, request, now)?;
    // Only a service that promises to compare requests with the rules gets to know the user.
    let promised = request.header(ACCESS_RULES).and_then(|version| version.parse::<f64>().ok());
    let has_rules = credential_of(state, token).is_some_and(|held| held.access_rules.is_some());
    if has_rules && promised.is_none_or(|version| version < 1.0) {
        return Err(refusal(StatusCode::NOT_FOUND, "Failed to validate token"));
    }
    let reply = Reply::ok(&json!({"token": token_view(state, options, token, request)}));
    Ok(reply.with_header(HeaderName::from_static("x-subject-token"), id))
}

fn revoke(state: &mut CloudState, request: &Request, now: Timestamp) -> HandlerResult {
    let id = subject(state, request, now)?.0.to_owned();
    state.tokens.remove(&id);
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}

fn project_view(project: &Project, base_url: &str) -> Value {
    json!({
        "id": project.id, "name": project.name, "domain_id": "default", "description": "",
        "enabled": true, "parent_id": "default", "is_domain": false, "tags": [], "options": {},
        "links": {"self": format!("{base_url}/v3/projects/{}", project.id)},
    })
}

fn projects(state: &CloudState, request: &Request, now: Timestamp) -> HandlerResult {
    let caller = caller(state, request, now).ok_or_else(|| unauthorized(request))?;
    let visible = state.projects.iter().filter(|project| caller.owns(&project.id));
    let views: Vec<Value> = visible.map(|project| project_view(project, &request.base_url)).collect();
    let own = format!("{}{}", request.base_url, request.path);
    Ok(Reply::ok(&json!({"projects": views, "links": {"next": null, "self": own, "previous": null}})))
}

fn project(state: &CloudState, request: &Request, now: Timestamp, id: &str) -> HandlerResult {
    let caller = caller(state, request, now).ok_or_else(|| unauthorized(request))?;
    let project = state.projects.iter().find(|project| project.id == id && caller.owns(&project.id));
    let missing = || refusal(StatusCode::NOT_FOUND, &format!("Could not find project: {id}."));
    let project = project.ok_or_else(missing)?;
    Ok(Reply::ok(&json!({"project": project_view(project, &request.base_url)})))
}

/// Returns the token in Keystone's format.
fn token_view(state: &CloudState, options: &SimulatorOptions, token: &Token, request: &Request) -> Value {
    let mut view = Map::new();
    let user = state.users.iter().find(|user| user.id == token.user_id);
    let name = user.map(|user| user.name.clone()).unwrap_or_default();
    let domain = json!({"id": "default", "name": "Default"});
    let stamp = |time: Timestamp| time.strftime("%Y-%m-%dT%H:%M:%S.000000Z").to_string();
    view.insert("methods".to_owned(), json!(token.methods));
    let user_view = json!({"domain": domain, "id": token.user_id, "name": name, "password_expires_at": null});
    view.insert("user".to_owned(), user_view);
    view.insert("audit_ids".to_owned(), json!([crate::object::new_id()]));
    view.insert("issued_at".to_owned(), json!(stamp(token.issued_at)));
    view.insert("expires_at".to_owned(), json!(stamp(token.expires_at)));
    if let Some(project) = token.project_id.as_ref().and_then(|id| state.project(id)) {
        let project_view = json!({"domain": domain, "id": project.id, "name": project.name});
        view.insert("project".to_owned(), project_view);
        view.insert("is_domain".to_owned(), json!(false));
        let own = user.filter(|_| token.trust.is_none());
        let of_user = roles(own.is_some_and(|user| user.admin), own.is_some_and(|user| user.reader));
        view.insert("roles".to_owned(), of_user);
        if request.query.get("nocatalog").is_none() {
            let services = catalog::catalog(&request.base_url, &project.id, options);
            view.insert("catalog".to_owned(), services);
        }
    }
    let trust = token.trust.as_ref().and_then(|id| state.trusts.iter().find(|trust| trust.id == *id));
    if let Some(trust) = trust {
        let trust = json!({
            "id": trust.id, "impersonation": false, "trustor_user": {"id": trust.trustor_id},
            "trustee_user": {"id": trust.trustee_id},
        });
        view.insert("OS-TRUST:trust".to_owned(), trust);
    }
    if let Some(held) = credential_of(state, token) {
        let mut shown = json!({"id": held.id, "name": held.name, "restricted": true});
        if let Some(rules) = &held.access_rules {
            shown["access_rules"] = json!(rules);
        }
        view.insert("application_credential".to_owned(), shown);
    }
    Value::Object(view)
}

/// Returns the application credential that a token was issued for.
fn credential_of<'a>(state: &'a CloudState, token: &Token) -> Option<&'a ApplicationCredential> {
    let id = token.application_credential.as_ref()?;
    state.application_credentials.iter().find(|held| held.id == *id)
}

fn roles(admin: bool, reader_only: bool) -> Value {
    let member = json!({"id": "cee760e1a2364799916d73175d1cc710", "name": "member"});
    let reader = json!({"id": "42a1d045c2104b219b279871fdb7b1e8", "name": "reader"});
    if admin {
        json!([{"id": "0f0ccf2cf0a24d0c8ff3a1a4d8c7e1b2", "name": "admin"}, member, reader])
    } else if reader_only {
        json!([reader])
    } else {
        json!([member, reader])
    }
}
