//! Watch: a section's changes, seen through selectors.

use std::collections::VecDeque;
use std::sync::Arc;

use storage_cache::{Change, SectionWatch, WatchStep};
use storage_contract::{EventKind as StoreEvent, Revision, StoreError};

use super::{CachedObject, EventKind, Freshness, Kind, ListRequest, ObjectStore, RevisionMatch};
use crate::resource::Resource;
use crate::selectors::{FieldSelector, LabelSelector};
use crate::status::{ApiError, ApiResult};

/// What is asked for.
#[derive(Debug, Clone)]
pub struct WatchRequest {
    /// Empty for all namespaces, or for cluster-scoped kinds.
    pub namespace: String,
    /// By labels.
    pub labels: LabelSelector,
    /// By fields.
    pub fields: FieldSelector,
    /// Events after this revision; `None` begins with what there is.
    pub after: Option<Revision>,
    /// How fresh what there is must be, when the watch begins with it.
    pub initial: Freshness,
}

/// One event as a watcher is told it.
#[derive(Debug, Clone)]
pub enum ObjectEvent {
    /// Something happened to an object.
    Object(EventKind, Arc<CachedObject>),
    /// Everything that was there at the beginning has been told.
    InitialEnd(Revision),
    /// Nothing more happened up to this revision.
    Progress(Revision),
}

/// A watch.
#[derive(Debug)]
pub struct ObjectWatch {
    initial: VecDeque<ObjectEvent>,
    changes: SectionWatch<CachedObject>,
    key_prefix: String,
    labels: LabelSelector,
    fields: FieldSelector,
    resource: Resource,
    stored: Resource,
}

impl ObjectStore {
    /// Starts a watch.
    ///
    /// # Errors
    /// 410 when it would start before the history kept; 503; 504.
    pub async fn watch(&self, kind: Kind<'_>, request: WatchRequest) -> ApiResult<ObjectWatch> {
        let (initial, after) = match request.after {
            Some(after) => (VecDeque::new(), after),
            None => self.initial(kind, &request).await?,
        };
        let changes = self.cache.watch(kind.section, after).await.map_err(|error| too_old(&error))?;
        let changes = changes.ok_or_else(|| ApiError::internal("the kind has no place in the cache"))?;
        let prefix = kind.resource.prefix();
        let key_prefix =
            if request.namespace.is_empty() { prefix } else { format!("{prefix}{}/", request.namespace) };
        let WatchRequest { labels, fields, .. } = request;
        let (resource, stored) = (kind.resource.clone(), kind.stored.clone());
        Ok(ObjectWatch { initial, changes, key_prefix, labels, fields, resource, stored })
    }

    async fn initial(
        &self,
        kind: Kind<'_>,
        request: &WatchRequest,
    ) -> ApiResult<(VecDeque<ObjectEvent>, Revision)> {
        let list = ListRequest {
            namespace: request.namespace.clone(),
            labels: request.labels.clone(),
            fields: request.fields.clone(),
            limit: 0,
            token: None,
            revision: RevisionMatch::AtLeast(request.initial),
        };
        let listing = self.list(kind, &list).await?;
        let mut events: VecDeque<ObjectEvent> =
            listing.items.into_iter().map(|item| ObjectEvent::Object(EventKind::Added, item)).collect();
        events.push_back(ObjectEvent::InitialEnd(listing.revision));
        Ok((events, listing.revision))
    }
}

impl ObjectWatch {
    /// The next event. Cancel safe.
    ///
    /// # Errors
    /// 410 when this watcher fell behind; 503 when the server is going away. The watch is then over.
    pub async fn next(&mut self) -> ApiResult<ObjectEvent> {
        if let Some(event) = self.initial.pop_front() {
            return Ok(event);
        }
        loop {
            match self.changes.next().await.map_err(|error| too_old(&error))? {
                WatchStep::Progress(revision) => return Ok(ObjectEvent::Progress(revision)),
                WatchStep::Change(change) => {
                    if let Some(event) = self.seen(&change)? {
                        return Ok(event);
                    }
                }
            }
        }
    }

    /// What the change is to this watcher: what comes into view is added, what leaves it is deleted.
    fn seen(&self, change: &Change<CachedObject>) -> ApiResult<Option<ObjectEvent>> {
        if !change.key.starts_with(&self.key_prefix) {
            return Ok(None);
        }
        if let Err(damage) = &change.item.json {
            return Err(ApiError::internal(damage.clone()));
        }
        let selects = |item: &Arc<CachedObject>| item.is_selected(&self.labels, &self.fields);
        let before = change.previous.as_ref().filter(|item| selects(item));
        let after = change.kind != StoreEvent::Deleted && selects(&change.item);
        let seen = self.event(change, before, after)?;
        Ok(seen.map(|(kind, item)| ObjectEvent::Object(kind, item.view(&self.resource))))
    }

    /// The event in the stored version.
    fn event(
        &self,
        change: &Change<CachedObject>,
        before: Option<&Arc<CachedObject>>,
        after: bool,
    ) -> ApiResult<Option<(EventKind, Arc<CachedObject>)>> {
        Ok(match (before, after) {
            (None, false) => None,
            (None, true) => Some((EventKind::Added, Arc::clone(&change.item))),
            (Some(_), true) => Some((EventKind::Modified, Arc::clone(&change.item))),
            (Some(_), false) if change.kind == StoreEvent::Deleted => {
                Some((EventKind::Deleted, Arc::clone(&change.item)))
            }
            (Some(previous), false) => {
                // It left the selection: its last selected content, at the revision of leaving.
                let mut object = previous.to_value().map_err(ApiError::internal)?;
                crate::object::set_revision(&mut object, change.revision);
                let gone = CachedObject::new(&self.stored, Ok(&object), change.revision);
                Some((EventKind::Deleted, Arc::new(gone)))
            }
        })
    }
}

fn too_old(error: &StoreError) -> ApiError {
    match error {
        StoreError::Compacted { requested, oldest } => {
            ApiError::expired(format!("too old resource version: {requested} ({oldest})"))
        }
        other => ApiError::storage(other),
    }
}
