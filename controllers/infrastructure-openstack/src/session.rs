//! Session: sends calls as one user, to one project, in one region.

use std::{
    sync::Arc,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use apiserver_trace::{Kind, Span};
use bytes::Bytes;
use controllers_infrastructure::{AlwaysPermitted, CallPermit, CloudError, CloudResult, ErrorClass};
use http::{Response, header};
use secrecy::ExposeSecret;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::catalog::Endpoints;
use crate::change::{self, Change};
use crate::client::Client;
use crate::error_mapping::{refused, request_id, unanswered, unreadable};
use crate::metrics::CloudMetrics;
use crate::rate_limit::{Gates, RateLimit, Verdict};
use crate::request::{Request, Service};
use crate::transport::SendError;

/// Nova microversion that this crate is written for: 2.93 is the first that rebuilds a server that boots
/// from a volume.
const NOVA_WANTED: u32 = 93;

/// Oldest supported Nova microversion: 2.58 is the first whose action log has pages and times of change.
/// The other features that we need (tags on create 2.52, user data on rebuild 2.57) are older. Queens
/// (2018) has 2.60.
const NOVA_NEEDED: u32 = 58;

/// Header with the version of Manila's API.
const MANILA_VERSION: &str = "X-OpenStack-Manila-API-Version";

/// Manila microversion that is requested: its CSI driver requires 2.37, so each cloud with shares of that driver has it.
/// Pike (2017) has 2.40. The list of a version before 2.9 also reads the export locations of each share.
const MANILA_WANTED: &str = "2.37";

/// Intervals before the retries of an idempotent call.
const PAUSES: [Duration; 2] = [Duration::from_millis(250), Duration::from_millis(1000)];

/// Attempts to write a request that changes something within the time of its permit, on a connection that takes it.
const ATTEMPTS: usize = 5;

/// Extension of Neutron.
#[derive(serde::Deserialize)]
struct Extension {
    alias: String,
}

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

    /// Makes a call; a response that is not a success is an error.
    async fn send(&self, request: &Request) -> CloudResult<Response<Bytes>> {
        if request.names_nothing() {
            let message = "an id is empty or not an id";
            return Err(CloudError::new(ErrorClass::NotFound, request.operation(), message));
        }
        let mut pauses = PAUSES.iter();
        loop {
            let error = match self.send_once(request).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            match pauses.next() {
                Some(pause) if request.is_repeatable() && is_passing(&error) => {
                    tokio::time::sleep(*pause).await;
                }
                _ => return Err(error),
            }
        }
    }

    async fn send_once(&self, request: &Request) -> CloudResult<Response<Bytes>> {
        let minor = match request.service {
            Service::Compute => Some(self.nova_minor().await?),
            Service::Network
            | Service::Image
            | Service::Volume
            | Service::LoadBalancer
            | Service::Share
            | Service::Identity => None,
        };
        let url = self.endpoints.url(request)?;
        self.exchange(request, &url, minor).await
    }

    /// Makes one HTTP request (or two, if the token had expired: the SDK logs in again on a 401).
    async fn exchange(
        &self,
        request: &Request,
        url: &str,
        minor: Option<u32>,
    ) -> CloudResult<Response<Bytes>> {
        let gate = &self.gates[position(request.service)];
        let leave = gate.enter().await;
        let mut change = None;
        if !request.is_read() {
            // Last: the gate may have waited for a minute.
            let step = request.operation();
            change = Some(self.metrics.permitted(Change::begin(&self.permit, &step)).await);
        }
        let global_id = change.as_ref().and_then(Change::id).map(str::to_owned);
        let started = Instant::now();
        let result = self.write(request, url, minor, change.as_ref()).await;
        if let Some(change) = &mut change {
            change.ended();
        }
        let took = started.elapsed();
        let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let status = result.as_ref().ok().map(|answer| answer.status().as_u16());
        self.metrics.record(request.service, &request.method, status, took);
        let (outcome, verdict) = match result {
            Ok(answer) => {
                let id = request_id(answer.headers());
                tracing::debug!(method = %request.method, path = request.path, status, ms, request.id = id,
                    request.global_id = global_id, "cloud call");
                judge(request, answer)
            }
            Err(error) => {
                let error = unanswered(&request.operation(), request.is_read(), &error)
                    .of_service(request.service.name());
                tracing::debug!(method = %request.method, path = request.path, ms, error = error.message,
                    request.global_id = global_id, "cloud call got no response");
                (Err(error), Verdict::Failed)
            }
        };
        gate.leave(leave, verdict);
        if matches!(&outcome, Err(error) if error.class == ErrorClass::Unauthorized) {
            self.refused.store(true, Ordering::Relaxed);
        }
        outcome
    }

    /// Writes a request, and reads its response. If the permit of a change is too old when the request could be written,
    /// or the cloud has not begun the request, the permit is requested again.
    async fn write(
        &self,
        request: &Request,
        url: &str,
        minor: Option<u32>,
        change: Option<&Change>,
    ) -> Result<Response<Bytes>, SendError> {
        let permit = change.map(Change::permit);
        let mut attempts = 1..ATTEMPTS;
        loop {
            let (builder, body) = build(request, url, minor, change.and_then(Change::id));
            let sent = traced(request, self.client.send(builder, body, permit)).await;
            let is_unsent = sent.as_ref().is_err_and(SendError::is_unsent);
            match permit {
                Some(permit) if is_unsent && attempts.next().is_some() => {
                    self.metrics.permitted(permit.granted()).await;
                }
                _ => return sent,
            }
        }
    }

    /// Returns the aliases of Neutron's extensions, which are read once.
    pub(crate) async fn network_extensions(&self) -> CloudResult<&[String]> {
        let read = || async {
            let request = Request::get(Service::Network, "/extensions");
            let found: Vec<Extension> = self.under(&request, "extensions").await?;
            Ok(found.into_iter().map(|extension| extension.alias).collect())
        };
        self.network_extensions.get_or_try_init(read).await.map(Vec::as_slice)
    }

    /// Returns the newest minor version of Octavia; `None` if it does not say.
    pub(crate) async fn octavia_minor(&self) -> CloudResult<Option<u32>> {
        let read = || async {
            let request = Request::get(Service::LoadBalancer, "/");
            let url = self.endpoints.load_balancer_versions()?;
            let answer = self.exchange(&request, &url, None).await?;
            let found: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
            let versions = found.get("versions").and_then(Value::as_array);
            let ids = versions.into_iter().flatten().filter_map(|version| version.get("id")?.as_str());
            let minors = ids.filter_map(|id| id.strip_prefix("v2.")?.parse().ok());
            Ok(minors.max())
        };
        self.octavia_minor.get_or_try_init(read).await.copied()
    }

    /// Returns the microversion to use: the newest that both we and the cloud know.
    pub(crate) async fn nova_minor(&self) -> CloudResult<u32> {
        self.nova_minor.get_or_try_init(|| self.ask_nova_version()).await.copied()
    }

    async fn ask_nova_version(&self) -> CloudResult<u32> {
        let request = Request::get(Service::Compute, "/");
        let url = self.endpoints.compute_versions()?;
        let answer = self.exchange(&request, &url, None).await?;
        let versions: Value =
            serde_json::from_slice(answer.body()).map_err(|error| not_json(&request, &answer, &error))?;
        let highest = versions.pointer("/version/version").and_then(Value::as_str).unwrap_or_default();
        let (class, message) = match highest.strip_prefix("2.").and_then(|minor| minor.parse::<u32>().ok()) {
            Some(minor) if minor >= NOVA_NEEDED => return Ok(minor.min(NOVA_WANTED)),
            Some(minor) => {
                let message =
                    format!("the newest microversion is 2.{minor}, and Capstan needs 2.{NOVA_NEEDED}");
                (ErrorClass::TooOld, message)
            }
            None => (ErrorClass::Broken, format!("microversion {highest:?} is none of Nova")),
        };
        Err(CloudError::new(class, request.operation(), message).of_service(request.service.name()))
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

/// Sends a call within a span: the service, the path without ids, the code and the request id of the response.
async fn traced<E>(
    request: &Request,
    sending: impl Future<Output = Result<Response<Bytes>, E>>,
) -> Result<Response<Bytes>, E> {
    let span = Span::child("cloud call", Kind::Client);
    let answered = span.around(sending).await;
    if span.is_recorded() {
        span.set("openstack.service", request.service.name());
        span.set("http.request.method", request.method.as_str().to_owned());
        span.set("url.template", request.path_template());
        match &answered {
            Ok(answer) => {
                span.set("http.response.status_code", i64::from(answer.status().as_u16()));
                span.set("openstack.request_id", request_id(answer.headers()).unwrap_or_default());
            }
            Err(_) => span.fail("no response"),
        }
    }
    answered
}

fn position(service: Service) -> usize {
    Service::ALL.iter().position(|known| *known == service).unwrap_or_default()
}

fn build(
    request: &Request,
    url: &str,
    minor: Option<u32>,
    global_id: Option<&str>,
) -> (http::request::Builder, Vec<u8>) {
    let mut builder = http::Request::builder()
        .method(request.method.clone())
        .uri(url)
        .header(header::ACCEPT, "application/json");
    if let Some(revision) = request.revision {
        builder = builder.header(header::IF_MATCH, format!("revision_number={revision}"));
    }
    if let Some(id) = global_id {
        builder = builder.header(change::REQUEST_ID, id);
    }
    if let Some(minor) = minor {
        builder = builder.header("OpenStack-API-Version", format!("compute 2.{minor}"));
    }
    if request.service == Service::Share {
        builder = builder.header(MANILA_VERSION, MANILA_WANTED);
    }
    match &request.body {
        None => (builder, Vec::new()),
        Some(body) => {
            (builder.header(header::CONTENT_TYPE, "application/json"), body.to_string().into_bytes())
        }
    }
}

fn judge(request: &Request, answer: Response<Bytes>) -> (CloudResult<Response<Bytes>>, Verdict) {
    if answer.status().is_success() {
        return (Ok(answer), Verdict::Fine);
    }
    let error = refused(&request.operation(), &answer).of_service(request.service.name());
    let verdict = match answer.status().as_u16() {
        429 | 503 => Verdict::TooMany(error.retry_after),
        500.. => Verdict::Failed,
        // A justified refusal shows that the service is healthy.
        _ => Verdict::Fine,
    };
    (Err(error), verdict)
}

/// Returns the error for a success whose JSON cannot be read.
fn not_json(request: &Request, answer: &Response<Bytes>, error: &serde_json::Error) -> CloudError {
    unreadable(&request.operation(), answer, &error.to_string()).of_service(request.service.name())
}

/// Returns true if the same call may soon succeed: after the response of a proxy whose backend restarts,
/// or after a broken connection. Not after a timeout, which has waited for a minute, nor after "too many
/// requests".
fn is_passing(error: &CloudError) -> bool {
    match (error.class, error.status) {
        (ErrorClass::Broken, Some(502..=504)) => true,
        (ErrorClass::Unknown | ErrorClass::Unreachable, None) => !error.message.ends_with("in time"),
        _ => false,
    }
}
