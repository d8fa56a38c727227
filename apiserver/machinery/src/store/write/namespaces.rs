//! Nothing is created in a namespace that does not exist or is going away.

use std::sync::LazyLock;

use async_trait::async_trait;
use memchr::memmem::Finder;
use serde_json::{Value, json};
use storage_contract::Unchanged;

use crate::excerpt::Excerpt;
use crate::object;
use crate::status::{ApiError, ApiResult};
use crate::store::{CachedObject, Kind, ObjectStore};

/// Where a namespace may be known that is not in our own store: the host cluster.
#[async_trait]
pub trait NamespaceSource: Send + Sync + std::fmt::Debug + 'static {
    /// The namespace object, if it is known without asking anybody.
    fn known(&self, _name: &str) -> Option<Value> {
        None
    }

    /// The namespace object, or `None` when it does not exist there either.
    ///
    /// # Errors
    /// 503 when the source cannot be asked.
    async fn namespace(&self, name: &str) -> ApiResult<Option<Value>>;
}

/// There is no other place.
#[derive(Debug, Clone, Copy, Default)]
pub struct OwnNamespaces;

#[async_trait]
impl NamespaceSource for OwnNamespaces {
    async fn namespace(&self, _name: &str) -> ApiResult<Option<Value>> {
        Ok(None)
    }
}

/// Where an object is created: a namespace that was there and alive when it was looked at.
#[derive(Debug)]
pub(crate) struct NamespaceState<'a> {
    pub(crate) name: &'a str,
    /// What has to be as it was for a creation to happen; none where that is not ours to say.
    pub(crate) unchanged: Option<Unchanged>,
}

impl ObjectStore {
    /// The namespace as a place to create an object in. What is known is taken for what is: the creation happens only
    /// if the namespace is still as it was.
    ///
    /// # Errors
    /// 403 when it is going away; 404 when there is none; 503.
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
            self.section(namespaces).and_then(|section| section.snapshot().get(key.as_str()).cloned());
        if let Some(cached) = cached.filter(|cached| is_known_alive(cached)) {
            let unchanged = Some(Unchanged { key, modified: cached.revision });
            return Ok(NamespaceState { name: namespace, unchanged });
        }
        if self.namespaces.known(namespace).is_some_and(|found| is_alive(&found)) {
            return Ok(NamespaceState { name: namespace, unchanged: None });
        }
        self.stored_namespace_state(kind, namespace, name).await
    }

    /// The same, for a namespace that is not known, or has changed since.
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

/// What tells whether a namespace is going away.
static TERMINATION: LazyLock<Excerpt> = LazyLock::new(|| {
    let mut excerpt = Excerpt::default();
    excerpt.add(["metadata", "deletionTimestamp"].into_iter());
    excerpt.add(["status", "phase"].into_iter());
    excerpt
});

/// Words of which at least one is in the JSON of a namespace that is going away. The last begins what may be any word.
static TERMINATION_WORDS: LazyLock<[Finder<'static>; 3]> =
    LazyLock::new(|| ["\"deletionTimestamp\"", "\"Terminating\"", "\\u"].map(Finder::new));

/// Whether a namespace that is cached is not going away. Every create asks: most need not read the JSON.
fn is_known_alive(cached: &CachedObject) -> bool {
    let Ok(json) = &cached.json else { return false };
    TERMINATION_WORDS.iter().all(|sign| sign.find(json.brief()).is_none())
        || TERMINATION.of(json.brief()).is_ok_and(|found| is_alive(&found))
}

/// Whether a namespace is not going away.
fn is_alive(namespace: &Value) -> bool {
    let terminating = object::at(namespace, "status.phase") == Some(&json!("Terminating"));
    !object::is_deleting(namespace) && !terminating
}
