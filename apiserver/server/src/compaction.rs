//! Forgetting old history, so that the store does not grow for ever.

use std::sync::Arc;
use std::time::Duration;

use storage_contract::{Revision, Store};
use tokio_util::sync::CancellationToken;

/// History reaches back at least this long and at most twice as long, which is what clients are
/// promised: a watch or a page can go on after five minutes of silence.
const EVERY: Duration = Duration::from_secs(5 * 60);

/// Compacts to where the store was one interval ago, every interval, until `shutdown`.
///
/// Several servers on one store may all do so: each forgets only what is older than the interval,
/// and forgetting twice is no error.
pub(crate) async fn run(store: Arc<dyn Store>, shutdown: CancellationToken) {
    let mut before: Option<Revision> = None;
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
        if let Some(revision) = before {
            match store.compact(revision).await {
                Ok(()) => tracing::debug!(%revision, "history before this is forgotten"),
                Err(error) => {
                    tracing::warn!(%error, %revision, "the store was not compacted; trying again later")
                }
            }
        }
        before = store.current_revision().await.ok();
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use storage_contract::{Key, ListOptions, StoreError};
    use storage_embedded::EmbeddedStore;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn history_is_kept_for_one_interval_and_forgotten_after_two() {
        let directory = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(&directory.path().join("s")).unwrap());
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(run(Arc::clone(&store), shutdown.clone()));
        let key = Key::new("/a").unwrap();
        let first = store.create(&key, Bytes::from("1")).await.unwrap();
        store.update(&key, first, Bytes::from("2")).await.unwrap();
        let then = ListOptions { limit: 0, revision: Some(first) };
        let range = storage_contract::KeyRange::prefix("/");
        tokio::time::sleep(EVERY + Duration::from_secs(1)).await;
        assert!(store.list(&range, &then).await.is_ok());
        let mut answer = store.list(&range, &then).await;
        for _ in 0..100 {
            tokio::time::sleep(EVERY / 10).await;
            answer = store.list(&range, &then).await;
            if answer.is_err() {
                break;
            }
        }
        assert!(matches!(answer, Err(StoreError::Compacted { .. })), "{answer:?}");
        shutdown.cancel();
        task.await.unwrap();
    }
}
