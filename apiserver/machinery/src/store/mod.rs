//! The generic store: objects of any registered kind in a [`Store`] of bytes.
//!
//! One file per verb, named as HTTP calls it. Reads are served from the watch cache as ready-made
//! bytes; every write is one compare-and-swap of the key's revision.

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
use crate::encryption::Encryption;
use crate::object;
use crate::resource::{ROOT, Registry, Resource};
use crate::status::{ApiError, ApiResult};

pub use crate::field_validation::FieldValidation;
pub use crate::lock::Lock;
pub use cached::json::CachedJson;
pub use cached::object::{CachedObject, EventKind};
pub use kind::Kind;
pub use read::get::Freshness;
pub use read::list::{ListRequest, Listing, RevisionMatch};
pub use read::watch::{ObjectEvent, ObjectWatch, WatchRequest, WatchStart};
pub use write::apply::{AppliedObject, Configuration};
pub use write::delete::Deletion;
pub use write::delete_options::{DeleteOptions, Propagation};
pub use write::metadata_rules::validate_metadata;
pub use write::namespaces::{NamespaceSource, OwnNamespaces};
pub use write::outcome::{Written, WrittenObject};
pub use write::replacement::Replacement;
pub use write::strict_decoding::{check_metadata, strictly_refused, unknown_field, unknown_fields};
pub use write::update::{Method, Target};

/// How long a consistent read waits for the cache before it reads the store itself: the follower is
/// a few milliseconds behind when all is well.
const CATCH_UP: Duration = Duration::from_millis(500);

/// How long a read waits for a revision that the client named: upstream's limit.
const WAIT_FOR_REVISION: Duration = Duration::from_secs(3);

/// Who writes when the server writes by itself.
pub const SERVER: &str = "capstan";

/// How a write is to be done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WriteOptions {
    /// Everything but the storing.
    pub dry_run: bool,
    /// Unknown fields.
    pub field_validation: FieldValidation,
    /// Who comes to own what is written.
    pub manager: String,
}

/// What an object about to be stored was made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// What a client sent as the whole, or as a change to it. A null there means nothing.
    Sent,
    /// What a client applied. A null there means null.
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
    field_managers: FieldManagers,
    own_writes: Arc<own_writes::OwnWrites>,
    remaining: remaining::Remaining,
}

impl ObjectStore {
    /// Opens the objects in `store` and starts their cache, which ends with `shutdown`.
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
        let remaining = remaining::Remaining::default();
        Self { registry, store, cache, encryption, namespaces, field_managers, own_writes, remaining }
    }

    /// The kinds.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Whether reads can be served.
    pub fn is_ready(&self) -> bool {
        self.cache.is_ready()
    }

    /// Asks the store whether it answers.
    ///
    /// # Errors
    /// 503 when it does not.
    pub async fn ping(&self) -> ApiResult<Revision> {
        self.store.current_revision().await.map_err(|error| ApiError::storage(&error))
    }

    /// The kind with this group, version and plural.
    pub fn kind(&self, group: &str, version: &str, plural: &str) -> Option<Kind<'_>> {
        self.kind_from(self.registry.find(group, version, plural)?)
    }

    fn kind_from<'a>(&'a self, resource: &'a Arc<Resource>) -> Option<Kind<'a>> {
        let (section, stored) = self.registry.stored_of(resource)?;
        Some(Kind { resource, stored, section })
    }

    /// The kind with this group and plural as it is stored.
    pub fn kind_of(&self, group: &str, plural: &str) -> Option<Kind<'_>> {
        let mut all = self.registry.stored().iter();
        self.kind_from(all.find(|resource| resource.group == group && resource.plural == plural)?)
    }

    /// How many objects of each kind there are.
    pub fn counts(&self) -> Vec<(String, usize)> {
        let count = |index: usize| self.cache.resource_cache(index).map_or(0, |section| section.len());
        let kinds = self.registry.stored().iter().enumerate();
        kinds.map(|(index, resource)| (resource.qualified_plural(), count(index))).collect()
    }

    /// How many changes of each kind the cache holds, for watches to go on with.
    pub fn kept_changes(&self) -> Vec<(String, usize)> {
        let count = |index: usize| self.cache.resource_cache(index).map_or(0, |section| section.changes());
        let kinds = self.registry.stored().iter().enumerate();
        kinds.map(|(index, resource)| (resource.qualified_plural(), count(index))).collect()
    }

    /// Up to where the cache shows everything.
    pub fn cached_revision(&self) -> Revision {
        self.cache.revision()
    }

    /// How many objects of one kind there are.
    pub fn count(&self, kind: Kind<'_>) -> usize {
        self.cache.resource_cache(kind.section).map_or(0, |section| section.len())
    }

    fn section(&self, kind: Kind<'_>) -> Option<&Arc<ResourceCache<CachedObject>>> {
        self.cache.resource_cache(kind.section)
    }

    fn key(&self, kind: Kind<'_>, namespace: &str, name: &str) -> ApiResult<Key> {
        let text = kind.resource.key(namespace, name);
        Key::new(text).map_err(|_| ApiError::not_found(kind.resource, name))
    }
}

/// Whether finalizers keep an object whose deletion was asked for.
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
