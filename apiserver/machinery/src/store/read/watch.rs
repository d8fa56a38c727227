//! Watch: the changes of a resource cache, filtered by selectors.

use std::collections::VecDeque;
use std::sync::Arc;

use storage_cache::{Change, ResourceWatch, WatchStep};
use storage_contract::{EventKind as StoreEvent, Revision, StoreError};
use tokio::task::coop;

use crate::resource::Resource;
use crate::selectors::{FieldSelector, LabelSelector};
use crate::status::{ApiError, ApiResult};
use crate::store::{CachedObject, EventKind, Freshness, Kind, ListRequest, ObjectStore, RevisionMatch};

/// Request of a watch.
#[derive(Debug, Clone)]
pub struct WatchRequest {
    /// Namespace; empty for all namespaces, or for cluster-scoped kinds.
    pub namespace: String,
    /// Label selector.
    pub labels: LabelSelector,
    /// Field selector.
    pub fields: FieldSelector,
    /// Start of the watch.
    pub start: WatchStart,
}

/// Start of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchStart {
    /// All existing objects, at least this fresh, each as an added object.
    Everything(Freshness),
    /// The first change after this revision.
    After(Revision),
    /// The next change.
    Now,
}

/// One event of a watch.
#[derive(Debug, Clone)]
pub enum ObjectEvent {
    /// A change of an object.
    Object(EventKind, Arc<CachedObject>),
    /// All objects that existed at the start have been sent.
    InitialEnd(Revision),
}

/// A watch.
#[derive(Debug)]
pub struct ObjectWatch {
    initial: VecDeque<ObjectEvent>,
    changes: ResourceWatch<CachedObject>,
    key_prefix: String,
    labels: LabelSelector,
    fields: FieldSelector,
    resource: Arc<Resource>,
}

impl ObjectStore {
    /// Returns the request with "now" replaced by the present revision, for a watch that starts later.
    pub fn with_fixed_start(&self, request: WatchRequest) -> WatchRequest {
        match request.start {
            WatchStart::Now => WatchRequest { start: WatchStart::After(self.cache.revision()), ..request },
            WatchStart::Everything(_) | WatchStart::After(_) => request,
        }
    }

    /// Starts a watch.
    ///
    /// # Errors
    /// 410 if it would start before the oldest revision of the history; 503; 504.
    pub async fn watch(&self, kind: Kind<'_>, request: WatchRequest) -> ApiResult<ObjectWatch> {
        let (initial, after) = match request.start {
            WatchStart::Everything(freshness) => self.initial(kind, &request, freshness).await?,
            WatchStart::After(revision) => (VecDeque::new(), revision),
            WatchStart::Now => (VecDeque::new(), self.cache.revision()),
        };
        let changes =
            self.cache.watch(kind.cache_index, after).await.map_err(|error| too_old(after, &error))?;
        let changes = changes.ok_or_else(|| ApiError::internal("the kind has no place in the cache"))?;
        let prefix = kind.resource.prefix();
        let key_prefix =
            if request.namespace.is_empty() { prefix } else { format!("{prefix}{}/", request.namespace) };
        let WatchRequest { labels, fields, .. } = request;
        let resource = Arc::clone(kind.resource);
        Ok(ObjectWatch { initial, changes, key_prefix, labels, fields, resource })
    }

    async fn initial(
        &self,
        kind: Kind<'_>,
        request: &WatchRequest,
        freshness: Freshness,
    ) -> ApiResult<(VecDeque<ObjectEvent>, Revision)> {
        let list = ListRequest {
            namespace: request.namespace.clone(),
            labels: request.labels.clone(),
            fields: request.fields.clone(),
            limit: 0,
            token: None,
            revision: RevisionMatch::AtLeast(freshness),
        };
        let listing = self.list(kind, &list).await?;
        let mut events: VecDeque<ObjectEvent> =
            listing.items.into_iter().map(|item| ObjectEvent::Object(EventKind::Added, item)).collect();
        events.push_back(ObjectEvent::InitialEnd(listing.revision));
        Ok((events, listing.revision))
    }
}

impl ObjectWatch {
    /// Returns the next event. `None` means that the watch fell behind and ended; the client needs another one from the
    /// last event on. Cancel safe.
    ///
    /// # Errors
    /// 410 if the history of storage went back; 500 that names the key of an object that cannot be decoded; 503 if the
    /// server is shutting down. The watch has then ended.
    pub async fn next(&mut self) -> ApiResult<Option<ObjectEvent>> {
        if !self.initial.is_empty() {
            // A watch with many events yields to other tasks.
            coop::consume_budget().await;
        }
        if let Some(event) = self.initial.pop_front() {
            return Ok(Some(event));
        }
        loop {
            match self.changes.next().await.map_err(|error| ApiError::storage(&error))? {
                WatchStep::Behind => return Ok(None),
                WatchStep::Expired => {
                    return Err(ApiError::expired("the data of storage were replaced: list again"));
                }
                WatchStep::Change(change) => {
                    if let Some((kind, item)) = self.visible(&change)? {
                        return Ok(Some(ObjectEvent::Object(kind, item)));
                    }
                }
            }
        }
    }

    /// Returns the revision of a bookmark: every event up to it has been yielded. Returns `None` before the end of the
    /// initial events, and before the revision that the watch starts after has happened.
    pub fn reported(&mut self) -> Option<Revision> {
        self.initial.is_empty().then(|| self.changes.reached()).flatten()
    }

    /// Returns the event of a change for this watch: an object that enters the selection is added, and one that leaves
    /// it is deleted.
    fn visible(&self, change: &Change<CachedObject>) -> ApiResult<Option<(EventKind, Arc<CachedObject>)>> {
        if !change.key.starts_with(&self.key_prefix) {
            return Ok(None);
        }
        let selected = |item: &Arc<CachedObject>| {
            let view = item.view(&self.resource);
            view.is_selected(&self.labels, &self.fields).then_some(view)
        };
        let (now, before) = (selected(&change.item), change.previous.as_ref().and_then(selected));
        let deleted = change.kind == StoreEvent::Deleted;
        let event = match (before, now.filter(|_| !deleted)) {
            (None, None) => return Ok(None),
            (None, Some(item)) => (EventKind::Added, item),
            (Some(_), Some(item)) => (EventKind::Modified, item),
            (Some(_), None) if deleted => (EventKind::Deleted, change.item.view(&self.resource)),
            // It left the selection: the event has its last selected content, at the revision of the change.
            (Some(previous), None) => (EventKind::Deleted, Arc::new(previous.at(change.revision))),
        };
        match &event.1.json {
            Ok(_) => Ok(Some(event)),
            Err(error) => Err(error.into()),
        }
    }
}

fn too_old(after: Revision, error: &StoreError) -> ApiError {
    match error {
        StoreError::Compacted { oldest, .. } => {
            ApiError::expired(format!("too old resource version: {after} ({oldest})"))
        }
        other => ApiError::storage(other),
    }
}
