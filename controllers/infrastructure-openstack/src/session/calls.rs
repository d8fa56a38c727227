//! Calls of a session: repetitions, permits, HTTP requests and responses.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use apiserver_trace::{Kind, Span};
use bytes::Bytes;
use controllers_infrastructure::{CloudError, CloudResult, ErrorClass};
use http::{Response, header};

use super::Session;
use crate::change::{self, Change};
use crate::error_mapping::{refused, request_id, unanswered};
use crate::rate_limit::Verdict;
use crate::request::{Request, Service};
use crate::transport::SendError;

/// Header with the version of Manila's API.
const MANILA_VERSION: &str = "X-OpenStack-Manila-API-Version";

/// Manila microversion that is requested: its CSI driver requires 2.37, so each cloud with shares of that driver has it.
/// Pike (2017) has 2.40. The list of a version before 2.9 also reads the export locations of each share.
const MANILA_WANTED: &str = "2.37";

/// Intervals before the retries of an idempotent call.
const PAUSES: [Duration; 2] = [Duration::from_millis(250), Duration::from_millis(1000)];

/// Attempts to write a request that changes something within the time of its permit, on a connection that takes it.
const ATTEMPTS: usize = 5;

impl Session {
    /// Makes a call; a response that is not a success is an error.
    pub(super) async fn send(&self, request: &Request) -> CloudResult<Response<Bytes>> {
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
    pub(super) async fn exchange(
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
