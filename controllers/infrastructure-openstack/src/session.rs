//! Session: sends calls as one user, to one project, in one region.

mod calls;
mod versions;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use controllers_infrastructure::{AlwaysPermitted, CallPermit, CloudError, CloudResult};
use http::Response;
use secrecy::ExposeSecret;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::catalog::Endpoints;
use crate::client::Client;
use crate::error_mapping::{request_id, unreadable};
use crate::metrics::CloudMetrics;
use crate::rate_limit::{Gates, RateLimit};
use crate::request::{Request, Service};

/// Session of one user.
pub(crate) struct Session {
    client: Client,
    endpoints: Endpoints,
    project: String,
    user: String,
    gates: Arc<Gates>,
    nova_minor: OnceCell<u32>,
    octavia_minor: OnceCell<Option<u32>>,
    network_extensions: OnceCell<Vec<String>>,
    refused: AtomicBool,
    credentials_expire_at: Option<String>,
    /// Time of the login, in seconds since 1970.
    begun: i64,
    permit: Arc<dyn CallPermit>,
    metrics: CloudMetrics,
}

impl Session {
    pub(crate) fn new(client: Client, endpoints: Endpoints, credentials_expire_at: Option<String>) -> Self {
        let gates = Arc::new(Service::ALL.map(|_| RateLimit::default()));
        let project = project(&client).unwrap_or_default();
        let user =
            client.token().auth_info.as_ref().map(|info| info.token.user.id.clone()).unwrap_or_default();
        Self {
            client,
            endpoints,
            project,
            user,
            gates,
            nova_minor: OnceCell::new(),
            octavia_minor: OnceCell::new(),
            network_extensions: OnceCell::new(),
            refused: AtomicBool::new(false),
            credentials_expire_at,
            begun: jiff::Timestamp::now().as_second(),
            permit: Arc::new(AlwaysPermitted),
            metrics: CloudMetrics::default(),
        }
    }

    /// Makes the session wait for this permit before each call that changes something.
    pub(crate) fn with_permit(self, permit: Arc<dyn CallPermit>) -> Self {
        Self { permit, ..self }
    }

    /// Makes the session record its calls and its limits in these metrics.
    pub(crate) fn with_metrics(self, metrics: CloudMetrics) -> Self {
        metrics.watch(&self.gates);
        Self { metrics, ..self }
    }

    /// Returns the region of all calls.
    pub(crate) fn region(&self) -> &str {
        self.endpoints.region()
    }

    /// Returns the id of the project of the token; empty if the token has none.
    pub(crate) fn project(&self) -> &str {
        &self.project
    }

    /// Returns the id of the user of the token.
    pub(crate) fn user(&self) -> &str {
        &self.user
    }

    /// Returns when the credentials end, if the cloud says so.
    pub(crate) fn credentials_expire_at(&self) -> Option<&str> {
        self.credentials_expire_at.as_deref()
    }

    /// Returns true if the cloud refuses our token, and even a new one.
    pub(crate) fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// Returns the URL of the account in Swift, and a token for it.
    pub(crate) fn object_store(&self) -> CloudResult<(String, String)> {
        let url = self.endpoints.object_store()?.to_owned();
        Ok((url, self.client.token().token.expose_secret().to_owned()))
    }

    /// Returns begin and end of the token, in seconds since 1970; `None` without a token.
    pub(crate) fn token_times(&self) -> Option<(i64, i64)> {
        let known = self.client.token();
        let token = &known.auth_info.as_ref()?.token;
        let end = token.expires_at.timestamp();
        Some((token.issued_at.map_or(self.begun, |issued| issued.timestamp()), end))
    }

    /// Makes a call and reads its JSON.
    pub(crate) async fn json<T: DeserializeOwned>(&self, request: &Request) -> CloudResult<T> {
        self.read(request, serde_json::from_value).await
    }

    /// Makes a call and reads the value under `key` of its JSON.
    pub(crate) async fn under<T: DeserializeOwned>(&self, request: &Request, key: &str) -> CloudResult<T> {
        self.read(request, |mut value| take(&mut value, key)).await
    }

    /// Makes a call and converts its JSON.
    pub(crate) async fn read<T>(
        &self,
        request: &Request,
        interpret: impl FnOnce(Value) -> serde_json::Result<T> + Send,
    ) -> CloudResult<T> {
        let answer = self.send(request).await?;
        serde_json::from_slice(answer.body())
            .and_then(interpret)
            .map_err(|error| not_json(request, &answer, &error))
    }

    /// Makes a call and ignores the body of its response. Returns its request id.
    pub(crate) async fn done(&self, request: &Request) -> CloudResult<Option<String>> {
        Ok(request_id(self.send(request).await?.headers()))
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not the client: it knows the token and the password.
        f.debug_struct("Session").field("endpoints", &self.endpoints).finish_non_exhaustive()
    }
}

/// Returns the id of the project of the token.
fn project(client: &Client) -> Option<String> {
    client.token().auth_info.as_ref()?.token.project.as_ref()?.id.clone()
}

/// Returns the value under `key` of a JSON object; a missing one is `null`, which most types refuse.
pub(crate) fn take<T: DeserializeOwned>(value: &mut Value, key: &str) -> serde_json::Result<T> {
    serde_json::from_value(value.get_mut(key).map_or(Value::Null, Value::take))
}

/// Returns the error for a success whose JSON cannot be read.
fn not_json(request: &Request, answer: &Response<Bytes>, error: &serde_json::Error) -> CloudError {
    unreadable(&request.operation(), answer, &error.to_string()).of_service(request.service.name())
}
