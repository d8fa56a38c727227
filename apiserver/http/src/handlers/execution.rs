//! Execution of a handler: its deadline, its panic, and the task that carries a change through.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use apiserver_executor::{FlushDeferral, spawn_joined};
use apiserver_machinery::status::{ApiError, ApiResult};
use futures::FutureExt;
use tokio::runtime::Handle;
use tokio::task::JoinError;

use crate::filters::availability;
use crate::filters::limits::Turn;
use crate::flow_control::Seat;
use crate::handlers;
use crate::request::Call;
use crate::response::{self, Answer};
use crate::state::ApiServer;

/// Longest any request but a watch may take: upstream's limit, which clients count on.
pub(crate) const LONGEST: Duration = Duration::from_secs(60);

/// Longest a change may take once its body is here: upstream's limit, for a client that waits a
/// minute to be told in time.
const LONGEST_CHANGE: Duration = Duration::from_secs(34);

/// How serving ended.
#[derive(Debug)]
pub(crate) enum Served {
    /// With an answer.
    Answered(ApiResult<Answer>),
    /// Not at all.
    Panicked(Answer),
}

/// Has a verb served. A read ends when the client goes away. A change is carried through, and keeps
/// its seat for as long as that takes; a read's comes back with the answer, and is free when that goes
/// out.
pub(crate) async fn serve(
    server: &Arc<ApiServer>,
    call: Call,
    turn: Turn,
    flush: &FlushDeferral,
) -> (Served, Option<Seat>) {
    let (verb, path) = (call.info.verb, call.info.path.clone());
    let (served, seat) = if !call.info.is_read_only() {
        (change(server, call, turn.seat, flush).await, None)
    } else if turn.is_heavy {
        heavy_read(server, call, turn.seat).await
    } else {
        let reading = pin!(read(server, call));
        (AssertUnwindSafe(reading).catch_unwind().await.ok(), turn.seat)
    };
    let Some(answer) = served else {
        tracing::error!(verb, path, "a request made the server panic");
        return (Served::Panicked(response::panicked()), seat);
    };
    (Served::Answered(answer), seat)
}

async fn read(server: &Arc<ApiServer>, call: Call) -> ApiResult<Answer> {
    let needs_storage =
        call.info.resource().is_some() && availability::needs_storage(&call.info, &call.query);
    let reading = pin!(handlers::serve(server, call));
    availability::while_storage_answers(server, needs_storage, reading).await
}

/// `None` after a panic.
async fn change(
    server: &Arc<ApiServer>,
    call: Call,
    seat: Option<Seat>,
    flush: &FlushDeferral,
) -> Option<ApiResult<Answer>> {
    let server = Arc::clone(server);
    let change = spawn_joined(async move {
        let _seat = seat;
        let changing = pin!(handlers::serve(&server, call));
        let done = tokio::time::timeout(LONGEST_CHANGE, changing).await;
        done.unwrap_or_else(|_| Err(ApiError::timeout()))
    });
    let done = change.await;
    // The store has most likely answered others with it.
    flush.defer();
    outcome(done)
}

/// On a thread of its own, so that it does not hold up others between two of its steps.
async fn heavy_read(
    server: &Arc<ApiServer>,
    call: Call,
    seat: Option<Seat>,
) -> (Option<ApiResult<Answer>>, Option<Seat>) {
    let (server, runtime) = (Arc::clone(server), Handle::current());
    let read = tokio::task::spawn_blocking(move || {
        let answer = runtime.block_on(async {
            let done = tokio::time::timeout(LONGEST, read(&server, call)).await;
            done.unwrap_or_else(|_| Err(ApiError::timeout()))
        });
        (answer, seat)
    });
    match read.await {
        Ok((answer, seat)) => (Some(answer), seat),
        Err(error) => (outcome(Err(error)), None),
    }
}

fn outcome(joined: Result<ApiResult<Answer>, JoinError>) -> Option<ApiResult<Answer>> {
    match joined {
        Ok(answer) => Some(answer),
        Err(error) if error.is_panic() => None,
        Err(_) => Some(Err(ApiError::unavailable("the server is ending"))),
    }
}
