//! Check of the quotas of a namespace before an object is stored.
//!
//! The check counts the objects of the namespace, and the write follows under a lock of the namespace's quotas. No two
//! writes can therefore use the same rest of a quota, on whichever servers they run.

use std::collections::BTreeSet;

use serde_json::Value;

use super::update::Target;
use crate::lock::Lock;
use crate::object;
use crate::quota::{self, Amounts, Quota, RESOURCE_QUOTA};
use crate::selectors::{FieldSelector, LabelSelector};
use crate::status::{ApiError, ApiResult};
use crate::store::{Freshness, Kind, ListRequest, Listing, ObjectStore, RevisionMatch};

impl ObjectStore {
    /// Checks that the quotas of the namespace allow an object to be created or changed. Returns the lock under which it
    /// must be stored, if a quota limits it. A dry run needs no lock.
    ///
    /// # Errors
    /// 403 in upstream's words; 503.
    pub(crate) async fn reserve(
        &self,
        kind: Kind<'_>,
        namespace: &str,
        (new, old): (&Value, Option<&Value>),
        target: Target,
        dry_run: bool,
    ) -> ApiResult<Option<Lock>> {
        if !kind.resource.namespaced || target != Target::Object || !self.may_have_quotas() {
            return Ok(None);
        }
        let mut requested = quota::usage(kind.stored, kind.as_stored(new)?.as_ref());
        if let Some(old) = old {
            requested = requested.growth(&quota::usage(kind.stored, kind.as_stored(old)?.as_ref()));
        }
        if requested.is_empty() {
            return Ok(None);
        }
        let quotas = self.quotas(namespace).await?;
        let requested = requested.only(|name| quotas.iter().any(|quota| quota.hard.get(name).is_some()));
        if requested.is_empty() {
            return Ok(None);
        }
        let lock = match dry_run {
            true => None,
            false => Some(self.lock(&format!("quota/{namespace}")).await?),
        };
        match self.check_quotas(kind, namespace, new, &quotas, &requested).await {
            Ok(()) => Ok(lock),
            Err(error) => {
                self.release(lock).await;
                Err(error)
            }
        }
    }

    /// Gives a lock of [`ObjectStore::reserve`] back, once the object is stored or refused.
    pub(crate) async fn release(&self, lock: Option<Lock>) {
        if let Some(lock) = lock {
            self.unlock(lock).await;
        }
    }

    async fn check_quotas(
        &self,
        kind: Kind<'_>,
        namespace: &str,
        new: &Value,
        quotas: &[Quota],
        requested: &Amounts,
    ) -> ApiResult<()> {
        let names: BTreeSet<&str> = requested.names().collect();
        let used = self.quota_usage(namespace, &names).await?;
        match quotas.iter().find_map(|quota| quota.refusal(requested, &used)) {
            None => Ok(()),
            Some(why) => {
                let resource = kind.resource;
                Err(ApiError::forbidden(&resource.group, &resource.plural, object::name(new), &why))
            }
        }
    }

    /// Returns false if no namespace has a quota, so that most servers pay nothing.
    fn may_have_quotas(&self) -> bool {
        let Some(kind) = self.kind_of(RESOURCE_QUOTA.0, RESOURCE_QUOTA.1) else { return false };
        !self.is_ready() || self.count(kind) > 0
    }

    /// Returns the quotas of a namespace, by name.
    async fn quotas(&self, namespace: &str) -> ApiResult<Vec<Quota>> {
        let Some(kind) = self.kind_of(RESOURCE_QUOTA.0, RESOURCE_QUOTA.1) else { return Ok(Vec::new()) };
        let listing = self.in_namespace(kind, namespace, Freshness::Any).await?;
        let quota = |item: &std::sync::Arc<crate::store::CachedObject>| {
            item.to_value().map(|object| Quota::of(&object)).map_err(ApiError::from)
        };
        listing.items.iter().map(quota).collect()
    }

    /// Returns the amounts of these names that the objects of a namespace use. Names that no kind uses are absent.
    ///
    /// # Errors
    /// 500 if an object cannot be decoded; 503.
    pub async fn quota_usage(&self, namespace: &str, names: &BTreeSet<&str>) -> ApiResult<Amounts> {
        let (mut used, mut freshness) = (Amounts::default(), Freshness::Consistent);
        for stored in self.registry.stored().iter().filter(|stored| stored.namespaced) {
            let own: Vec<&str> = names.iter().copied().filter(|name| quota::may_use(stored, name)).collect();
            let Some(kind) = self.kind_of(&stored.group, &stored.plural).filter(|_| !own.is_empty()) else {
                continue;
            };
            let listing = self.in_namespace(kind, namespace, freshness).await?;
            freshness = Freshness::AtLeast(listing.revision);
            own.iter().for_each(|name| used.add(name, 0));
            let (counts, others): (Vec<&str>, Vec<&str>) =
                own.iter().copied().partition(|name| quota::is_count(name));
            for name in counts {
                used.add(name, i64::try_from(listing.items.len()).unwrap_or(i64::MAX));
            }
            for item in listing.items.iter().filter(|_| !others.is_empty()) {
                let object = item.to_value()?;
                used.add_all(&stored.strategy.quota_usage(&object).only(|name| others.contains(&name)));
            }
        }
        Ok(used)
    }

    async fn in_namespace(
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
