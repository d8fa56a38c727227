//! List: from a snapshot of the cache where one will do, else from the store.

use std::sync::Arc;

use storage_contract::{KeyRange, ListOptions, Revision, StoreError};

use super::{CachedObject, Freshness, Kind, ObjectStore};
use crate::continue_token::ContinueToken;
use crate::selectors::{FieldSelector, LabelSelector};
use crate::status::{ApiError, ApiResult};

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
    /// 410 with a token to go on with when the page's revision is compacted; 503; 504.
    pub async fn list(&self, kind: Kind<'_>, request: &ListRequest) -> ApiResult<Listing> {
        let scope = self.scope(kind, request);
        let revision = match &request.token {
            Some(ContinueToken { revision: Some(revision), .. }) => {
                RevisionMatch::Exactly(Revision::new(*revision))
            }
            Some(_) => RevisionMatch::AtLeast(Freshness::Consistent),
            None => request.revision,
        };
        let snapshot = match revision {
            RevisionMatch::AtLeast(freshness) => {
                let fresh = self.freshen(freshness).await?;
                self.cache.section(kind.section).filter(|_| fresh).map(|section| {
                    // The position first: the snapshot then shows at least everything up to it.
                    let position = self.cache.revision();
                    let snapshot = section.snapshot();
                    (position.max(snapshot.revision), snapshot)
                })
            }
            RevisionMatch::Exactly(revision) => {
                self.freshen(Freshness::AtLeast(revision)).await?;
                let at = self.cache.section(kind.section).and_then(|section| section.snapshot_at(revision));
                at.map(|snapshot| (revision, snapshot))
            }
        };
        match snapshot {
            Some((revision, snapshot)) => {
                let mut listing = scope.page(&snapshot, revision, request);
                if kind.resource.conversion.is_some() {
                    listing.items = listing.items.iter().map(|item| item.view(kind.resource)).collect();
                }
                Ok(listing)
            }
            None => self.list_store(kind, request, &scope, revision).await,
        }
    }

    fn scope(&self, kind: Kind<'_>, request: &ListRequest) -> Scope {
        let prefix = kind.resource.prefix();
        let base = if kind.resource.namespaced && !request.namespace.is_empty() {
            format!("{prefix}{}/", request.namespace)
        } else {
            prefix.clone()
        };
        // '0' follows '/': the first key past everything below the prefix.
        let end = format!("{}0", base.trim_end_matches('/'));
        let start = match &request.token {
            Some(token) => format!("{prefix}{}", token.start).max(base),
            None => base,
        };
        Scope { prefix, start, end }
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
            for entry in &page.entries {
                let object = self.decode(kind, entry)?;
                let item = Arc::new(CachedObject::new(kind.resource, Ok(&object), entry.modified));
                if !collector.take(entry.key.as_str(), &item) {
                    return Ok(collector.finish(scope, page.revision));
                }
            }
            match page.entries.last() {
                Some(last) if page.remaining > 0 => range = range.after(last.key.as_bytes()),
                _ => return Ok(collector.finish(scope, page.revision)),
            }
        }
    }
}

/// Which keys a list covers.
struct Scope {
    prefix: String,
    start: String,
    end: String,
}

impl Scope {
    fn page(
        &self,
        snapshot: &storage_cache::Snapshot<CachedObject>,
        revision: Revision,
        request: &ListRequest,
    ) -> Listing {
        let mut collector = Collector::new(request);
        for (key, item) in snapshot.range(&self.start, &self.end) {
            if !collector.take(key, item) {
                break;
            }
        }
        if collector.more && request.labels.is_empty() && request.fields.is_empty() {
            let total = snapshot.range(&self.start, &self.end).count();
            collector.remaining = u64::try_from(total.saturating_sub(collector.items.len())).ok();
        }
        collector.finish(self, revision)
    }
}

/// Fills a page.
struct Collector<'a> {
    request: &'a ListRequest,
    items: Vec<Arc<CachedObject>>,
    last: String,
    more: bool,
    remaining: Option<u64>,
}

impl<'a> Collector<'a> {
    fn new(request: &'a ListRequest) -> Self {
        Self { request, items: Vec::new(), last: String::new(), more: false, remaining: None }
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

    fn finish(self, scope: &Scope, revision: Revision) -> Listing {
        let next = if self.more {
            let start = format!("{}\0", self.last.strip_prefix(&scope.prefix).unwrap_or(&self.last));
            ContinueToken { revision: Some(revision.number()), start }.encode()
        } else {
            String::new()
        };
        Listing { items: self.items, revision, next, remaining: self.remaining }
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
