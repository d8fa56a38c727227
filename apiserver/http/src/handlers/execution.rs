//! Execution of a handler: its deadline, its panic, and the task that completes a write.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use apiserver_executor::{FlushDeferral, spawn_joined};
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_trace::carried;
use futures::FutureExt;
use tokio::runtime::Handle;
use tokio::task::JoinError;

use crate::filters::availability;
use crate::filters::limits::Admission;
use crate::flow_control::Seat;
use crate::handlers;
use crate::request::Call;
use crate::response::{self, HttpResponse};
use crate::state::ApiServer;

/// Time limit of every request but a watch: upstream's limit, which clients rely on.
pub(crate) const LONGEST: Duration = Duration::from_secs(60);

/// Time limit of a write once its body is read: upstream's limit, so that a client that waits a minute gets a response
/// in time.
const LONGEST_CHANGE: Duration = Duration::from_secs(34);

/// Result of a handler.
#[derive(Debug)]
pub(crate) enum Served {
    /// Response or error.
    Answered(ApiResult<HttpResponse>),
    /// Response to a panic.
    Panicked(HttpResponse),
}

/// Annotations of the audit event, as an extension of the response.
#[derive(Debug, Clone)]
pub(crate) struct AuditAnnotations(pub(crate) BTreeMap<String, String>);

/// Runs the handler of a request. A read ends when the client disconnects, and returns its seat with the response. A
/// write is completed in any case, and keeps its seat until then.
pub(crate) async fn serve(
    server: &Arc<ApiServer>,
    call: Call,
    admission: Admission,
    flush: &FlushDeferral,
) -> (Served, Option<Seat>) {
    let (verb, path) = (call.info.verb, call.info.path.clone());
    let (served, seat) = if !call.info.is_read_only() {
        (change(server, call, admission.seat, flush).await, None)
    } else if admission.is_heavy {
        heavy_read(server, call, admission.seat).await
    } else {
        let reading = pin!(read(server, call));
        (AssertUnwindSafe(reading).catch_unwind().await.ok(), admission.seat)
    };
    let Some(answer) = served else {
        tracing::error!(verb, path, "handler panicked");
        return (Served::Panicked(response::panicked()), seat);
    };
    (Served::Answered(answer), seat)
}

async fn read(server: &Arc<ApiServer>, call: Call) -> ApiResult<HttpResponse> {
    let needs_storage =
        call.info.resource().is_some() && availability::needs_storage(&call.info, &call.query);
    let reading = pin!(handlers::serve(server, call));
    availability::while_storage_answers(server, needs_storage, reading).await
}

/// Runs a write; `None` after a panic.
async fn change(
    server: &Arc<ApiServer>,
    call: Call,
    seat: Option<Seat>,
    flush: &FlushDeferral,
) -> Option<ApiResult<HttpResponse>> {
    let server = Arc::clone(server);
    let change = spawn_joined(carried(async move {
        let _seat = seat;
        let changing = pin!(handlers::serve(&server, call));
        let done = tokio::time::timeout(LONGEST_CHANGE, changing).await;
        done.unwrap_or_else(|_| Err(ApiError::timeout()))
    }));
    let done = change.await;
    // The store has most likely completed other writes with it.
    flush.defer();
    outcome(done)
}

/// Runs a read on a thread of its own, so that it does not delay the connection's other streams.
async fn heavy_read(
    server: &Arc<ApiServer>,
    call: Call,
    seat: Option<Seat>,
) -> (Option<ApiResult<HttpResponse>>, Option<Seat>) {
    let (server, runtime) = (Arc::clone(server), Handle::current());
    let reading = carried(async move {
        let done = tokio::time::timeout(LONGEST, read(&server, call)).await;
        done.unwrap_or_else(|_| Err(ApiError::timeout()))
    });
    let read = tokio::task::spawn_blocking(move || (runtime.block_on(reading), seat));
    match read.await {
        Ok((answer, seat)) => (Some(answer), seat),
        Err(error) => (outcome(Err(error)), None),
    }
}

fn outcome(joined: Result<ApiResult<HttpResponse>, JoinError>) -> Option<ApiResult<HttpResponse>> {
    match joined {
        Ok(answer) => Some(answer),
        Err(error) if error.is_panic() => None,
        Err(_) => Some(Err(ApiError::unavailable("the server is shutting down"))),
    }
}
