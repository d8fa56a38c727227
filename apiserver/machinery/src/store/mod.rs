//! Generic store: objects of any registered kind in a [`Store`] of bytes.
//!
//! Reads are served from the watch cache as encoded bytes. Every write is one compare-and-swap of the key's revision.

pub(crate) mod cached;
mod kind;
pub(crate) mod read;
pub(crate) mod write;

use std::sync::Arc;
use std::time::Duration;

use apiserver_executor::Supervisor;
use jiff::Timestamp;
use serde_json::Value;
use storage_cache::{Cache, ResourceCache};
use storage_contract::{Key, Revision, Store};
use tokio_util::sync::CancellationToken;

use self::cached::own_writes;
use self::read::remaining;
use self::write::field_managers::FieldManagers;
use crate::admission::Permissions;
use crate::admission_control::RequestAdmission;
use crate::encryption::Encryption;
use crate::lock::Queues;
use crate::object;
use crate::quota::QuotaSource;
use crate::resource::{ROOT, Registry, Resource};
use crate::status::{ApiError, ApiResult};

pub use crate::field_validation::FieldValidation;
pub use crate::lock::{Lock, Validity};
pub use cached::json::CachedJson;
pub use cached::object::{CachedObject, EventKind};
pub use cached::unreadable::Unreadable;
pub use kind::Kind;
pub use read::get::Freshness;
pub use read::list::{ListRequest, Listing, RevisionMatch};
pub use read::watch::{ObjectEvent, ObjectWatch, WatchRequest, WatchStart};
pub use storage_cache::CacheSize;
pub use write::apply::{AppliedObject, Configuration};
pub use write::delete::Deletion;
pub use write::delete_options::{DeleteOptions, Propagation};
pub use write::metadata_rules::validate_metadata;
pub use write::namespaces::{NamespaceSource, OwnNamespaces, PROVISIONAL};
pub use write::outcome::{Written, WrittenObject};
pub use write::replacement::Replacement;
pub use write::strict_decoding::{check_metadata, strictly_refused, unknown_field, unknown_fields};
pub use write::update::{Method, Target};

/// Time that a consistent read waits for the cache before it reads the store itself. The reflector is usually a few
/// milliseconds behind.
const CATCH_UP: Duration = Duration::from_millis(500);

/// Time that a read waits for a revision that the client named: upstream's limit.
const WAIT_FOR_REVISION: Duration = Duration::from_secs(3);

/// Field manager of writes that the server starts by itself.
pub const SERVER: &str = "capstan";

/// Options of a write.
#[derive(Debug, Clone, Default)]
pub struct WriteOptions {
    /// If true, nothing is stored.
    pub dry_run: bool,
    /// Treatment of unknown fields.
    pub field_validation: FieldValidation,
    /// Field manager of the written fields.
    pub manager: String,
    /// Permissions of the client; `None` for writes of the server itself.
    pub permissions: Option<Arc<dyn Permissions>>,
    /// Admission of the client's request; `None` if no configuration can apply, and for writes of the server itself.
    pub admission: Option<Arc<dyn RequestAdmission>>,
    /// Lock of the caller that the creation of an object relies on. It is checked last, because the write may wait.
    pub lock: Option<Validity>,
    /// Time that the client waits for the response; `None` if it did not say so.
    pub timeout: Option<Duration>,
}

/// Source of an object that is about to be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A client sent the object, or a change of it. A null means that the field is absent.
    Sent,
    /// A client applied a configuration. A null is a value.
    Applied,
}

/// The objects of all registered kinds.
#[derive(Debug)]
pub struct ObjectStore {
    registry: Arc<Registry>,
    store: Arc<dyn Store>,
    cache: Arc<Cache<CachedObject>>,
    encryption: Arc<Encryption>,
    namespaces: Arc<dyn NamespaceSource>,
    /// Source of quotas besides the store, if there is one.
    quota_source: Option<Arc<dyn QuotaSource>>,
    field_managers: FieldManagers,
    own_writes: Arc<own_writes::OwnWrites>,
    remaining: remaining::Remaining,
    queues: Queues,
}

impl ObjectStore {
    /// Opens the objects in `store` and starts their cache, which stops with `shutdown`.
    pub fn open(
        registry: Arc<Registry>,
        store: Arc<dyn Store>,
        encryption: Arc<Encryption>,
        namespaces: Arc<dyn NamespaceSource>,
        supervisor: &Supervisor,
        shutdown: CancellationToken,
    ) -> Self {
        let prefixes: Vec<String> = registry.stored().iter().map(|resource| resource.prefix()).collect();
        let own_writes = Arc::<own_writes::OwnWrites>::default();
        let projection = cached::object::ObjectProjection::new(
            Arc::clone(&registry),
            Arc::clone(&encryption),
            Arc::clone(&own_writes),
        );
        let projection = Arc::new(projection);
        let cache = Cache::start(Arc::clone(&store), ROOT, &prefixes, projection, supervisor, shutdown);
        let field_managers = FieldManagers::new(&registry);
        let (remaining, queues) = (remaining::Remaining::default(), Queues::default());
        let quota_source = None;
        Self {
            registry,
            store,
            cache,
            encryption,
            namespaces,
            quota_source,
            field_managers,
            own_writes,
            remaining,
            queues,
        }
    }

    /// Adds a source of quotas.
    #[must_use]
    pub fn with_quotas(self, source: Arc<dyn QuotaSource>) -> Self {
        Self { quota_source: Some(source), ..self }
    }

    /// Returns the registered kinds.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Returns true if reads can be served.
    pub fn is_ready(&self) -> bool {
        self.cache.is_ready()
    }

    /// Checks that the store answers.
    ///
    /// # Errors
    /// 503 if it does not.
    pub async fn ping(&self) -> ApiResult<Revision> {
        self.store.current_revision().await.map_err(|error| ApiError::storage(&error))
    }

    /// Returns the kind with this group, version and plural.
    pub fn kind(&self, group: &str, version: &str, plural: &str) -> Option<Kind<'_>> {
        self.kind_from(self.registry.find(group, version, plural)?)
    }

    fn kind_from<'a>(&'a self, resource: &'a Arc<Resource>) -> Option<Kind<'a>> {
        let (cache_index, stored) = self.registry.stored_of(resource)?;
        Some(Kind { resource, stored, cache_index })
    }

    /// Returns the kind with this group and plural, in its stored version.
    pub fn kind_of(&self, group: &str, plural: &str) -> Option<Kind<'_>> {
        let mut all = self.registry.stored().iter();
        self.kind_from(all.find(|resource| resource.group == group && resource.plural == plural)?)
    }

    /// Returns the number of objects of each kind.
    pub fn counts(&self) -> Vec<(String, usize)> {
        let count = |index: usize| self.cache.resource_cache(index).map_or(0, |cache| cache.len());
        let kinds = self.registry.stored().iter().enumerate();
        kinds.map(|(index, resource)| (resource.qualified_plural(), count(index))).collect()
    }

    /// Returns the number of changes of each kind in the history, from which watches can continue.
    pub fn kept_changes(&self) -> Vec<(String, usize)> {
        let count = |index: usize| self.cache.resource_cache(index).map_or(0, |cache| cache.changes());
        let kinds = self.registry.stored().iter().enumerate();
        kinds.map(|(index, resource)| (resource.qualified_plural(), count(index))).collect()
    }

    /// Returns the memory of each kind in the watch cache.
    pub fn cache_sizes(&self) -> Vec<(String, CacheSize)> {
        let cache = |index| self.cache.resource_cache(index);
        let size = |index| cache(index).map(|cache| cache.size()).unwrap_or_default();
        let kinds = self.registry.stored().iter().enumerate();
        kinds.map(|(index, resource)| (resource.qualified_plural(), size(index))).collect()
    }

    /// Returns the bytes of the sets of fields that objects of all kinds share.
    pub fn field_set_bytes(&self) -> usize {
        cached::json::shared_bytes()
    }

    /// Returns the revision up to which the cache shows every change.
    pub fn cached_revision(&self) -> Revision {
        self.cache.revision()
    }

    /// Returns the number of objects of one kind.
    pub fn count(&self, kind: Kind<'_>) -> usize {
        self.cache.resource_cache(kind.cache_index).map_or(0, |cache| cache.len())
    }

    /// Returns the number of objects of one kind in a namespace, or of all if it is empty. It counts to `most` at most: the
    /// objects of a namespace have no number of their own, and a caller that compares needs no more.
    pub fn count_in(&self, kind: Kind<'_>, namespace: &str, most: usize) -> usize {
        if namespace.is_empty() {
            return self.count(kind).min(most);
        }
        let Some(cache) = self.resource_cache(kind) else { return 0 };
        let prefix = kind.resource.prefix();
        // '0' follows '/': the first key after everything below the prefix.
        let (start, end) = (format!("{prefix}{namespace}/"), format!("{prefix}{namespace}0"));
        cache.snapshot().range(&start, &end).take(most).count()
    }

    fn resource_cache(&self, kind: Kind<'_>) -> Option<&Arc<ResourceCache<CachedObject>>> {
        self.cache.resource_cache(kind.cache_index)
    }

    fn key(&self, kind: Kind<'_>, namespace: &str, name: &str) -> ApiResult<Key> {
        let text = kind.resource.key(namespace, name);
        Key::new(text).map_err(|_| ApiError::not_found(kind.resource, name))
    }
}

/// Returns true if finalizers delay the deletion of an object.
fn is_held(resource: &Resource, object: &Value) -> bool {
    let in_spec = resource.strategy.has_spec_finalizers() && !object::spec_finalizers(object).is_empty();
    in_spec || !object::finalizers(object).is_empty()
}

fn now() -> String {
    object::timestamp(Timestamp::now())
}

fn text(value: &Value, field: &str) -> String {
    value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
}
