//! Objects of one cluster, with their history for watches.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock};

use serde_json::{Value, json};
use tokio::sync::watch;

use super::failure::Failure;
use super::kinds::{Kind, named};
use crate::json::{list, now, object, remove, set, text};
use crate::lock;
use crate::real::remote::Remote;

/// Events that are kept for watches. A watch from an older revision gets 410, as from a compacted etcd.
const HISTORY: usize = 20_000;

/// Message of a write with an old resource version.
const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// Plural of the kind whose objects each node renews all the time.
const LEASES: &str = "leases";

/// Key of an object: kind, namespace, name.
type Key = (&'static str, String, String);

/// Change of one object.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) revision: u64,
    pub(crate) plural: &'static str,
    /// State before, unless the object is new.
    pub(crate) before: Option<Arc<Value>>,
    /// State after. A deleted object has its last state.
    pub(crate) object: Arc<Value>,
    pub(crate) deleted: bool,
}

#[derive(Debug, Default)]
struct Contents {
    revision: u64,
    /// Revision of the last change of an object that is no Lease.
    but_leases: u64,
    objects: BTreeMap<Key, Arc<Value>>,
    history: VecDeque<Event>,
}

/// Store of one cluster.
#[derive(Debug)]
pub(crate) struct Store {
    contents: Mutex<Contents>,
    revision: watch::Sender<u64>,
    /// API that has the objects instead, in the heavy form.
    remote: OnceLock<Remote>,
}

impl Default for Store {
    fn default() -> Self {
        Self { contents: Mutex::default(), revision: watch::Sender::new(0), remote: OnceLock::new() }
    }
}

fn key(kind: &'static Kind, namespace: &str, name: &str) -> Key {
    let namespace = if kind.namespaced { namespace } else { "" };
    (kind.plural, namespace.to_owned(), name.to_owned())
}

impl Contents {
    /// Records a change under a new revision.
    fn record(
        &mut self,
        key: &Key,
        before: Option<Arc<Value>>,
        mut value: Value,
        deleted: bool,
    ) -> Arc<Value> {
        self.revision += 1;
        if key.0 != LEASES {
            self.but_leases = self.revision;
        }
        set(&mut value, &["metadata", "resourceVersion"], self.revision.to_string());
        let value = Arc::new(value);
        if deleted {
            self.objects.remove(key);
        } else {
            self.objects.insert(key.clone(), Arc::clone(&value));
        }
        let event =
            Event { revision: self.revision, plural: key.0, before, object: Arc::clone(&value), deleted };
        self.history.push_back(event);
        if self.history.len() > HISTORY {
            self.history.pop_front();
        }
        value
    }
}

impl Store {
    /// Creates a store with objects of an earlier one. It has no history: a watch from an older revision gets 410.
    pub(crate) fn restored(revision: u64, objects: Vec<(String, Value)>) -> Self {
        let objects = objects.into_iter().map(|(plural, object)| {
            let name = |pointer: &str| text(&object, pointer).to_owned();
            let key = key(named(&plural), &name("/metadata/namespace"), &name("/metadata/name"));
            (key, Arc::new(object))
        });
        let (but_leases, objects) = (revision, objects.collect());
        let contents = Contents { revision, but_leases, objects, history: VecDeque::new() };
        let revision = watch::Sender::new(revision);
        Self { contents: Mutex::new(contents), revision, remote: OnceLock::new() }
    }

    /// Lets a real API have the objects from now on.
    pub(crate) fn delegate(&self, remote: Remote) {
        let _ = self.remote.set(remote);
    }

    /// Returns true if objects can be read and written now.
    pub(crate) fn answers(&self) -> bool {
        self.remote.get().is_none_or(Remote::answers)
    }

    /// Returns the revision and all objects, each with the plural name of its kind.
    pub(crate) fn snapshot(&self) -> (u64, Vec<(String, Value)>) {
        let contents = lock(&self.contents);
        let objects = contents.objects.iter();
        let objects = objects.map(|((plural, ..), object)| ((*plural).to_owned(), Value::clone(object)));
        (contents.revision, objects.collect())
    }

    /// Returns the revision of the last change of an object that is no Lease. `None` if a real API has the objects.
    pub(crate) fn revision_but_leases(&self) -> Option<u64> {
        self.remote.get().is_none().then(|| lock(&self.contents).but_leases)
    }

    /// Returns a receiver that sees each new revision.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    fn change<T>(&self, change: impl FnOnce(&mut Contents) -> T) -> T {
        let mut contents = lock(&self.contents);
        let result = change(&mut contents);
        let revision = contents.revision;
        drop(contents);
        self.revision.send_if_modified(|seen| std::mem::replace(seen, revision) != revision);
        result
    }

    pub(crate) fn get(&self, plural: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        if let Some(remote) = self.remote.get() {
            return remote.get(named(plural), namespace, name).ok().map(Arc::new);
        }
        lock(&self.contents).objects.get(&key(named(plural), namespace, name)).cloned()
    }

    /// Returns the objects of a kind, of one namespace or of all, and the revision of the list.
    pub(crate) fn list(&self, plural: &'static str, namespace: Option<&str>) -> (Vec<Arc<Value>>, u64) {
        if let Some(remote) = self.remote.get() {
            return (remote.list(named(plural), namespace).into_iter().map(Arc::new).collect(), 0);
        }
        let contents = lock(&self.contents);
        let first = (plural, namespace.unwrap_or_default().to_owned(), String::new());
        let objects = contents
            .objects
            .range(first..)
            .take_while(|((held, within, _), _)| {
                *held == plural && namespace.is_none_or(|namespace| within == namespace)
            })
            .map(|(_, object)| Arc::clone(object));
        (objects.collect(), contents.revision)
    }

    /// Returns the changes after a revision.
    pub(crate) fn since(&self, revision: u64) -> Result<Vec<Event>, Failure> {
        let contents = lock(&self.contents);
        let oldest = contents.history.front().map_or(contents.revision, |event| event.revision);
        if revision + 1 < oldest {
            return Err(Failure::expired());
        }
        let start = contents.history.partition_point(|event| event.revision <= revision);
        Ok(contents.history.range(start..).cloned().collect())
    }

    /// Creates an object. `generateName` is completed.
    pub(crate) fn create(
        &self,
        kind: &'static Kind,
        namespace: &str,
        mut value: Value,
    ) -> Result<Arc<Value>, Failure> {
        if let Some(remote) = self.remote.get() {
            return remote.create(kind, namespace, value).map(Arc::new);
        }
        let mut name = text(&value, "/metadata/name").to_owned();
        let prefix = text(&value, "/metadata/generateName");
        if name.is_empty() && !prefix.is_empty() {
            let random = uuid::Uuid::new_v4().simple().to_string();
            name = format!("{prefix}{}", random.get(..5).unwrap_or_default());
        }
        if name.is_empty() {
            return Err(Failure::invalid(
                kind,
                "",
                "metadata.name: Required value: name or generateName is required",
            ));
        }
        set(&mut value, &["apiVersion"], kind.api_version());
        set(&mut value, &["kind"], kind.kind);
        set(&mut value, &["metadata", "name"], name.as_str());
        if kind.namespaced {
            set(&mut value, &["metadata", "namespace"], namespace);
        }
        set(&mut value, &["metadata", "uid"], uuid::Uuid::new_v4().to_string());
        set(&mut value, &["metadata", "creationTimestamp"], now());
        if value.get("spec").is_some() {
            set(&mut value, &["metadata", "generation"], 1);
        }
        remove(&mut value, &["metadata"], "deletionTimestamp");
        encode_string_data(kind, &mut value);
        let key = key(kind, namespace, &name);
        self.change(|contents| {
            if contents.objects.contains_key(&key) {
                return Err(Failure::exists(kind, &name));
            }
            Ok(contents.record(&key, None, value, false))
        })
    }

    /// Changes an object. The change sees the present state, and may fail. An object that is being deleted goes
    /// away with its last finalizer.
    pub(crate) fn update(
        &self,
        kind: &'static Kind,
        namespace: &str,
        name: &str,
        change: impl FnOnce(&mut Value) -> Result<(), Failure>,
    ) -> Result<Arc<Value>, Failure> {
        if let Some(remote) = self.remote.get() {
            let before = remote.get(kind, namespace, name)?;
            let mut value = before.clone();
            change(&mut value)?;
            return remote.update(kind, namespace, &before, value).map(Arc::new);
        }
        let key = key(kind, namespace, name);
        self.change(|contents| {
            let before = contents.objects.get(&key).cloned().ok_or_else(|| Failure::not_found(kind, name))?;
            let mut value = Value::clone(&before);
            change(&mut value)?;
            restore_identity(&before, &mut value);
            encode_string_data(kind, &mut value);
            if value == *before {
                return Ok(before);
            }
            if value.get("spec") != before.get("spec") {
                let generation = before.pointer("/metadata/generation").and_then(Value::as_u64);
                set(&mut value, &["metadata", "generation"], generation.unwrap_or_default() + 1);
            }
            let deleting = value.pointer("/metadata/deletionTimestamp").is_some();
            let finished = deleting
                && list(&value, "/metadata/finalizers").is_empty()
                && value.pointer("/metadata/deletionGracePeriodSeconds").is_none();
            Ok(contents.record(&key, Some(before), value, finished))
        })
    }

    /// Replaces an object, and fails if `metadata.resourceVersion` is set and old.
    pub(crate) fn replace(
        &self,
        kind: &'static Kind,
        namespace: &str,
        name: &str,
        status: bool,
        new: Value,
    ) -> Result<Arc<Value>, Failure> {
        self.update(kind, namespace, name, |value| merge_part(kind, name, status, value, new))
    }

    /// Places a pod on a node.
    pub(crate) fn bind(&self, namespace: &str, pod: &str, node: &str) -> Result<(), Failure> {
        if let Some(remote) = self.remote.get() {
            return remote.bind(namespace, pod, node);
        }
        let bound = self.update(named("pods"), namespace, pod, |pod| {
            set(pod, &["spec", "nodeName"], node);
            Ok(())
        });
        bound.map(|_| ())
    }

    /// Removes an object at once.
    pub(crate) fn remove(&self, plural: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        if let Some(remote) = self.remote.get() {
            return remote.remove(named(plural), namespace, name).ok().map(Arc::new);
        }
        let key = key(named(plural), namespace, name);
        self.change(|contents| {
            let before = contents.objects.get(&key).cloned()?;
            Some(contents.record(&key, Some(Arc::clone(&before)), Value::clone(&before), true))
        })
    }

    /// Creates an object of the cluster itself. One that exists is left as it is.
    pub(crate) fn seed(&self, plural: &str, namespace: &str, value: Value) {
        let kind = named(plural);
        if let Err(failure) = self.create(kind, namespace, value) {
            tracing::debug!(kind = kind.kind, message = failure.message, "an object exists already");
        }
    }
}

/// Takes over the part of an object that a write may change: the status, or everything else.
pub(crate) fn merge_part(
    kind: &Kind,
    name: &str,
    status: bool,
    value: &mut Value,
    mut new: Value,
) -> Result<(), Failure> {
    let expected = text(&new, "/metadata/resourceVersion");
    if !expected.is_empty() && expected != text(value, "/metadata/resourceVersion") {
        return Err(Failure::conflict(kind, name, MODIFIED));
    }
    let uid = text(&new, "/metadata/uid");
    if !uid.is_empty() && uid != text(value, "/metadata/uid") {
        return Err(Failure::conflict(
            kind,
            name,
            "the uid in the precondition differs from that of the object",
        ));
    }
    if status {
        set(value, &["status"], new.get("status").cloned().unwrap_or_else(|| json!({})));
        return Ok(());
    }
    if kind.status {
        match value.get("status") {
            Some(kept) => set(&mut new, &["status"], kept.clone()),
            None => remove(&mut new, &[], "status"),
        }
    }
    *value = new;
    Ok(())
}

/// Restores the fields that no write changes.
fn restore_identity(before: &Value, value: &mut Value) {
    for field in ["apiVersion", "kind"] {
        set(value, &[field], text(before, &format!("/{field}")));
    }
    let kept = [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "generation",
        "resourceVersion",
        "deletionTimestamp",
    ];
    for field in kept {
        match before.pointer(&format!("/metadata/{field}")) {
            Some(held) => set(value, &["metadata", field], held.clone()),
            None if field == "deletionTimestamp" => {}
            None => remove(value, &["metadata"], field),
        }
    }
}

/// Moves `stringData` of a Secret into `data`.
fn encode_string_data(kind: &Kind, value: &mut Value) {
    use base64::Engine;
    if kind.plural != "secrets" {
        return;
    }
    let Some(Value::Object(plain)) = object(value).remove("stringData") else { return };
    for (name, text) in plain {
        let encoded = base64::engine::general_purpose::STANDARD.encode(text.as_str().unwrap_or_default());
        set(value, &["data", &name], encoded);
    }
}
