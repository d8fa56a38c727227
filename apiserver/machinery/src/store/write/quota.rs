//! Check of the quotas of a namespace before an object is stored.
//!
//! The check counts the objects of the namespace, and the write follows under a lock of the namespace's quotas. No two
//! writes can therefore use the same rest of a quota, on whichever servers they run.

use std::collections::BTreeSet;

use serde_json::Value;

use super::quota_usage::Change;
use super::update::Target;
use crate::lock::Lock;
use crate::object;
use crate::quota::{self, Amounts, Quota, RESOURCE_QUOTA, SourceQuotas};
use crate::status::{ApiError, ApiResult};
use crate::store::{Freshness, Kind, ObjectStore, WriteOptions};

impl ObjectStore {
    /// Checks that the quotas of the namespace allow an object to be created or changed. Returns the lock under which it
    /// must be stored, if a quota limits it. A dry run needs no lock.
    ///
    /// # Errors
    /// 403 in upstream's words; 503, also if the quotas of the host cluster are too old or have never been read.
    pub(crate) async fn reserve(
        &self,
        kind: Kind<'_>,
        namespace: &str,
        (new, old): (&Value, Option<&Value>),
        target: Target,
        options: &WriteOptions,
    ) -> ApiResult<Option<Lock>> {
        if !kind.resource.namespaced || target != Target::Object {
            return Ok(None);
        }
        let of_source = self.quotas_of_source(kind, namespace);
        if of_source.is_empty() && !self.may_have_quotas() {
            return Ok(None);
        }
        let (stored_new, stored_old) =
            (kind.as_stored(new)?, old.map(|old| kind.as_stored(old)).transpose()?);
        let change = Change { stored: kind.stored, new: &stored_new, old: stored_old.as_deref() };
        let is_internal = options.permissions.as_ref().is_none_or(|caller| caller.is_internal());
        let touched = touched(change, is_internal);
        if touched.is_empty() {
            return Ok(None);
        }
        let mut quotas = self.stored_quotas(namespace).await?;
        if can_decide(&of_source, &touched, options).await? {
            quotas.extend(of_source.into_quotas());
        }
        let limited: BTreeSet<&str> = quotas.iter().flat_map(|quota| quota.hard.names()).collect();
        if let Some(why) = obstacle(change, is_internal, &limited) {
            return Err(refused(kind, change.new, &why));
        }
        let names: BTreeSet<&str> = touched.names().filter(|name| limited.contains(name)).collect();
        if names.is_empty() {
            return Ok(None);
        }
        let lock = match options.dry_run {
            true => None,
            false => Some(self.lock(&format!("quota/{namespace}")).await?),
        };
        match self.check_quotas(kind, namespace, change, &quotas, &names).await {
            Ok(()) => Ok(lock),
            Err(error) => {
                self.release(lock).await;
                Err(error)
            }
        }
    }

    async fn check_quotas(
        &self,
        kind: Kind<'_>,
        namespace: &str,
        change: Change<'_>,
        quotas: &[Quota],
        names: &BTreeSet<&str>,
    ) -> ApiResult<()> {
        let (used, later) = self.quota_usage_with(namespace, names, Some(change)).await?;
        let requested = later.growth(&used);
        match quotas.iter().find_map(|quota| quota.refusal(&requested, &used)) {
            None => Ok(()),
            Some(why) => Err(refused(kind, change.new, &why)),
        }
    }

    /// Gives a lock of [`ObjectStore::reserve`] back, once the object is stored or refused.
    pub(crate) async fn release(&self, lock: Option<Lock>) {
        if let Some(lock) = lock {
            self.unlock(lock).await;
        }
    }

    /// Returns the quotas of a source besides the store. Those of the host mean the kinds that the host serves.
    fn quotas_of_source(&self, kind: Kind<'_>, namespace: &str) -> SourceQuotas {
        let source = self.quota_source.as_ref().filter(|_| kind.stored.hosted);
        source.map(|source| source.quotas(namespace)).unwrap_or_default()
    }

    /// Returns false if no namespace has a quota in the store, so that most servers pay nothing.
    fn may_have_quotas(&self) -> bool {
        let Some(kind) = self.kind_of(RESOURCE_QUOTA.0, RESOURCE_QUOTA.1) else { return false };
        !self.is_ready() || self.count(kind) > 0
    }

    /// Returns the quotas of a namespace in the store, by name.
    async fn stored_quotas(&self, namespace: &str) -> ApiResult<Vec<Quota>> {
        let Some(kind) = self.kind_of(RESOURCE_QUOTA.0, RESOURCE_QUOTA.1) else { return Ok(Vec::new()) };
        let listing = self.in_namespace(kind, namespace, Freshness::Any).await?;
        let quota = |item: &std::sync::Arc<crate::store::CachedObject>| {
            item.to_value().map(|object| Quota::of(&object)).map_err(ApiError::from)
        };
        listing.items.iter().map(quota).collect()
    }
}

/// Returns false if the client passes the quotas of a source, because they cannot decide.
///
/// # Errors
/// 503 if the client may not.
async fn can_decide(of_source: &SourceQuotas, touched: &Amounts, options: &WriteOptions) -> ApiResult<bool> {
    let Some(doubt) = of_source.doubt(touched) else { return Ok(true) };
    if let Some(admission) = &options.admission
        && admission.bypassed("quota", &doubt.name, &doubt.why, &doubt.name).await
    {
        return Ok(false);
    }
    Err(if doubt.is_lasting { ApiError::silent_host(doubt.why) } else { ApiError::unavailable(doubt.why) })
}

/// Returns the amounts of which a write may use more. Only a count of the namespace shows whether an owner accounts for
/// the object. A controller needs none: it writes objects of owners that exist, and their amounts were checked.
fn touched(change: Change<'_>, is_internal: bool) -> Amounts {
    let Change { stored, new, old } = change;
    let own = match is_accounted(change, is_internal) {
        true => Amounts::default(),
        false => stored.strategy.quota_usage(new),
    };
    let Some(old) = old else {
        let mut amounts = quota::counts(stored);
        amounts.add_all(&own);
        return amounts;
    };
    // Another client can take an object away from its owner, or what it owns from the object.
    if !is_internal && !own.is_empty() && quota::decisive(new) != quota::decisive(old) {
        return own;
    }
    own.growth(&stored.strategy.quota_usage(old))
}

/// Returns true if a controller writes an object for which an owner accounts.
fn is_accounted(change: Change<'_>, is_internal: bool) -> bool {
    is_internal && quota::owner_kind(change.stored, change.new).is_some()
}

fn obstacle(change: Change<'_>, is_internal: bool, limited: &BTreeSet<&str>) -> Option<String> {
    if change.old.is_some() || is_accounted(change, is_internal) {
        return None;
    }
    change.stored.strategy.quota_obstacle(change.new, limited)
}

fn refused(kind: Kind<'_>, new: &Value, why: &str) -> ApiError {
    let resource = kind.resource;
    ApiError::forbidden(&resource.group, &resource.plural, object::name(new), why)
}
