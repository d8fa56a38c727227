//! List: from a snapshot of the cache where one will do, else from the store.

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

/// How a list's revision is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RevisionMatch {
    /// This fresh or fresher.
    AtLeast(Freshness),
    /// Exactly as it was.
    Exactly(Revision),
}

/// What is asked for.
#[derive(Debug, Clone)]
pub struct ListRequest {
    /// Empty for all namespaces, or for cluster-scoped kinds.
    pub namespace: String,
    /// By labels.
    pub labels: LabelSelector,
    /// By fields.
    pub fields: FieldSelector,
    /// At most so many items; 0 is all.
    pub limit: usize,
    /// Where the last page ended.
    pub token: Option<ContinueToken>,
    /// At which revision. Not used with a token, which says its own.
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
    /// The revision the list shows.
    pub revision: Revision,
    /// The token of the next page; empty on the last.
    pub next: String,
    /// How many items come after, when that is known.
    pub remaining: Option<u64>,
}

impl ObjectStore {
    /// Lists objects.
    ///
    /// # Errors
    /// 410 with a token to go on with when the page's revision is compacted; 500 naming the key of
    /// an object that cannot be read; 503; 504.
    pub async fn list(&self, kind: Kind<'_>, request: &ListRequest) -> ApiResult<Listing> {
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

    /// What the cache has to show, and the revision it is of; `None` when the store must be read.
    async fn snapshot(
        &self,
        kind: Kind<'_>,
        revision: RevisionMatch,
    ) -> ApiResult<Option<(Revision, Snapshot<CachedObject>)>> {
        let Some(section) = self.section(kind) else { return Ok(None) };
        match revision {
            RevisionMatch::AtLeast(freshness) => {
                if !self.freshen(freshness).await? {
                    return Ok(None);
                }
                // The position first: the snapshot then shows at least everything up to it.
                let position = self.cache.revision();
                let snapshot = section.snapshot();
                Ok(Some((position.max(snapshot.revision), snapshot)))
            }
            // What the cache has not reached is not what was then, but what was before.
            RevisionMatch::Exactly(revision) if self.cache.wait_for(revision, CATCH_UP).await => {
                Ok(section.snapshot_at(revision).map(|snapshot| (revision, snapshot)))
            }
            RevisionMatch::Exactly(_) => Ok(None),
        }
    }

    /// Reads the range from the store itself and pages over that.
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

/// Which keys a list covers.
struct Scope {
    /// What all of them begin with.
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
            // '0' follows '/': the first key past everything below the base.
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
                    // The one that found no place, and what comes after it.
                    None => rest.count().saturating_add(1),
                };
                counted.note(place(format!("{}\0", collector.last)), remaining);
                return collector.finish(self, revision, u64::try_from(remaining).unwrap_or_default());
            }
        }
        collector.finish(self, revision, 0)
    }
}

/// Fills a page.
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

    /// Takes an item if it is selected; `false` when the page is full.
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

    /// `remaining` keys come after. How many of them are selected nobody has counted, so it is told
    /// only when all are.
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

/// A page that can no longer be shown gets a token with which the client can go on all the same.
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
