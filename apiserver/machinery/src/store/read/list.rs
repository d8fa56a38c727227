//! List: from a snapshot of the cache if possible, else from the store.

use std::sync::Arc;

use storage_cache::Snapshot;
use storage_contract::{KeyRange, ListOptions, Revision, StoreError};

use super::remaining::{PagePosition, Remaining};
use crate::continue_token::ContinueToken;
use crate::selectors::{FieldSelector, LabelSelector};
use crate::status::{ApiError, ApiResult};
use crate::store::{CATCH_UP, CachedObject, Freshness, Kind, ObjectStore};

/// Entries fetched at a time when a list is read from the store: a few MiB.
const PAGE: usize = 500;

/// Meaning of a list's revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RevisionMatch {
    /// At least this fresh.
    AtLeast(Freshness),
    /// Exactly at this revision.
    Exactly(Revision),
}

/// Request of a list.
#[derive(Debug, Clone)]
pub struct ListRequest {
    /// Namespace; empty for all namespaces, or for cluster-scoped kinds.
    pub namespace: String,
    /// Label selector.
    pub labels: LabelSelector,
    /// Field selector.
    pub fields: FieldSelector,
    /// Maximum number of items; 0 means no limit.
    pub limit: usize,
    /// Position of the page.
    pub token: Option<ContinueToken>,
    /// Revision of the list. A token has its own.
    pub revision: RevisionMatch,
}

impl ListRequest {
    fn selects_all(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }
}

/// A list, or a page of one.
#[derive(Debug, Clone)]
pub struct Listing {
    /// The items in key order.
    pub items: Vec<Arc<CachedObject>>,
    /// The revision that the list shows.
    pub revision: Revision,
    /// The token of the next page; empty on the last.
    pub next: String,
    /// Number of items after the page, if it is known.
    pub remaining: Option<u64>,
}

impl ObjectStore {
    /// Lists objects.
    ///
    /// # Errors
    /// 410 with a token to continue, if the page's revision is compacted; 500 that names the key of an object that
    /// cannot be decoded; 503; 504.
    pub async fn list(&self, kind: Kind<'_>, request: &ListRequest) -> ApiResult<Listing> {
        if kind.resource.strategy.is_read_only() {
            return self.list_fixed(kind, request).await;
        }
        let scope = Scope::new(kind, request);
        let revision = match &request.token {
            Some(ContinueToken { revision: Some(revision), .. }) => {
                RevisionMatch::Exactly(Revision::new(*revision))
            }
            Some(_) => RevisionMatch::AtLeast(Freshness::Consistent),
            None => request.revision,
        };
        match self.snapshot(kind, revision).await? {
            Some((revision, snapshot)) => {
                Ok(scope.page(kind, (&snapshot, revision), request, &self.remaining))
            }
            None => self.list_store(kind, request, &scope, revision).await,
        }
    }

    /// Returns the snapshot of the cache and its revision, or `None` if the store must be read.
    async fn snapshot(
        &self,
        kind: Kind<'_>,
        revision: RevisionMatch,
    ) -> ApiResult<Option<(Revision, Snapshot<CachedObject>)>> {
        let Some(cache) = self.resource_cache(kind) else { return Ok(None) };
        match revision {
            RevisionMatch::AtLeast(freshness) => {
                if !self.freshen(freshness).await? {
                    return Ok(None);
                }
                // The revision is read first: the snapshot then shows at least every change up to it.
                let position = self.cache.revision();
                let snapshot = cache.snapshot();
                Ok(Some((position.max(snapshot.revision), snapshot)))
            }
            // A revision that the cache has not reached needs the store.
            RevisionMatch::Exactly(revision) if self.cache.wait_for(revision, CATCH_UP).await => {
                Ok(cache.snapshot_at(revision).map(|snapshot| (revision, snapshot)))
            }
            RevisionMatch::Exactly(_) => Ok(None),
        }
    }

    /// Reads the range from the store and pages over it.
    async fn list_store(
        &self,
        kind: Kind<'_>,
        request: &ListRequest,
        scope: &Scope,
        revision: RevisionMatch,
    ) -> ApiResult<Listing> {
        let mut at = match revision {
            RevisionMatch::Exactly(revision) => Some(revision),
            RevisionMatch::AtLeast(_) => None,
        };
        let mut range =
            KeyRange { start: scope.start.clone().into_bytes(), end: scope.end.clone().into_bytes() };
        let mut collector = Collector::new(request);
        loop {
            let options = ListOptions { limit: PAGE, revision: at };
            let page = self.store.list(&range, &options).await.map_err(|error| expired(&error, request))?;
            at = Some(page.revision);
            for (index, entry) in page.entries.iter().enumerate() {
                let item = self.project(kind, entry);
                if !collector.take(entry.key.as_str(), &item) {
                    let here = u64::try_from(page.entries.len().saturating_sub(index)).unwrap_or_default();
                    return Ok(collector.finish(scope, page.revision, page.remaining.saturating_add(here)));
                }
            }
            match page.entries.last() {
                Some(last) if page.remaining > 0 => range = range.after(last.key.as_bytes()),
                _ => return Ok(collector.finish(scope, page.revision, 0)),
            }
        }
    }
}

/// Range of keys of a list.
struct Scope {
    /// Common prefix of the keys.
    base: String,
    start: String,
    end: String,
}

impl Scope {
    fn new(kind: Kind<'_>, request: &ListRequest) -> Self {
        let prefix = kind.resource.prefix();
        let base = if kind.resource.namespaced && !request.namespace.is_empty() {
            format!("{prefix}{}/", request.namespace)
        } else {
            prefix
        };
        let one =
            request.fields.name().filter(|_| !kind.resource.namespaced || !request.namespace.is_empty());
        let (first, end) = match one {
            Some(name) => (format!("{base}{name}"), format!("{base}{name}\0")),
            // '0' follows '/': the first key after everything below the prefix.
            None => (base.clone(), format!("{}0", base.trim_end_matches('/'))),
        };
        let start = match &request.token {
            Some(token) => format!("{base}{}", token.start).max(first),
            None => first,
        };
        let end = end.max(start.clone());
        Self { base, start, end }
    }

    fn page(
        &self,
        kind: Kind<'_>,
        (snapshot, revision): (&Snapshot<CachedObject>, Revision),
        request: &ListRequest,
        counted: &Remaining,
    ) -> Listing {
        let mut collector = Collector::new(request);
        let mut rest = snapshot.range(&self.start, &self.end);
        for (key, item) in rest.by_ref() {
            if !collector.take(key, &item.view(kind.resource)) {
                if !request.selects_all() {
                    return collector.finish(self, revision, 0);
                }
                let place = |start: String| PagePosition { start, end: self.end.clone(), revision };
                let remaining = match counted.from(&place(self.start.clone())) {
                    Some(here) => here.saturating_sub(collector.items.len()).max(1),
                    // The item that did not fit, and the items after it.
                    None => rest.count().saturating_add(1),
                };
                counted.note(place(format!("{}\0", collector.last)), remaining);
                return collector.finish(self, revision, u64::try_from(remaining).unwrap_or_default());
            }
        }
        collector.finish(self, revision, 0)
    }
}

/// Builder of a page.
struct Collector<'a> {
    request: &'a ListRequest,
    items: Vec<Arc<CachedObject>>,
    last: String,
    more: bool,
}

impl<'a> Collector<'a> {
    fn new(request: &'a ListRequest) -> Self {
        Self { request, items: Vec::new(), last: String::new(), more: false }
    }

    /// Adds an item if it is selected; returns false if the page is full.
    fn take(&mut self, key: &str, item: &Arc<CachedObject>) -> bool {
        if !item.is_selected(&self.request.labels, &self.request.fields) {
            return true;
        }
        if self.request.limit > 0 && self.items.len() >= self.request.limit {
            self.more = true;
            return false;
        }
        key.clone_into(&mut self.last);
        self.items.push(Arc::clone(item));
        true
    }

    /// Completes the page. `remaining` keys follow it. With selectors, the number of selected ones is unknown and not
    /// reported.
    fn finish(self, scope: &Scope, revision: Revision, remaining: u64) -> Listing {
        let next = if self.more {
            let start = format!("{}\0", self.last.strip_prefix(&scope.base).unwrap_or(&self.last));
            ContinueToken { revision: Some(revision.number()), start }.encode()
        } else {
            String::new()
        };
        let remaining = (self.more && self.request.selects_all()).then_some(remaining);
        Listing { items: self.items, revision, next, remaining }
    }
}

/// Returns the error of a page that can no longer be shown, with a token to continue.
fn expired(error: &StoreError, request: &ListRequest) -> ApiError {
    match (error, &request.token) {
        (StoreError::Compacted { .. }, Some(token)) => {
            let inconsistent = ContinueToken { revision: None, start: token.start.clone() };
            ApiError::expired(
                "The provided continue parameter is too old to display a consistent list result. You can start a new \
                 list without the continue parameter, or use the continue token in this response to retrieve the \
                 remainder of the results. Continuing with the provided token results in an inconsistent list - \
                 objects that were created, modified, or deleted between the time the first chunk was returned and \
                 now may show up in the list.",
            )
            .with_continue(inconsistent.encode())
        }
        _ => ApiError::storage(error),
    }
}
