//! Watch: a section's changes, seen through selectors.

use std::collections::VecDeque;
use std::sync::Arc;

use storage_cache::{Change, ResourceWatch, WatchStep};
use storage_contract::{EventKind as StoreEvent, Revision, StoreError};
use tokio::task::coop;

use crate::resource::Resource;
use crate::selectors::{FieldSelector, LabelSelector};
use crate::status::{ApiError, ApiResult};
use crate::store::{CachedObject, EventKind, Freshness, Kind, ListRequest, ObjectStore, RevisionMatch};

/// What is asked for.
#[derive(Debug, Clone)]
pub struct WatchRequest {
    /// Empty for all namespaces, or for cluster-scoped kinds.
    pub namespace: String,
    /// By labels.
    pub labels: LabelSelector,
    /// By fields.
    pub fields: FieldSelector,
    /// Where it begins.
    pub start: WatchStart,
}

/// Where a watch begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchStart {
    /// With what there is, this fresh or fresher, each object as if it were new.
    Everything(Freshness),
    /// With the first change after this revision.
    After(Revision),
    /// With the next change.
    Now,
}

/// One event as a watcher is told it.
#[derive(Debug, Clone)]
pub enum ObjectEvent {
    /// Something happened to an object.
    Object(EventKind, Arc<CachedObject>),
    /// Everything that was there at the beginning has been told.
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
    /// The same request with "now" as the moment of this call, for who starts it later.
    pub fn with_fixed_start(&self, request: WatchRequest) -> WatchRequest {
        match request.start {
            WatchStart::Now => WatchRequest { start: WatchStart::After(self.cache.revision()), ..request },
            WatchStart::Everything(_) | WatchStart::After(_) => request,
        }
    }

    /// Starts a watch.
    ///
    /// # Errors
    /// 410 when it would start before the history kept; 503; 504.
    pub async fn watch(&self, kind: Kind<'_>, request: WatchRequest) -> ApiResult<ObjectWatch> {
        let (initial, after) = match request.start {
            WatchStart::Everything(freshness) => self.initial(kind, &request, freshness).await?,
            WatchStart::After(revision) => (VecDeque::new(), revision),
            WatchStart::Now => (VecDeque::new(), self.cache.revision()),
        };
        let changes = self.cache.watch(kind.section, after).await.map_err(|error| too_old(after, &error))?;
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
    /// The next event; `None` when the watch is over because it fell behind, and another one from
    /// the last event on is wanted. Cancel safe.
    ///
    /// # Errors
    /// 500 naming the key of an object that cannot be read; 503 when the server is going away. The
    /// watch is then over.
    pub async fn next(&mut self) -> ApiResult<Option<ObjectEvent>> {
        if !self.initial.is_empty() {
            // Whoever has much to be told lets others have their turn.
            coop::consume_budget().await;
        }
        if let Some(event) = self.initial.pop_front() {
            return Ok(Some(event));
        }
        loop {
            match self.changes.next().await.map_err(|error| ApiError::storage(&error))? {
                WatchStep::Behind => return Ok(None),
                WatchStep::Change(change) => {
                    if let Some((kind, item)) = self.visible(&change)? {
                        return Ok(Some(ObjectEvent::Object(kind, item)));
                    }
                }
            }
        }
    }

    /// Everything up to this revision that this watcher is to see has been yielded: what a bookmark
    /// may say. `None` while what was there at the beginning is still being told, and before the
    /// revision that the watch begins after has happened.
    pub fn reported(&mut self) -> Option<Revision> {
        self.initial.is_empty().then(|| self.changes.reached()).flatten()
    }

    /// What the change is to this watcher: what comes into view is added, what leaves it is deleted.
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
            // It left the selection: its last selected content, at the revision of leaving.
            (Some(previous), None) => (EventKind::Deleted, Arc::new(previous.at(change.revision))),
        };
        match &event.1.json {
            Ok(_) => Ok(Some(event)),
            Err(damage) => Err(ApiError::internal(damage.clone())),
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
