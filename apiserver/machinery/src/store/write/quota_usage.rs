//! Count of the amounts that the objects of a namespace use, before and after a write.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;
use storage_contract::Revision;

use crate::object;
use crate::quota::{self, Amounts, Tally};
use crate::resource::Resource;
use crate::selectors::{FieldSelector, LabelSelector};
use crate::status::ApiResult;
use crate::store::{CachedObject, Freshness, Kind, ListRequest, Listing, ObjectStore, RevisionMatch};

/// Write that is about to happen, with the objects in their stored version.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Change<'a> {
    pub(crate) stored: &'a Resource,
    pub(crate) new: &'a Value,
    /// `None` on create.
    pub(crate) old: Option<&'a Value>,
}

/// Amounts before and after a write.
#[derive(Default)]
struct Usage {
    /// Numbers of objects.
    counts: [Amounts; 2],
    /// Other amounts.
    tallies: [Tally; 2],
}

impl ObjectStore {
    /// Returns the amounts of these names that the objects of a namespace use. Names that no kind uses are absent.
    ///
    /// # Errors
    /// 500 if an object cannot be decoded; 503.
    pub async fn quota_usage(&self, namespace: &str, names: &BTreeSet<&str>) -> ApiResult<Amounts> {
        Ok(self.quota_usage_with(namespace, names, None).await?.0)
    }

    /// Returns the revisions of the last visible changes of the ResourceQuotas, and of each kind that uses amounts of these
    /// names. If they are equal later, the same is used in all namespaces.
    pub fn quota_changes(&self, names: &BTreeSet<String>) -> Vec<Revision> {
        let decides = |stored: &Resource| {
            (&*stored.group, &*stored.plural) == quota::RESOURCE_QUOTA
                || names.iter().any(|name| quota::may_use(stored, name))
        };
        let kinds = self.registry.stored().iter().enumerate().filter(|(_, stored)| decides(stored));
        kinds.filter_map(|(index, _)| self.cache.last_change(index)).collect()
    }

    /// Returns the amounts that are used now, and after a change. It decodes each object that uses such an amount once.
    pub(super) async fn quota_usage_with(
        &self,
        namespace: &str,
        names: &BTreeSet<&str>,
        change: Option<Change<'_>>,
    ) -> ApiResult<(Amounts, Amounts)> {
        let uses = |stored: &&Resource| names.iter().any(|name| quota::may_use(stored, name));
        let kinds = self.registry.stored().iter().map(Arc::as_ref).filter(|stored| stored.namespaced);
        let kinds = quota::owners_first(kinds.filter(uses).collect());
        let listings = self.listings(namespace, &kinds).await?;
        let mut usage = Usage::default();
        for (stored, listing) in &listings {
            let own = names.iter().copied().filter(|name| quota::may_use(stored, name));
            let (counts, others): (Vec<&str>, Vec<&str>) = own.partition(|name| quota::is_count(name));
            let change = change
                .filter(|change| change.stored.kind == stored.kind && change.stored.group == stored.group);
            usage.count(&counts, listing.items.len(), change);
            if !others.is_empty() {
                let may_own = kinds.iter().any(|kind| quota::may_own(stored, kind));
                usage.add(stored, &listing.items, change, may_own)?;
            }
            others.iter().for_each(|name| usage.counts.iter_mut().for_each(|counts| counts.add(name, 0)));
        }
        let [before, after] = usage.sums(names);
        Ok((before, after))
    }

    /// Lists the objects of kinds. Owners are listed last: the owner of a listed object is in a later list, unless it is
    /// gone.
    async fn listings<'a>(
        &self,
        namespace: &str,
        owners_first: &[&'a Resource],
    ) -> ApiResult<Vec<(&'a Resource, Listing)>> {
        let (mut listings, mut freshness) = (Vec::with_capacity(owners_first.len()), Freshness::Consistent);
        for stored in owners_first.iter().rev() {
            let Some(kind) = self.kind_of(&stored.group, &stored.plural) else { continue };
            let listing = self.in_namespace(kind, namespace, freshness).await?;
            freshness = Freshness::AtLeast(listing.revision);
            listings.push((*stored, listing));
        }
        listings.reverse();
        Ok(listings)
    }

    pub(super) async fn in_namespace(
        &self,
        kind: Kind<'_>,
        namespace: &str,
        freshness: Freshness,
    ) -> ApiResult<Listing> {
        let request = ListRequest {
            namespace: namespace.to_owned(),
            labels: LabelSelector::default(),
            fields: FieldSelector::default(),
            limit: 0,
            token: None,
            revision: RevisionMatch::AtLeast(freshness),
        };
        self.list(kind, &request).await
    }
}

impl Usage {
    /// Adds the number of objects of a kind.
    fn count(&mut self, names: &[&str], number: usize, change: Option<Change<'_>>) {
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        let added = i64::from(change.is_some_and(|change| change.old.is_none()));
        let [before, after] = &mut self.counts;
        for name in names {
            before.add(name, number);
            after.add(name, number.saturating_add(added));
        }
    }

    /// Adds the amounts of the objects of a kind, and of the change of one of them.
    fn add(
        &mut self,
        stored: &Resource,
        items: &[Arc<CachedObject>],
        change: Option<Change<'_>>,
        may_own: bool,
    ) -> ApiResult<()> {
        let [before, after] = &mut self.tallies;
        let mut new = change.map(|change| change.new);
        for item in items {
            let object = item.to_value()?;
            before.add(stored, &object, may_own);
            let is_changed = |new: &mut &Value| object::name(new) == object::name(&object);
            after.add(stored, new.take_if(is_changed).unwrap_or(&object), may_own);
        }
        if let Some(new) = new {
            after.add(stored, new, may_own);
        }
        Ok(())
    }

    /// Returns the sums of these names.
    fn sums(self, names: &BTreeSet<&str>) -> [Amounts; 2] {
        let Self { counts: [mut before, mut after], tallies: [then, later] } = self;
        before.add_all(&then.used());
        after.add_all(&later.used());
        [before, after].map(|sum| sum.only(|name| names.contains(name)))
    }
}
