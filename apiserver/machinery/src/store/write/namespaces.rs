//! Namespace check of a create: the namespace must exist and must not be terminating.

use std::sync::LazyLock;

use async_trait::async_trait;
use memchr::memmem::Finder;
use serde_json::{Value, json};
use storage_contract::Unchanged;

use crate::excerpt::Excerpt;
use crate::object;
use crate::status::{ApiError, ApiResult};
use crate::store::{CachedObject, Kind, ObjectStore, WriteOptions};

/// Annotation of a Namespace that was created while the host cluster did not answer. When the host is up, it gets the
/// namespace. Value: `true`.
pub const PROVISIONAL: &str = "capstan.dev/provisional";

/// Source of namespaces besides the store: the host cluster.
#[async_trait]
pub trait NamespaceSource: Send + Sync + std::fmt::Debug + 'static {
    /// Returns the namespace object, if it is known without a request.
    fn known(&self, _name: &str) -> Option<Value> {
        None
    }

    /// Returns true if a namespace of this name that is created now is provisional: the source does not answer, and does not
    /// have it, as far as is known.
    fn lacks(&self, _name: &str) -> bool {
        false
    }

    /// Returns the namespace object, or `None` if it does not exist there either.
    ///
    /// # Errors
    /// 503 if the source does not answer.
    async fn namespace(&self, name: &str) -> ApiResult<Option<Value>>;
}

/// Source without namespaces: all of them are in the store.
#[derive(Debug, Clone, Copy, Default)]
pub struct OwnNamespaces;

#[async_trait]
impl NamespaceSource for OwnNamespaces {
    async fn namespace(&self, _name: &str) -> ApiResult<Option<Value>> {
        Ok(None)
    }
}

/// State of the namespace of a create: it existed and was not terminating when it was read.
#[derive(Debug)]
pub(crate) struct NamespaceState<'a> {
    pub(crate) name: &'a str,
    /// The revision that the namespace must still have when the object is stored; none if the namespace is not in the
    /// store.
    pub(crate) unchanged: Option<Unchanged>,
}

impl ObjectStore {
    /// Returns the state of a namespace for a create. The cached namespace is sufficient, because the create fails if
    /// the namespace has changed since.
    ///
    /// # Errors
    /// 403 if it is terminating; 404 if it does not exist; 503.
    pub(crate) async fn namespace_state<'a>(
        &self,
        kind: Kind<'_>,
        namespace: &'a str,
        name: &str,
    ) -> ApiResult<NamespaceState<'a>> {
        let Some(namespaces) = self.kind_of("", "namespaces").filter(|_| kind.resource.namespaced) else {
            return Ok(NamespaceState { name: namespace, unchanged: None });
        };
        let key = self.key(namespaces, "", namespace)?;
        let cached =
            self.resource_cache(namespaces).and_then(|cache| cache.snapshot().get(key.as_str()).cloned());
        if let Some(cached) = cached.filter(|cached| is_known_alive(cached)) {
            let unchanged = Some(Unchanged { key, modified: cached.revision });
            return Ok(NamespaceState { name: namespace, unchanged });
        }
        if self.namespaces.known(namespace).is_some_and(|found| is_alive(&found)) {
            return Ok(NamespaceState { name: namespace, unchanged: None });
        }
        self.stored_namespace_state(kind, namespace, name).await
    }

    /// Returns the same state from the store, for a namespace that is not cached or has changed.
    pub(crate) async fn stored_namespace_state<'a>(
        &self,
        kind: Kind<'_>,
        namespace: &'a str,
        name: &str,
    ) -> ApiResult<NamespaceState<'a>> {
        let Some(namespaces) = self.kind_of("", "namespaces") else {
            return Ok(NamespaceState { name: namespace, unchanged: None });
        };
        let key = self.key(namespaces, "", namespace)?;
        let (found, unchanged) = match self.read(namespaces, &key).await? {
            Some((found, entry)) => (found, Some(Unchanged { key, modified: entry.modified })),
            None => match self.namespaces.namespace(namespace).await? {
                Some(found) => (found, None),
                None => return Err(ApiError::not_found(namespaces.resource, namespace)),
            },
        };
        match is_alive(&found) {
            true => Ok(NamespaceState { name: namespace, unchanged }),
            false => Err(ApiError::namespace_terminating(kind.resource, name, namespace)),
        }
    }
}

impl ObjectStore {
    /// Returns a namespace for a configuration that selects by it: the cached one, or else the stored one.
    ///
    /// # Errors
    /// 503 if neither the store nor the host answers.
    pub async fn namespace_object(&self, name: &str) -> ApiResult<Option<Value>> {
        let Some(namespaces) = self.kind_of("", "namespaces") else { return Ok(None) };
        let key = self.key(namespaces, "", name)?;
        let cached =
            self.resource_cache(namespaces).and_then(|cache| cache.snapshot().get(key.as_str()).cloned());
        if let Some(cached) = cached {
            return cached.view(namespaces.resource).to_value().map(Some).map_err(ApiError::from);
        }
        if let Some(known) = self.namespaces.known(name) {
            return Ok(Some(known));
        }
        match self.read(namespaces, &key).await? {
            Some((found, _)) => Ok(Some(found)),
            None => self.namespaces.namespace(name).await,
        }
    }
}

impl ObjectStore {
    /// Marks a Namespace that a client creates as provisional if the host cluster does not answer. One that cannot be deleted
    /// is the server's own, and stays so.
    pub(crate) fn mark_provisional(&self, kind: Kind<'_>, namespace: &mut Value, options: &WriteOptions) {
        let is_namespace = kind.resource.group.is_empty() && kind.resource.plural == "namespaces";
        if !is_namespace || options.permissions.is_none() || !self.namespaces.lacks(object::name(namespace)) {
            return;
        }
        if kind.stored.strategy.refuse_deletion(namespace).is_some() {
            return;
        }
        let Some(metadata) = object::metadata_mut(namespace) else { return };
        let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert(PROVISIONAL.to_owned(), json!("true"));
        }
    }

    /// Refuses a write through the host cluster into a namespace that the host does not have yet. Reads are served: a
    /// garbage collector that finds an owner in a list, and then gets 404 for it, deletes the objects of this owner.
    ///
    /// # Errors
    /// 404 if the namespace is provisional.
    pub fn refuse_provisional(&self, name: &str) -> ApiResult<()> {
        let Some(namespaces) = self.kind_of("", "namespaces") else { return Ok(()) };
        let key = self.key(namespaces, "", name)?;
        let cached =
            self.resource_cache(namespaces).and_then(|cache| cache.snapshot().get(key.as_str()).cloned());
        let Some(cached) = cached else { return Ok(()) };
        let found = cached.view(namespaces.resource).to_value()?;
        let annotations = object::at(&found, "metadata.annotations");
        let is_provisional = annotations.is_some_and(|all| all.get(PROVISIONAL).is_some());
        if is_provisional && self.namespaces.known(name).is_none() {
            return Err(ApiError::not_found(namespaces.resource, name));
        }
        Ok(())
    }
}

/// Fields that show whether a namespace is terminating.
static TERMINATION: LazyLock<Excerpt> = LazyLock::new(|| {
    let mut excerpt = Excerpt::default();
    excerpt.add(["metadata", "deletionTimestamp"].into_iter());
    excerpt.add(["status", "phase"].into_iter());
    excerpt
});

/// Texts of which at least one is in the JSON of a terminating namespace. The last one is the start of an escape, which
/// may hide the others.
static TERMINATION_WORDS: LazyLock<[Finder<'static>; 3]> =
    LazyLock::new(|| ["\"deletionTimestamp\"", "\"Terminating\"", "\\u"].map(Finder::new));

/// Returns true if a cached namespace is not terminating. Every create calls it; most need not decode the JSON.
fn is_known_alive(cached: &CachedObject) -> bool {
    let Ok(json) = &cached.json else { return false };
    TERMINATION_WORDS.iter().all(|sign| sign.find(json.brief()).is_none())
        || TERMINATION.of(json.brief()).is_ok_and(|found| is_alive(&found))
}

/// Returns true if a namespace is not terminating.
fn is_alive(namespace: &Value) -> bool {
    let terminating = object::at(namespace, "status.phase") == Some(&json!("Terminating"));
    !object::is_deleting(namespace) && !terminating
}
