//! Nobody waits for ever, and what was begun is not left half done.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use apiserver_machinery::status::{ApiError, ApiResult};
use futures::FutureExt;

use crate::fairness::Seat;
use crate::request::Call;
use crate::response::{self, Answer};
use crate::server::ApiServer;
use crate::verbs;

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
/// its seat for as long as that takes.
pub(crate) async fn serve(server: &Arc<ApiServer>, call: Call, seat: Option<Seat>) -> Served {
    let (verb, path) = (call.info.verb, call.info.path.clone());
    let panicked = || {
        tracing::error!(verb, path, "a request made the server panic");
        Served::Panicked(response::panicked())
    };
    if call.info.is_read_only() {
        let serving = AssertUnwindSafe(verbs::serve(server, call)).catch_unwind();
        return serving.await.map_or_else(|_| panicked(), Served::Answered);
    }
    let server = Arc::clone(server);
    let change = tokio::spawn(async move {
        let _seat = seat;
        let done = tokio::time::timeout(LONGEST_CHANGE, verbs::serve(&server, call)).await;
        done.unwrap_or_else(|_| Err(ApiError::timeout()))
    });
    match change.await {
        Ok(answer) => Served::Answered(answer),
        Err(error) if error.is_panic() => panicked(),
        Err(_) => Served::Answered(Err(ApiError::unavailable("the server is ending"))),
    }
}
