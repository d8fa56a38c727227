//! Changes from before the cache's own history, read from the store's.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use storage_contract::{KeyRange, Revision, StoreError, StoreResult, WatchItem};

use crate::{Cache, Change, ResourceCache, reflector};

/// How long a store may take to tell its history: it is read at disk speed, so a store that needs
/// longer is in trouble, and the client is better off listing again.
const LIMIT: Duration = Duration::from_secs(5);

/// How many changes a watcher is told of what was before. Whoever missed more is better off listing again.
const MOST: usize = 100_000;

/// The changes of `section` in `(after, upto]`, from the store.
pub(crate) async fn changes<T: Send + Sync + 'static>(
    cache: &Cache<T>,
    index: usize,
    section: &ResourceCache<T>,
    after: Revision,
    upto: Revision,
) -> StoreResult<VecDeque<Arc<Change<T>>>> {
    let forgotten = StoreError::Compacted { requested: after.next(), oldest: upto };
    tokio::select! {
        biased;
        result = tokio::time::timeout(LIMIT, read(cache, index, section, after, upto)) => match result {
            Ok(Ok(Some(changes))) => Ok(changes),
            Ok(Ok(None)) | Err(_) => Err(forgotten),
            Ok(Err(error)) => Err(error),
        },
        // What ends the changes may be that there are no more.
        () = cache.freshness.hasten(cache.store.as_ref()) => Err(forgotten),
    }
}

/// The same; `None` when they are too many to be kept for one watcher.
async fn read<T: Send + Sync + 'static>(
    cache: &Cache<T>,
    index: usize,
    section: &ResourceCache<T>,
    after: Revision,
    upto: Revision,
) -> StoreResult<Option<VecDeque<Arc<Change<T>>>>> {
    let mut found = VecDeque::new();
    let mut stream = cache.store().watch(&KeyRange::prefix(section.prefix()), after.next()).await?;
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
        if found.len() > MOST {
            return Ok(None);
        }
    }
    Err(StoreError::Unavailable { operation: "watch", source: "the stream ended".into() })
}
