//! End of a pass at the end of the term: a call in flight ends, and everything else stops at once.

use std::time::Duration;

use controllers_infrastructure::CallScope;
use tokio_util::sync::CancellationToken;

/// Longest time for which a pass waits for its call after the end of the term.
pub(crate) const LONGEST_CALL: Duration = Duration::from_secs(20);

/// Time in which a pass may record the result of its last call. Shorter than the time in which the leader waits for its
/// controllers after the last call.
const RECORD: Duration = Duration::from_secs(1);

/// Runs a pass until its end or the end of the term. Returns `None` if the pass did not end by itself.
///
/// At the end of the term, a pass without a call that changes a cloud is dropped. A pass with such a call begins no other
/// one. It may wait for the response and record it.
pub(crate) async fn until_drained<T>(
    scope: CallScope,
    end: CancellationToken,
    pass: impl Future<Output = T>,
) -> Option<T> {
    let mut pass = std::pin::pin!(scope.around(pass));
    tokio::select! {
        biased;
        ended = &mut pass => return Some(ended),
        () = end.cancelled() => {}
    }
    scope.close();
    tokio::select! {
        biased;
        ended = &mut pass => Some(ended),
        () = last_call(&scope) => None,
        () = tokio::time::sleep(LONGEST_CALL) => {
            tracing::warn!(
                seconds = LONGEST_CALL.as_secs(),
                "a call to the cloud did not end in time; aborting the reconcile pass"
            );
            None
        }
    }
}

/// Waits until the calls in flight have ended, and a while for their results.
async fn last_call(scope: &CallScope) {
    if scope.has_open_calls() {
        scope.calls_ended().await;
        tokio::time::sleep(RECORD).await;
    }
}
