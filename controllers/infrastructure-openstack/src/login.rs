//! Login: creates a session from credentials.

use std::{sync::Arc, time::Duration};

use controllers_infrastructure::{CloudError, CloudResult, Credentials, ErrorClass};
use http::{StatusCode, header};
use openstack_sdk::AuthError;
use openstack_sdk::auth::authtoken::AuthToken;
use reqwest::Url;
use serde_json::{Value, json};

use crate::allowed_endpoints::AllowedEndpoints;
use crate::catalog::Endpoints;
use crate::client::Client;
use crate::clouds_yaml::{self, Entry, Login, Method, invalid};
use crate::error_mapping::{refused, root_cause, unanswered, unreadable};
use crate::login_method::LoginRequest;
use crate::request::encode;
use crate::session::Session;
use crate::time::utc;
use crate::transport::{SendError, Transport, not_allowed};
use crate::trust;

/// Name of the service in errors.
pub(crate) const KEYSTONE: &str = "Keystone";

/// Attempt, as errors name it.
pub(crate) const OPERATION: &str = "log in";

/// Timeout of the probe and the login together.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(60);

/// Logs in at an allowed endpoint.
pub(crate) async fn log_in(
    credentials: &Credentials,
    allowed: &Arc<AllowedEndpoints>,
) -> CloudResult<Session> {
    match tokio::time::timeout(LOGIN_TIMEOUT, log_in_at_leisure(credentials, allowed)).await {
        Ok(result) => result,
        Err(_) => Err(CloudError::new(ErrorClass::Unreachable, OPERATION, "no response in time")),
    }
}

async fn log_in_at_leisure(
    credentials: &Credentials,
    allowed: &Arc<AllowedEndpoints>,
) -> CloudResult<Session> {
    let cloud = &credentials.cloud_name;
    let mut entry = clouds_yaml::entry(credentials)?;
    let method = entry.method(cloud)?;
    let auth_url = entry.auth_url(cloud)?.trim_end_matches('/').to_owned();
    let transport = transport(credentials, &entry, allowed)?;
    let identity = checked(&transport, cloud, "auth_url", &format!("{}/", versioned(&auth_url)))?;
    check_token_endpoint(&transport, cloud, &mut entry.auth, method).await?;

    probe_keystone(&transport, cloud, &auth_url).await?;
    if method == Method::ApplicationCredential && entry.auth.application_credential_id.is_none() {
        let id = application_credential_id(&transport, &auth_url, &entry.auth).await?;
        entry.auth.application_credential_id = Some(id);
    }
    let (token, again) = match &entry.auth.trust_id {
        Some(_) if method != Method::Password => return Err(trust::needs_password(cloud)),
        // The SDK would log in again without the trust, so the session ends with this token.
        Some(trust) => (trust::log_in(&transport, &auth_url, &entry.auth, trust).await?, None),
        None => {
            let login = LoginRequest::new(&entry.auth, method, identity);
            (login.send(&transport).await.map_err(|error| failed(&error))?, Some(login))
        }
    };
    session(Client::new(transport, token, again), credentials, &entry, &auth_url, method).await
}

/// Returns the session of a client that has logged in.
async fn session(
    client: Client,
    credentials: &Credentials,
    entry: &Entry,
    auth_url: &str,
    method: Method,
) -> CloudResult<Session> {
    let region = credentials.region.as_deref().or(entry.region_name.as_deref());
    let token = client.token();
    let endpoints = Endpoints::read(&token, region.filter(|name| !name.is_empty()), entry.interface())?;
    let expiry = credentials_expire_at(&client, &token, auth_url, &entry.auth, method).await;
    Ok(Session::new(client, endpoints, expiry))
}

/// Checks a URL of `clouds.yaml`. The error names the field.
fn checked(transport: &Transport, cloud: &str, field: &str, url: &str) -> CloudResult<Url> {
    transport.check(url).map_err(|why| refused_endpoint(cloud, field, &why))
}

/// Returns the error of an endpoint that is not allowed.
fn refused_endpoint(cloud: &str, field: &str, why: &str) -> CloudError {
    invalid(format!("cloud {cloud:?}: auth.{field}: {why}"))
}

/// Checks the URL at which OpenID Connect gives a token. If the credentials only name the document of the issuer, it is
/// read here: the SDK would use its URLs without a check.
async fn check_token_endpoint(
    transport: &Transport,
    cloud: &str,
    login: &mut Login,
    method: Method,
) -> CloudResult<()> {
    if method != Method::OidcClientCredentials {
        return Ok(());
    }
    let (field, found) = match (&login.access_token_endpoint, &login.discovery_endpoint) {
        (Some(endpoint), _) => ("access_token_endpoint", endpoint.clone()),
        (None, Some(document)) => {
            ("discovery_endpoint", token_endpoint(transport, cloud, document.trim()).await?)
        }
        (None, None) => return Err(clouds_yaml::missing(cloud, "access_token_endpoint")),
    };
    let url = checked(transport, cloud, field, found.trim())?;
    login.access_token_endpoint = Some(url.into());
    Ok(())
}

/// Reads the URL for tokens from the document of an issuer.
async fn token_endpoint(transport: &Transport, cloud: &str, document: &str) -> CloudResult<String> {
    let url = checked(transport, cloud, "discovery_endpoint", document)?;
    let operation = format!("GET {}", url.path());
    let request = http::Request::builder().uri(url.as_str()).header(header::ACCEPT, "application/json");
    let answer = send(transport, request, Vec::new()).await;
    let answer = answer.map_err(|error| unanswered(&operation, true, &error))?;
    if !answer.status().is_success() {
        return Err(refused(&operation, &answer));
    }
    let found: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
    let endpoint = found.get("token_endpoint").and_then(Value::as_str).map(str::to_owned);
    endpoint.ok_or_else(|| unreadable(&operation, &answer, "it names no token_endpoint"))
}

/// Sends a request without a token.
pub(crate) async fn send(
    transport: &Transport,
    request: http::request::Builder,
    body: Vec<u8>,
) -> Result<http::Response<bytes::Bytes>, SendError> {
    let request = request.body(body).map_err(|error| SendError::Invalid(error.to_string()))?;
    transport.send(request, None).await
}

/// Returns when the credentials end: a password by the token's word, an application credential by its own. A cloud that
/// does not show it is no error.
async fn credentials_expire_at(
    client: &Client,
    token: &AuthToken,
    auth_url: &str,
    login: &Login,
    method: Method,
) -> Option<String> {
    let user = &token.auth_info.as_ref()?.token.user;
    let printed = match (&login.application_credential_id, method) {
        (Some(id), Method::ApplicationCredential) => {
            let (root, user, id) = (versioned(auth_url), encode(&user.id), encode(id));
            let request = http::Request::builder()
                .uri(format!("{root}/users/{user}/application_credentials/{id}"))
                .header(header::ACCEPT, "application/json");
            let answer = client.send(request, Vec::new(), None).await.ok()?;
            let found: Value = serde_json::from_slice(answer.body()).ok()?;
            found.pointer("/application_credential/expires_at")?.as_str()?.to_owned()
        }
        _ => user.password_expires_at.clone()?,
    };
    Some(utc(&printed)).filter(|text| !text.is_empty())
}

/// Returns the address of version 3 of Keystone, without a slash at its end.
pub(crate) fn versioned(auth_url: &str) -> String {
    // Old files name version 2, which Keystone no longer has.
    let root = auth_url.strip_suffix("/v2.0").unwrap_or(auth_url);
    if root.ends_with("/v3") { root.to_owned() } else { format!("{root}/v3") }
}

/// Creates the HTTP client of a session, which trusts the CAs of the credentials.
fn transport(
    credentials: &Credentials,
    entry: &Entry,
    allowed: &Arc<AllowedEndpoints>,
) -> CloudResult<Transport> {
    let cloud = &credentials.cloud_name;
    let authority = authority(credentials, entry)?;
    let created = Transport::new(Arc::clone(allowed), authority, entry.verify != Some(false));
    created.map_err(|why| match authority {
        Some(_) => invalid(format!("cloud {cloud:?}: cacert cannot be used: {why}")),
        None => {
            CloudError::new(ErrorClass::Broken, OPERATION, format!("cannot create an HTTP client: {why}"))
        }
    })
}

/// Returns the CAs of the credentials, in PEM.
fn authority<'a>(credentials: &'a Credentials, entry: &'a Entry) -> CloudResult<Option<&'a str>> {
    let cloud = &credentials.cloud_name;
    let pem = match (&credentials.ca_certificate, &entry.cacert) {
        (Some(pem), _) => pem,
        (None, Some(pem)) if pem.contains("-----BEGIN") => pem,
        // A path on the author's machine; here it would name a file of ours.
        (None, Some(_)) => {
            return Err(invalid(format!(
                "cloud {cloud:?}: cacert names a file; put the certificate into the Secret's key \"cacert\""
            )));
        }
        (None, None) => return Ok(None),
    };
    if !pem.contains("-----BEGIN CERTIFICATE-----") {
        return Err(invalid(format!("cloud {cloud:?}: cacert holds no PEM certificate")));
    }
    Ok(Some(pem))
}

/// Probes Keystone, so that errors of the address, of its certificate or of the server there are known before credentials
/// are sent.
async fn probe_keystone(transport: &Transport, cloud: &str, auth_url: &str) -> CloudResult<()> {
    let operation = format!("GET {auth_url}");
    let request = http::Request::builder().uri(auth_url).header(header::ACCEPT, "application/json");
    let answer = send(transport, request, Vec::new()).await.map_err(|error| match error {
        SendError::NotAllowed(why) => refused_endpoint(cloud, "auth_url", &why),
        error => unanswered(&operation, true, &error).of_service(KEYSTONE),
    })?;
    let status = answer.status();
    if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
        return Err(refused(&operation, &answer).of_service(KEYSTONE));
    }
    if status.is_success() && serde_json::from_slice::<Value>(answer.body()).is_err() {
        return Err(unreadable(&operation, &answer, "this is not Keystone").of_service(KEYSTONE));
    }
    Ok(())
}

/// Returns the id of an application credential that is given by its name and its user.
///
/// The SDK's plugin does not pass the name on (0.22.7). So this function reads the id from Keystone once;
/// after that the SDK logs in by the id.
async fn application_credential_id(
    transport: &Transport,
    auth_url: &str,
    login: &Login,
) -> CloudResult<String> {
    let root = versioned(auth_url);
    let user = match &login.user_id {
        Some(id) => json!({"id": id}),
        None => json!({"name": login.username, "domain": user_domain(login)}),
    };
    let credential = json!({
        "name": login.application_credential_name,
        "secret": login.application_credential_secret,
        "user": user,
    });
    let identity = json!({"methods": ["application_credential"], "application_credential": credential});
    let body = json!({"auth": {"identity": identity}}).to_string().into_bytes();
    let request = http::Request::builder()
        .method(http::Method::POST)
        .uri(format!("{root}/auth/tokens?nocatalog"))
        .header(header::CONTENT_TYPE, "application/json");
    let answer = send(transport, request, body)
        .await
        .map_err(|error| unanswered(OPERATION, true, &error).of_service(KEYSTONE))?;
    if !answer.status().is_success() {
        return Err(refused(OPERATION, &answer).of_service(KEYSTONE));
    }
    let token: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
    match token.pointer("/token/application_credential/id").and_then(Value::as_str) {
        Some(id) => Ok(id.to_owned()),
        None => {
            Err(unreadable(OPERATION, &answer, "the token names no application credential")
                .of_service(KEYSTONE))
        }
    }
}

pub(crate) fn user_domain(login: &Login) -> Value {
    let id = login.user_domain_id.as_ref().or(login.default_domain_id.as_ref());
    match (id, &login.user_domain_name) {
        (_, Some(name)) => json!({"name": name}),
        (Some(id), None) => json!({"id": id}),
        (None, None) => json!({"id": login.default_domain.as_deref().unwrap_or("default")}),
    }
}

/// Maps the SDK's error of a login.
fn failed(error: &AuthError) -> CloudError {
    let (class, status, message) = match error {
        AuthError::Identity(said) => {
            let status = u16::try_from(said.code).unwrap_or_default();
            (login_class(status), Some(status), said.message.clone())
        }
        AuthError::UnknownAuth { code: code @ 300..=399, .. } => {
            let message = format!("Keystone redirects with {code}, and Capstan follows no redirects");
            (ErrorClass::Credentials, Some(*code), message)
        }
        AuthError::UnknownAuth { code, .. } => {
            (login_class(*code), Some(*code), format!("Keystone answered {code}"))
        }
        AuthError::Reqwest { source } => {
            let refusal = not_allowed(source);
            let class = match &refusal {
                Some(_) => ErrorClass::Credentials,
                None if source.is_decode() => ErrorClass::Broken,
                None => ErrorClass::Unreachable,
            };
            (class, None, refusal.unwrap_or_else(|| root_cause(source)))
        }
        AuthError::AuthReceipt(_) => {
            (ErrorClass::Credentials, None, "the user needs a second factor".to_owned())
        }
        AuthError::Url { .. } => (ErrorClass::Credentials, None, format!("auth_url: {error}")),
        // Its other errors are about missing values, and quote none.
        other => (ErrorClass::Broken, None, root_cause(other)),
    };
    let service = status.map(|_| KEYSTONE);
    CloudError { service, status, ..CloudError::new(class, OPERATION, message) }
}

const fn login_class(status: u16) -> ErrorClass {
    match status {
        401 => ErrorClass::Unauthorized,
        403 => ErrorClass::Forbidden,
        429 => ErrorClass::Throttled,
        400 => ErrorClass::Credentials,
        _ => ErrorClass::Broken,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_version_3_follows_from_that_of_keystone() {
        for (given, expected) in [
            ("https://k/v3", "https://k/v3"),
            ("https://k:5000", "https://k:5000/v3"),
            ("https://k/identity/v2.0", "https://k/identity/v3"),
        ] {
            assert_eq!(versioned(given), expected);
        }
    }
}
