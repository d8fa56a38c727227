//! What all reconcilers' loops share.

use std::time::Duration;

use futures::{Stream, StreamExt};
use kube::runtime::controller::Action;
use kube::{Resource, ResourceExt};
use tokio_util::sync::CancellationToken;

/// Pause after the API itself failed.
const AGAIN: Duration = Duration::from_secs(2);

/// When to look again, for the loop. Nothing said: when something changes.
pub(crate) fn action(next: Option<Duration>) -> Action {
    next.map_or_else(Action::await_change, Action::requeue)
}

/// Logs a failure of the API, once, and says when to try again.
pub(crate) fn failed<K: Resource<DynamicType = ()>>(object: &K, error: &kube::Error) -> Action {
    let conflict = matches!(error, kube::Error::Api(status) if status.code == 409);
    if conflict {
        return Action::requeue(Duration::ZERO);
    }
    tracing::warn!(%error, kind = %K::kind(&()), namespace = object.namespace(), name = object.name_any(),
        "a pass failed; trying again");
    Action::requeue(AGAIN)
}

/// Runs a loop until `shutdown`.
pub(crate) async fn until<T>(stream: impl Stream<Item = T>, shutdown: CancellationToken) {
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = stream.for_each(|_| std::future::ready(())) => {}
    }
}
