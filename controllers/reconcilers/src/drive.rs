//! What all reconcilers' loops share.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::{Stream, StreamExt};
use kube::runtime::controller::Action;
use kube::{Resource, ResourceExt};
use tokio_util::sync::CancellationToken;

/// Pause after the API itself failed.
const AGAIN: Duration = Duration::from_secs(2);

/// Tells changes of what is wanted from changes of what is reported.
#[derive(Debug, Default)]
pub(crate) struct News(Mutex<HashMap<String, State>>);

/// Generation, whether it is being deleted, and whether it is paused.
type State = (Option<i64>, bool, bool);

impl News {
    /// Whether an object's spec, deletion or pause is another than when last asked.
    pub(crate) fn is_new<K: Resource>(&self, object: &K) -> bool {
        let deleting = object.meta().deletion_timestamp.is_some();
        let state = (object.meta().generation, deleting, controllers_runtime::paused(object, None));
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(object.uid().unwrap_or_default(), state) != Some(state)
    }
}

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
