//! Fake API server in memory, with the functions that a controller of these kinds needs.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use crate::crash_point::{CrashPoint, Fate};

/// Stored objects, by path.
#[derive(Debug, Default)]
struct Store {
    objects: BTreeMap<String, Value>,
    revision: u64,
}

/// API server in memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct FakeApi {
    store: Arc<Mutex<Store>>,
    crash_point: Arc<CrashPoint>,
}

type Answer = Result<Value, (u16, &'static str)>;

const NO_ANSWER: (u16, &str) = (500, "InternalError");

/// Answer to the eviction of a Pod with a budget.
const BUDGET: (u16, &str) = (429, "Cannot evict pod as it would violate the pod's disruption budget.");

/// Folder of the Pods. They are listed for all namespaces.
const PODS: &str = "/api/v1/pods/";

impl FakeApi {
    pub(crate) fn new(crash_point: Arc<CrashPoint>) -> Self {
        Self { store: Arc::default(), crash_point }
    }

    pub(crate) fn client(&self) -> Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let api = api.clone();
            async move { Ok::<_, Infallible>(api.serve(request).await) }
        });
        Client::new(service, "default")
    }

    /// Stores an object as another client, which never crashes.
    pub(crate) fn put(&self, path: &str, mut object: Value) {
        let mut store = self.store.lock().unwrap();
        let name = path.rsplit('/').next().unwrap();
        object["metadata"]["name"] = json!(name);
        object["metadata"]["namespace"] = json!("ns");
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = json!(format!("uid-{name}"));
        }
        store.write(path, object);
    }

    /// Changes an object as another client.
    pub(crate) fn change(&self, path: &str, change: impl FnOnce(&mut Value)) {
        let mut store = self.store.lock().unwrap();
        let mut object = store.objects.get(path).unwrap().clone();
        change(&mut object);
        store.write(path, object);
    }

    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.store.lock().unwrap().objects.get(path).cloned()
    }

    pub(crate) fn remove(&self, path: &str) {
        self.store.lock().unwrap().objects.remove(path);
    }

    pub(crate) fn under(&self, prefix: &str) -> Vec<Value> {
        let store = self.store.lock().unwrap();
        store
            .objects
            .iter()
            .filter(|(path, _)| path.starts_with(prefix))
            .map(|(_, object)| object.clone())
            .collect()
    }

    async fn serve(&self, request: Request<Body>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        if parts.uri.query().is_some_and(|query| query.contains("watch=true")) {
            return std::future::pending().await;
        }
        let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let answer = self.answer(&parts.method, parts.uri.path(), &body);
        let (code, body) = match answer {
            Ok(body) => (200, body),
            Err((code, reason)) => (
                code,
                json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
                    "message": reason}),
            ),
        };
        let response = Response::builder().status(code).header("content-type", "application/json");
        response.body(Body::from(body.to_string().into_bytes())).unwrap()
    }

    fn answer(&self, method: &Method, path: &str, body: &Value) -> Answer {
        let path = &match path.strip_prefix("/api/v1/namespaces/ns/pods/") {
            Some(name) => format!("{PODS}{name}"),
            None => path.to_owned(),
        };
        let is_dry_run = body["dryRun"].is_array() || body["deleteOptions"]["dryRun"].is_array();
        let pod = path.strip_suffix("/eviction");
        let is_refused = pod.is_some_and(|pod| self.store.lock().unwrap().evictable(pod) == Err(BUDGET));
        if *method == Method::GET || is_dry_run || is_refused {
            if self.crash_point.has_crashed() {
                return Err(NO_ANSWER);
            }
            let store = self.store.lock().unwrap();
            return match pod {
                Some(pod) => store.evictable(pod),
                None => store.read(path),
            };
        }
        let fate = self.crash_point.effect();
        if matches!(fate, Fate::Unsent | Fate::Delayed) {
            return Err(NO_ANSWER);
        }
        let answer = self.store.lock().unwrap().change(method, path, body);
        if fate == Fate::Unanswered { Err(NO_ANSWER) } else { answer }
    }
}

impl Store {
    fn read(&self, path: &str) -> Answer {
        if let Some(object) = self.objects.get(path) {
            return Ok(object.clone());
        }
        // `…/namespaces/<ns>/<plural>` is a list; one segment more is an object.
        let tail = path.split("/namespaces/").nth(1).unwrap_or_default();
        let is_object = ["/api/v1/nodes/", PODS].into_iter().any(|folder| path.starts_with(folder));
        if is_object || tail.split('/').count() > 2 {
            return Err((404, "NotFound"));
        }
        let prefix = format!("{path}/");
        let items: Vec<&Value> = self
            .objects
            .iter()
            .filter(|(path, _)| path.starts_with(&prefix))
            .map(|(_, object)| object)
            .collect();
        Ok(json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items}))
    }

    /// Returns a Pod, unless a budget forbids its eviction.
    fn evictable(&self, pod: &str) -> Answer {
        let object = self.read(pod)?;
        if object["metadata"]["labels"]["budget"].is_string() { Err(BUDGET) } else { Ok(object) }
    }

    fn change(&mut self, method: &Method, path: &str, body: &Value) -> Answer {
        if let Some(pod) = path.strip_suffix("/eviction") {
            let object = self.evictable(pod)?;
            return self.delete(pod, object, &body["deleteOptions"]);
        }
        if *method == Method::POST {
            let path = format!("{path}/{}", body["metadata"]["name"].as_str().unwrap_or_default());
            if self.objects.contains_key(&path) {
                return Err((409, "AlreadyExists"));
            }
            return Ok(self.write(&path, body.clone()));
        }
        let (path, of_status) = match path.strip_suffix("/status") {
            Some(path) => (path, true),
            None => (path, false),
        };
        let old = self.objects.get(path).cloned().ok_or((404, "NotFound"))?;
        if *method == Method::DELETE {
            return self.delete(path, old, body);
        }
        let guard = &body["metadata"]["resourceVersion"];
        if guard.is_string() && *guard != old["metadata"]["resourceVersion"] {
            return Err((409, "Conflict"));
        }
        let mut new = old.clone();
        match *method {
            Method::PUT if of_status => new["status"] = body["status"].clone(),
            Method::PATCH => merge(&mut new, body),
            _ => return Err((405, "MethodNotAllowed")),
        }
        if of_status {
            new["spec"] = old["spec"].clone();
        } else if !old["status"].is_null() {
            new["status"] = old["status"].clone();
        }
        if new["spec"]["image"] != old["spec"]["image"] {
            return Err((422, "Invalid"));
        }
        Ok(self.write(path, new))
    }

    fn delete(&mut self, path: &str, mut old: Value, options: &Value) -> Answer {
        let wanted = &options["preconditions"]["uid"];
        if wanted.is_string() && *wanted != old["metadata"]["uid"] {
            return Err((409, "Conflict"));
        }
        old["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        Ok(self.write(path, old))
    }

    fn write(&mut self, path: &str, mut object: Value) -> Value {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        let deleting = object["metadata"]["deletionTimestamp"].is_string();
        let held =
            object["metadata"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty());
        if deleting && !held {
            self.objects.remove(path);
        } else {
            self.objects.insert(path.to_owned(), object.clone());
        }
        object
    }
}

/// JSON merge patch.
fn merge(target: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut target[key], value);
        }
    }
}
