//! Replay of changes that precede the cache's own history, read from the store's history.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use storage_contract::{KeyRange, Revision, StoreError, StoreResult, WatchItem};

use crate::{Cache, Change, ResourceCache, reflector};

/// Longest time for a replay. The store reads its history at disk speed. If it needs longer, it is overloaded, and
/// the client does better to list again.
const LIMIT: Duration = Duration::from_secs(5);

/// Maximum number of changes that are replayed for one watcher. A client that missed more does better to list again.
const MAX_CHANGES: usize = 100_000;

/// Returns the changes of a resource in `(after, upto]`, from the store.
pub(crate) async fn changes<T: Send + Sync + 'static>(
    cache: &Cache<T>,
    index: usize,
    resource_cache: &ResourceCache<T>,
    after: Revision,
    upto: Revision,
) -> StoreResult<VecDeque<Arc<Change<T>>>> {
    let compacted = StoreError::Compacted { requested: after.next(), oldest: upto };
    tokio::select! {
        biased;
        result = tokio::time::timeout(LIMIT, read(cache, index, resource_cache, after, upto)) => match result {
            Ok(Ok(Some(changes))) => Ok(changes),
            Ok(Ok(None)) | Err(_) => Err(compacted),
            Ok(Err(error)) => Err(error),
        },
        // Progress may be what ends the changes, if no more follow.
        () = cache.freshness.hasten(cache.store.as_ref()) => Err(compacted),
    }
}

/// Reads the changes, or returns `None` when they are too many to keep for one watcher.
async fn read<T: Send + Sync + 'static>(
    cache: &Cache<T>,
    index: usize,
    resource_cache: &ResourceCache<T>,
    after: Revision,
    upto: Revision,
) -> StoreResult<Option<VecDeque<Arc<Change<T>>>>> {
    let mut found = VecDeque::new();
    let mut stream = cache.store().watch(&KeyRange::prefix(resource_cache.prefix()), after.next()).await?;
    while let Some(next) = stream.next().await {
        let event = match next? {
            WatchItem::Progress(revision) if revision >= upto => return Ok(Some(found)),
            WatchItem::Progress(_) => continue,
            WatchItem::Event(event) if event.revision > upto => return Ok(Some(found)),
            WatchItem::Event(event) => event,
        };
        let previous = event.previous.as_ref().map(|entry| Arc::new(cache.projection.project(index, entry)));
        let item = reflector::item(cache.projection.as_ref(), index, &event, previous.as_ref());
        let Some(item) = item else { continue };
        let key = Arc::from(event.key.as_str());
        found.push_back(Arc::new(Change { kind: event.kind, revision: event.revision, key, item, previous }));
        if event.revision == upto {
            return Ok(Some(found));
        }
        if found.len() > MAX_CHANGES {
            return Ok(None);
        }
    }
    Err(StoreError::Unavailable { operation: "watch", source: "the watch stream ended".into() })
}
