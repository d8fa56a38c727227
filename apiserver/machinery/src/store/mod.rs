//! The generic store: objects of any registered kind in a [`Store`] of bytes.
//!
//! One file per verb, named as HTTP calls it. Reads are served from the watch cache as ready-made
//! bytes; every write is one compare-and-swap of the key's revision.

mod apply;
mod cached;
mod create;
mod decoded;
mod delete;
mod delete_collection;
mod delete_options;
mod get;
mod identity;
mod list;
mod lock;
mod namespaces;
mod others;
mod owners;
mod scale;
mod update;
mod watch;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::Value;
use storage_cache::{Cache, Section};
use storage_contract::{Entry, Key, Revision, Store};
use tokio_util::sync::CancellationToken;

use crate::conversion::ConversionError;
use crate::encryption::Encryption;
use crate::object;
use crate::resource::{ROOT, Registry, Resource};
use crate::status::{ApiError, ApiResult};

pub use apply::{AppliedObject, Configuration};
pub use cached::{CachedObject, EventKind};
pub use decoded::{check_metadata, strictly_refused, unknown_field, unknown_fields};
pub use delete::Deletion;
pub use delete_options::{DeleteOptions, Propagation};
pub use get::Freshness;
pub use list::{ListRequest, Listing, RevisionMatch};
pub use lock::Lock;
pub use namespaces::{NamespaceSource, OwnNamespaces};
pub use update::{Method, Target};
pub use watch::{ObjectEvent, ObjectWatch, WatchRequest, WatchStart};

/// How long a consistent read waits for the cache before it reads the store itself: the follower is
/// a few milliseconds behind when all is well.
const CATCH_UP: Duration = Duration::from_millis(500);

/// How long a read waits for a revision that the client named: upstream's limit.
const WAIT_FOR_REVISION: Duration = Duration::from_secs(3);

/// What to do about fields the schema does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FieldValidation {
    /// Drop them silently.
    Ignore,
    /// Drop them and warn.
    #[default]
    Warn,
    /// Refuse the request.
    Strict,
}

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
enum Origin {
    /// What a client sent as the whole, or as a change to it. A null there means nothing.
    Sent,
    /// What a client applied. A null there means null.
    Applied,
}

/// A written object and what its writer should be told.
#[derive(Debug, Clone, PartialEq)]
pub struct Written {
    /// The object as stored (or as it would be).
    pub object: Value,
    /// Warnings, without the header's decoration.
    pub warnings: Vec<String>,
}

impl Written {
    /// How a write ended, after what else its writer is to be told: of a refusal, too.
    ///
    /// # Errors
    /// The write's own.
    pub fn told(result: ApiResult<Self>, mut warnings: Vec<String>) -> ApiResult<Self> {
        match result {
            Ok(mut written) => {
                warnings.append(&mut written.warnings);
                Ok(Self { warnings, ..written })
            }
            Err(error) => Err(error.after(warnings)),
        }
    }
}

/// The objects of all registered kinds.
#[derive(Debug)]
pub struct ObjectStore {
    registry: Arc<Registry>,
    store: Arc<dyn Store>,
    cache: Arc<Cache<CachedObject>>,
    encryption: Arc<Encryption>,
    namespaces: Arc<dyn NamespaceSource>,
    owners: owners::Owners,
}

/// One registered kind in the version of a request, and how it is kept.
#[derive(Debug, Clone, Copy)]
pub struct Kind<'a> {
    /// What is known of it in the request's version.
    pub resource: &'a Arc<Resource>,
    /// The same in the stored version.
    pub stored: &'a Arc<Resource>,
    /// The section of the cache with its objects: its place among the stored kinds.
    section: usize,
}

impl Kind<'_> {
    /// An object of the request's version as it is stored.
    fn as_stored<'a>(&self, object: &'a Value) -> ApiResult<Cow<'a, Value>> {
        match &self.resource.conversion {
            None => Ok(Cow::Borrowed(object)),
            Some(conversion) => {
                conversion.stored(object.clone()).map(Cow::Owned).map_err(|error| self.unconvertible(&error))
            }
        }
    }

    /// A stored object in the request's version.
    fn served(&self, object: Value) -> ApiResult<Value> {
        match &self.resource.conversion {
            None => Ok(object),
            Some(conversion) => conversion.served(object).map_err(|error| self.unconvertible(&error)),
        }
    }

    fn unconvertible(&self, error: &ConversionError) -> ApiError {
        let (kind, from, to) = (&self.resource.kind, &self.resource.version, &self.stored.version);
        ApiError::internal(format!("{kind} cannot be converted between {from} and {to}: {error}"))
    }
}

impl ObjectStore {
    /// Opens the objects in `store` and starts their cache, which ends with `shutdown`.
    pub fn open(
        registry: Arc<Registry>,
        store: Arc<dyn Store>,
        encryption: Arc<Encryption>,
        namespaces: Arc<dyn NamespaceSource>,
        shutdown: CancellationToken,
    ) -> Self {
        let prefixes: Vec<String> = registry.stored().iter().map(|resource| resource.prefix()).collect();
        let projection = Arc::new(cached::ToBytes::new(Arc::clone(&registry), Arc::clone(&encryption)));
        let cache = Cache::start(Arc::clone(&store), ROOT, &prefixes, projection, shutdown);
        let owners = owners::Owners::new(&registry);
        Self { registry, store, cache, encryption, namespaces, owners }
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
        let count = |index: usize| self.cache.section(index).map_or(0, |section| section.len());
        let kinds = self.registry.stored().iter().enumerate();
        kinds.map(|(index, resource)| (resource.qualified_plural(), count(index))).collect()
    }

    /// How many changes of each kind the cache holds, for watches to go on with.
    pub fn kept_changes(&self) -> Vec<(String, usize)> {
        let count = |index: usize| self.cache.section(index).map_or(0, |section| section.changes());
        let kinds = self.registry.stored().iter().enumerate();
        kinds.map(|(index, resource)| (resource.qualified_plural(), count(index))).collect()
    }

    /// Up to where the cache shows everything.
    pub fn cached_revision(&self) -> Revision {
        self.cache.revision()
    }

    /// How many objects of one kind there are.
    pub fn count(&self, kind: Kind<'_>) -> usize {
        self.cache.section(kind.section).map_or(0, |section| section.len())
    }

    fn section(&self, kind: Kind<'_>) -> Option<&Arc<Section<CachedObject>>> {
        self.cache.section(kind.section)
    }

    /// A stored entry as the cache holds it, in the request's version.
    fn project(&self, kind: Kind<'_>, entry: &Entry) -> Arc<CachedObject> {
        Arc::new(CachedObject::of_entry(&self.registry, kind.stored, &self.encryption, entry))
            .view(kind.resource)
    }

    fn key(&self, kind: Kind<'_>, namespace: &str, name: &str) -> ApiResult<Key> {
        let prefix = kind.resource.prefix();
        let text = if kind.resource.namespaced {
            format!("{prefix}{namespace}/{name}")
        } else {
            format!("{prefix}{name}")
        };
        Key::new(text).map_err(|_| ApiError::not_found(kind.resource, name))
    }

    /// The stored object now, decoded and defaulted, with its entry.
    async fn read(&self, kind: Kind<'_>, key: &Key) -> ApiResult<Option<(Value, Entry)>> {
        let entry = self.store.get(key).await.map_err(|error| ApiError::storage(&error))?;
        let Some(entry) = entry else { return Ok(None) };
        let object = self.decode(kind, &entry)?;
        Ok(Some((object, entry)))
    }

    /// The object behind an entry, in the request's version.
    fn decode(&self, kind: Kind<'_>, entry: &Entry) -> ApiResult<Value> {
        let object =
            decode(&self.registry, kind.stored, &self.encryption, entry).map_err(ApiError::internal)?;
        kind.served(object)
    }

    /// Whether an entry is written as it would be written now: in this version, with this key.
    fn is_current(&self, kind: Kind<'_>, entry: &Entry) -> bool {
        let stored = parse(kind.stored, &self.encryption, entry);
        self.encryption.is_current(&kind.resource.qualified_plural(), &entry.value)
            && stored.is_ok_and(|stored| text(&stored, "apiVersion") == kind.stored.api_version())
    }

    fn encode(&self, kind: Kind<'_>, key: &Key, object: &Value) -> ApiResult<Bytes> {
        let mut stored = kind.as_stored(object)?.into_owned();
        object::remove_meta(&mut stored, "resourceVersion");
        let bytes = serde_json::to_vec(&stored).map_err(|error| ApiError::internal(error.to_string()))?;
        self.encryption
            .seal(&kind.resource.qualified_plural(), key.as_str(), bytes)
            .map_err(|error| ApiError::internal(error.to_string()))
    }
}

/// What a stored entry says, decrypted. The error names the key.
fn parse(resource: &Resource, encryption: &Encryption, entry: &Entry) -> Result<Value, String> {
    let plain = encryption
        .open(&resource.qualified_plural(), entry.key.as_str(), &entry.value)
        .map_err(|error| error.to_string())?;
    serde_json::from_slice(&plain).map_err(|error| format!("{} cannot be decoded: {error}", entry.key))
}

/// The object behind a stored entry, in the version that is stored now, defaulted, with its
/// revision. It may have been written when another version was. The error names the key.
fn decode(
    registry: &Registry,
    resource: &Resource,
    encryption: &Encryption,
    entry: &Entry,
) -> Result<Value, String> {
    let mut object = parse(resource, encryption, entry)?;
    let version = text(&object, "apiVersion");
    if version != resource.api_version() {
        let of_then = |other: &&Arc<Resource>| {
            other.group == resource.group && other.plural == resource.plural && other.api_version() == version
        };
        let then = registry.resources().iter().find(of_then).and_then(|then| then.conversion.as_ref());
        let conversion = then.ok_or_else(|| {
            format!("{} is stored as {version:?}, which is no version of {} here", entry.key, resource.kind)
        })?;
        object = conversion.stored(object).map_err(|error| format!("{}: {error}", entry.key))?;
    }
    resource.schema.fill_in(&mut object);
    object::set_revision(&mut object, entry.modified);
    Ok(object)
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
