//! Store of one object, for the tests of verbs.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use apiserver_machinery::action::{ActionCall, ActionHandler, Caller, Objects};
use apiserver_machinery::lock::{Lock, Validity};
use apiserver_machinery::object;
use apiserver_machinery::status::{ApiError, ApiResult, ResourceNames};
use apiserver_types::Descriptor;
use async_trait::async_trait;
use serde_json::{Value, json};

/// Store with one object that a verb may change, and with another one that verbs may read. Its verbs are called by `ann`.
#[derive(Debug)]
pub(crate) struct StoredObject {
    kind: Descriptor,
    object: Value,
    /// Plural and object.
    related: Option<(&'static str, Value)>,
    revision: AtomicU64,
    /// Number of writes by another client, each just before one of the first writes of a verb.
    others: u64,
    last_write: Mutex<Option<Value>>,
}

impl StoredObject {
    pub(crate) fn new(kind: Descriptor, object: Value) -> Self {
        let (revision, last_write) = (AtomicU64::new(0), Mutex::new(None));
        Self { kind, object, related: None, revision, others: 0, last_write }
    }

    /// Adds an object of another kind, with any name.
    pub(crate) fn with_related(self, plural: &'static str, object: Value) -> Self {
        Self { related: Some((plural, object)), ..self }
    }

    /// Lets another client change the object just before each of this number of writes.
    pub(crate) fn changed_by_others(self, others: u64) -> Self {
        Self { others, ..self }
    }

    /// Calls a verb of the object. Returns the response.
    pub(crate) async fn call(&self, verb: &dyn ActionHandler, body: Value) -> ApiResult<Value> {
        let caller = Caller { username: "ann".to_owned(), ..Caller::default() };
        let name = object::name(&self.object);
        let call = ActionCall { namespace: "ns", name, body, caller, dry_run: false, objects: self };
        Ok(verb.invoke(call).await?.object)
    }

    /// Returns the object as a verb wrote it last, if one did.
    pub(crate) fn last_write(&self) -> Option<Value> {
        self.last_write.lock().unwrap().clone()
    }
}

impl ResourceNames for StoredObject {
    fn group(&self) -> &str {
        self.kind.group
    }

    fn kind(&self) -> &str {
        self.kind.kind
    }

    fn plural(&self) -> &str {
        self.kind.plural
    }
}

#[async_trait]
impl Objects for StoredObject {
    fn resource(&self, _: &str, _: &str) -> Option<&dyn ResourceNames> {
        Some(self)
    }

    fn fill_in(&self, _: &str, _: &str, _: &mut Value) {}

    async fn get(&self, _: &str, plural: &str, _: &str, _: &str) -> ApiResult<Option<Value>> {
        if plural != self.kind.plural {
            let related = self.related.as_ref().filter(|(known, _)| *known == plural);
            return Ok(related.map(|(_, object)| object.clone()));
        }
        let mut object = self.object.clone();
        object["metadata"]["resourceVersion"] = json!(self.revision.load(Ordering::SeqCst).to_string());
        Ok(Some(object))
    }

    async fn list(&self, _: &str, _: &str, _: &str, _: &str) -> ApiResult<Vec<Value>> {
        Ok(Vec::new())
    }

    async fn create(
        &self,
        _: &str,
        _: &str,
        _: &str,
        object: Value,
        _: bool,
        _: Option<Validity>,
    ) -> ApiResult<Value> {
        Ok(object)
    }

    async fn update(
        &self,
        _: &str,
        _: &str,
        _: &str,
        _: &str,
        object: Value,
        dry_run: bool,
    ) -> ApiResult<Value> {
        if dry_run {
            return Ok(object);
        }
        if self.revision.fetch_add(1, Ordering::SeqCst) < self.others {
            return Err(ApiError::untyped(409, "the object has been modified".to_owned()));
        }
        *self.last_write.lock().unwrap() = Some(object.clone());
        Ok(object)
    }

    async fn lock(&self, _: &str) -> ApiResult<Lock> {
        Err(ApiError::internal("there is no lock".to_owned()))
    }

    async fn unlock(&self, _: Lock) {}
}
