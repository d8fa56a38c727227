//! Login: creates a session from credentials.

use std::{io::Write, time::Duration};

use controllers_infrastructure::{CloudError, CloudResult, Credentials, ErrorClass};
use http::{StatusCode, header};
use openstack_sdk::{
    AsyncOpenStack, AuthError, OpenStackError, api::AsyncClient, config::Auth, config::CloudConfig,
};
// Login methods register themselves when they are linked. The SDK intends to link them all, but its
// build script searches for them in a form of Cargo.toml that the registry does not keep (0.22.8). So
// only those that its code names are linked: password, token and TOTP.
use openstack_sdk_auth_applicationcredential as _;
use openstack_sdk_auth_oidcaccesstoken as _;
use openstack_sdk_auth_oidcclientcredentials as _;
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::catalog::Endpoints;
use crate::clouds_yaml::{self, Entry, Login, Method, invalid};
use crate::error_mapping::{refused, root_cause, unanswered, unreadable};
use crate::request::encode;
use crate::session::Session;
use crate::time::utc;
use crate::trust;

/// Name of the service in errors.
pub(crate) const KEYSTONE: &str = "Keystone";

/// Attempt, as errors name it.
pub(crate) const OPERATION: &str = "log in";

/// Timeout of a connection: even a distant cloud connects within a second.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout of a call. In some calls Nova waits for Neutron and Cinder, by default up to 30 seconds each.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Timeout of version discovery and login together.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(60);

/// Logs in.
pub(crate) async fn log_in(credentials: &Credentials) -> CloudResult<Session> {
    match tokio::time::timeout(LOGIN_TIMEOUT, log_in_at_leisure(credentials)).await {
        Ok(result) => result,
        Err(_) => Err(CloudError::new(ErrorClass::Unreachable, OPERATION, "no response in time")),
    }
}

async fn log_in_at_leisure(credentials: &Credentials) -> CloudResult<Session> {
    let cloud = &credentials.cloud_name;
    let mut entry = clouds_yaml::entry(credentials)?;
    let method = entry.method(cloud)?;
    let auth_url = entry.auth_url(cloud)?.trim_end_matches('/').to_owned();
    let certificate = certificate_file(credentials, &entry)?;
    let path = certificate.as_ref().map(|file| file.path().to_string_lossy().into_owned());

    let probe = nobody(&config(&entry, method, path.as_deref()), cloud)?;
    probe_keystone(&probe, &auth_url).await?;
    if method == Method::ApplicationCredential && entry.auth.application_credential_id.is_none() {
        let id = application_credential_id(&probe, &auth_url, &entry.auth).await?;
        entry.auth.application_credential_id = Some(id);
    }

    let config = config(&entry, method, path.as_deref());
    if let Some(trust) = &entry.auth.trust_id {
        if method != Method::Password {
            return Err(trust::needs_password(cloud));
        }
        let client = trust::log_in(&probe, &config, &auth_url, &entry.auth, trust).await?;
        return session(client, credentials, &entry, &auth_url, method).await;
    }
    let client = AsyncOpenStack::builder(&config)
        // The SDK would store tokens in files of the home directory.
        .disable_auth_cache(true)
        .http_timeout(CALL_TIMEOUT)
        .http_connect_timeout(CONNECT_TIMEOUT)
        .http_pool_max_idle_per_host(32)
        .connect()
        .await
        .map_err(|error| failed(&error))?;
    session(client, credentials, &entry, &auth_url, method).await
}

/// Returns the session of a client that has logged in.
async fn session(
    client: AsyncOpenStack,
    credentials: &Credentials,
    entry: &Entry,
    auth_url: &str,
    method: Method,
) -> CloudResult<Session> {
    let region = credentials.region.as_deref().or(entry.region_name.as_deref());
    let endpoints = Endpoints::read(&client, region.filter(|name| !name.is_empty()), entry.interface())?;
    let expiry = credentials_expire_at(&client, auth_url, &entry.auth, method).await;
    Ok(Session::new(client, endpoints, expiry))
}

/// Returns when the credentials end: a password by the token's word, an application credential by its own. A cloud that
/// does not show it is no error.
async fn credentials_expire_at(
    client: &AsyncOpenStack,
    auth_url: &str,
    login: &Login,
    method: Method,
) -> Option<String> {
    let user = client.get_auth_info()?.token.user;
    let printed = match (&login.application_credential_id, method) {
        (Some(id), Method::ApplicationCredential) => {
            let (root, user, id) = (versioned(auth_url), encode(&user.id), encode(id));
            let request = http::Request::builder()
                .uri(format!("{root}/users/{user}/application_credentials/{id}"))
                .header(header::ACCEPT, "application/json");
            let answer = client.rest_async(request, Vec::new()).await.ok()?;
            let found: Value = serde_json::from_slice(answer.body()).ok()?;
            found.pointer("/application_credential/expires_at")?.as_str()?.to_owned()
        }
        _ => user.password_expires_at?,
    };
    Some(utc(&printed)).filter(|text| !text.is_empty())
}

/// Returns the address of version 3 of Keystone.
pub(crate) fn versioned(auth_url: &str) -> String {
    if auth_url.ends_with("/v3") { auth_url.to_owned() } else { format!("{auth_url}/v3") }
}

/// Writes certificates to a file, because the SDK reads them from a path while it builds its client. The
/// file exists no longer than that, and only our user may read it.
fn certificate_file(credentials: &Credentials, entry: &Entry) -> CloudResult<Option<NamedTempFile>> {
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
    let write = || {
        let mut file = NamedTempFile::new()?;
        file.write_all(pem.as_bytes())?;
        file.flush()?;
        Ok(file)
    };
    write().map(Some).map_err(|error: std::io::Error| {
        CloudError::new(ErrorClass::Broken, OPERATION, format!("cannot keep the CA certificate: {error}"))
    })
}

/// Creates a client without a login. This sends nothing, so an error of its HTTP client can only be about
/// the certificate.
fn nobody(config: &CloudConfig, cloud: &str) -> CloudResult<AsyncOpenStack> {
    AsyncOpenStack::new_impl(config, openstack_sdk::auth::Auth::None).map_err(|error| match &error {
        OpenStackError::Communication { source } if config.cacert.is_some() => {
            invalid(format!("cloud {cloud:?}: cacert cannot be used: {}", root_cause(source)))
        }
        _ => failed(&error),
    })
}

/// Probes Keystone. The SDK's own discovery loses the reason of a failure, so errors of the address, of
/// its certificate or of the server there are only known here.
async fn probe_keystone(probe: &AsyncOpenStack, auth_url: &str) -> CloudResult<()> {
    let operation = format!("GET {auth_url}");
    let request = http::Request::builder().uri(auth_url).header(header::ACCEPT, "application/json");
    let answer = probe
        .rest_async(request, Vec::new())
        .await
        .map_err(|error| unanswered(&operation, true, &error).of_service(KEYSTONE))?;
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
    probe: &AsyncOpenStack,
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
    let answer = probe
        .rest_async(request, body)
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

/// Returns the SDK's configuration. An application credential implies its project; Keystone refuses a
/// login that names one as well.
fn auth(login: &Login, method: Method) -> Auth {
    let scoped = method != Method::ApplicationCredential;
    let scope = |value: &Option<String>| value.clone().filter(|_| scoped);
    let domain = login.default_domain_id.clone().or_else(|| login.default_domain.clone());
    let secret = |value: &Option<String>| value.clone().map(Into::into);
    Auth {
        auth_url: login.auth_url.clone(),
        username: login.username.clone(),
        user_id: login.user_id.clone(),
        user_domain_name: login.user_domain_name.clone().or_else(|| login.domain_name.clone()),
        user_domain_id: match (&login.user_domain_name, &login.domain_name) {
            (None, None) => {
                login.user_domain_id.clone().or_else(|| login.domain_id.clone()).or_else(|| domain.clone())
            }
            _ => login.user_domain_id.clone(),
        },
        password: secret(&login.password),
        token: secret(&login.token),
        passcode: secret(&login.passcode),
        project_id: scope(&login.project_id).or_else(|| scope(&login.tenant_id)),
        project_name: scope(&login.project_name).or_else(|| scope(&login.tenant_name)),
        project_domain_name: scope(&login.project_domain_name),
        project_domain_id: scope(&login.project_domain_id)
            .or_else(|| scope(&domain).filter(|_| login.project_domain_name.is_none())),
        application_credential_id: login.application_credential_id.clone(),
        application_credential_secret: secret(&login.application_credential_secret),
        identity_provider: login.identity_provider.clone(),
        protocol: login.protocol.clone(),
        access_token: secret(&login.access_token),
        access_token_endpoint: login.access_token_endpoint.clone(),
        discovery_endpoint: login.discovery_endpoint.clone(),
        client_id: login.client_id.clone(),
        client_secret: secret(&login.client_secret),
        ..Auth::default()
    }
}

fn config(entry: &Entry, method: Method, certificate: Option<&str>) -> CloudConfig {
    CloudConfig {
        auth: Some(auth(&entry.auth, method)),
        auth_type: Some(method.name().to_owned()),
        auth_methods: entry.auth_methods.clone(),
        // The SDK stores auth_url itself under this name, and finds it under no other one. `Endpoints`
        // decides on the interface of our calls.
        interface: Some("public".to_owned()),
        cacert: certificate.map(str::to_owned),
        verify: entry.verify,
        auth_cache: Some(false),
        ..CloudConfig::default()
    }
}

/// Maps the SDK's error of a login.
pub(crate) fn failed(error: &OpenStackError) -> CloudError {
    let (class, status, message) = match error {
        OpenStackError::AuthError { source: AuthError::Identity(said) } => {
            let status = u16::try_from(said.code).unwrap_or_default();
            (login_class(status), Some(status), said.message.clone())
        }
        OpenStackError::AuthError { source: AuthError::UnknownAuth { code, .. } } => {
            (login_class(*code), Some(*code), format!("Keystone answered {code}"))
        }
        OpenStackError::AuthError { source: AuthError::Reqwest { source } }
        | OpenStackError::Communication { source } => {
            let class = if source.is_decode() { ErrorClass::Broken } else { ErrorClass::Unreachable };
            (class, None, root_cause(source))
        }
        OpenStackError::AuthError { source: AuthError::AuthReceipt(_) } => {
            (ErrorClass::Credentials, None, "the user needs a second factor".to_owned())
        }
        OpenStackError::Discovery { .. } => {
            (ErrorClass::Broken, None, "auth_url does not lead to Keystone".to_owned())
        }
        OpenStackError::UrlParse { .. } | OpenStackError::InvalidUri { .. } => {
            (ErrorClass::Credentials, None, format!("auth_url: {error}"))
        }
        // Its other errors are about files and plugins, and quote no values.
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
