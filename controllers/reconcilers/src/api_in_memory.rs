//! API server in memory, whose writes can fail before or after their effect.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use controllers_infrastructure::{Cloud, CloudConnector, CloudError, CloudResult, Credentials, ErrorClass};
use controllers_runtime::{
    ApiSecrets, ControllerContext, NoEventHolds, Queues, Recorder, ServerLists, TermStart,
};
use controllers_workload::{
    ClusterKey, KubeconfigConnector, WorkloadClusters, WorkloadConnector, WorkloadError,
};
use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::templates::NEW_OBJECT;

/// Failure of one write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Crash {
    /// The write is not made.
    Before,
    /// The write is made, but its response is lost.
    After,
}

#[derive(Debug, Default)]
struct Store {
    objects: BTreeMap<String, Value>,
    revision: u64,
    writes: usize,
    crash: Option<(usize, Crash)>,
    replaced: Vec<String>,
    forbidden: Option<String>,
    silent: Option<String>,
    unwritable: Option<String>,
    events: Vec<Value>,
}

#[derive(Debug)]
struct NoCloud;

#[async_trait]
impl CloudConnector for NoCloud {
    async fn connect(&self, _: &Credentials) -> CloudResult<Arc<dyn Cloud>> {
        Err(CloudError::new(ErrorClass::Broken, "connect", "there is no cloud"))
    }
}

#[derive(Debug)]
struct InMemory(FakeApi);

#[async_trait]
impl WorkloadConnector for InMemory {
    async fn client(&self, _: &[u8]) -> Result<Client, WorkloadError> {
        Ok(self.0.client())
    }
}

/// API server in memory. Objects are stored by path.
#[derive(Debug, Clone, Default)]
pub(crate) struct FakeApi(Arc<Mutex<Store>>);

type Outcome = Result<Value, (u16, &'static str)>;

impl FakeApi {
    pub(crate) fn client(&self) -> Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let api = api.clone();
            async move { Ok::<_, Infallible>(api.serve(request).await) }
        });
        Client::new(service, "default")
    }

    /// Returns the context of a controller without a cloud and without workload clusters.
    pub(crate) fn context(&self, identity: &'static str) -> ControllerContext {
        let client = self.client();
        ControllerContext {
            connector: Arc::new(NoCloud),
            secrets: Arc::new(ApiSecrets(client.clone())),
            servers: Arc::new(ServerLists::default()),
            workloads: Arc::new(WorkloadClusters::new(Arc::new(KubeconfigConnector::default()))),
            events: Recorder::new(client.clone(), identity),
            event_holds: Arc::new(NoEventHolds),
            queues: Queues::default(),
            kinds: Arc::from([]),
            settings: Arc::default(),
            term: TermStart::default(),
            client,
        }
    }

    /// Returns such a context whose cluster `ns/blue` is connected to another API server in memory.
    #[allow(clippy::disallowed_methods, reason = "the task ends with the test")]
    pub(crate) async fn context_with_workload(
        &self,
        identity: &'static str,
        workload: &Self,
    ) -> ControllerContext {
        workload.put("/", json!({}));
        if workload.get("/api/v1/nodes").is_none() {
            workload.put("/api/v1/nodes", json!({"items": []}));
        }
        let workloads = Arc::new(WorkloadClusters::new(Arc::new(InMemory(workload.clone()))));
        let key = ClusterKey { namespace: "ns".to_owned(), name: "blue".to_owned() };
        workloads.follow(&key, b"kubeconfig");
        let running = Arc::clone(&workloads);
        tokio::spawn(async move { running.run(CancellationToken::new()).await });
        while workloads.client(&key).is_err() {
            tokio::task::yield_now().await;
        }
        ControllerContext { workloads, ..self.context(identity) }
    }

    /// Stores an object as another client.
    pub(crate) fn put(&self, path: &str, mut object: Value) {
        let name = path.rsplit('/').next().unwrap();
        object["metadata"]["name"] = name.into();
        object["metadata"]["namespace"] = "ns".into();
        object["metadata"]["uid"] = format!("uid-{name}").into();
        self.0.lock().unwrap().write(path, object);
    }

    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.0.lock().unwrap().objects.get(path).cloned()
    }

    /// Refuses reads of one path, and of no other.
    pub(crate) fn forbid(&self, path: Option<&str>) {
        self.0.lock().unwrap().forbidden = path.map(str::to_owned);
    }

    /// Answers reads of one path with 503, as a source that does not answer, and of no other.
    pub(crate) fn silence(&self, path: Option<&str>) {
        self.0.lock().unwrap().silent = path.map(str::to_owned);
    }

    /// Refuses writes of one object, and of no other.
    pub(crate) fn refuse_writes(&self, path: Option<&str>) {
        self.0.lock().unwrap().unwritable = path.map(str::to_owned);
    }

    /// Returns the Events that were created.
    pub(crate) fn events(&self) -> Vec<Value> {
        self.0.lock().unwrap().events.clone()
    }

    /// Deletes an object as another client.
    pub(crate) fn remove(&self, path: &str) -> Option<Value> {
        self.0.lock().unwrap().objects.remove(path)
    }

    /// Makes every write from this one on fail. The first of them may have its effect.
    pub(crate) fn crash_at(&self, crash: Option<(usize, Crash)>) {
        let mut store = self.0.lock().unwrap();
        (store.writes, store.crash) = (0, crash);
    }

    /// Returns the number of writes since the last call of `crash_at`.
    pub(crate) fn writes(&self) -> usize {
        self.0.lock().unwrap().writes
    }

    /// Returns the paths of the objects that were replaced as a whole.
    pub(crate) fn replaced(&self) -> Vec<String> {
        self.0.lock().unwrap().replaced.clone()
    }

    async fn serve(&self, request: Request<Body>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let (code, body) = match self.0.lock().unwrap().outcome(&parts.method, parts.uri.path(), &body) {
            Ok(body) => (200, body),
            Err((code, reason)) => {
                let status = json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": reason});
                (code, status)
            }
        };
        let response = Response::builder().status(code).header("content-type", "application/json");
        response.body(Body::from(body.to_string().into_bytes())).unwrap()
    }
}

impl Store {
    fn outcome(&mut self, method: &Method, path: &str, body: &Value) -> Outcome {
        if *method == Method::GET && self.forbidden.as_deref() == Some(path) {
            return Err((403, "Forbidden"));
        }
        if *method == Method::GET && self.silent.as_deref() == Some(path) {
            return Err((503, "ServiceUnavailable"));
        }
        if *method == Method::GET {
            return self.objects.get(path).cloned().ok_or((404, "NotFound"));
        }
        if path.ends_with("/events") {
            self.events.push(body.clone());
            return Ok(body.clone());
        }
        let name = body["metadata"]["name"].as_str().filter(|_| *method == Method::POST);
        let written = name.map_or_else(|| path.to_owned(), |name| format!("{path}/{name}"));
        if self.unwritable.as_ref() == Some(&written) {
            return Err((403, "Forbidden"));
        }
        self.writes += 1;
        let failed = Err((500, "InternalError"));
        match self.crash {
            Some((at, Crash::After)) if self.writes == at => {
                drop(self.change(method, path, body));
                failed
            }
            Some((at, _)) if self.writes >= at => failed,
            _ => self.change(method, path, body),
        }
    }

    fn change(&mut self, method: &Method, path: &str, body: &Value) -> Outcome {
        if *method == Method::POST {
            let name = body["metadata"]["name"].as_str().unwrap_or_default();
            let path = format!("{path}/{name}");
            if self.objects.contains_key(&path) {
                return Err((409, "AlreadyExists"));
            }
            let mut object = body.clone();
            object["metadata"]["uid"] = format!("uid-{name}").into();
            return Ok(self.write(&path, object));
        }
        let (path, status) = path.strip_suffix("/status").map_or((path, false), |path| (path, true));
        let guard = &body["metadata"]["resourceVersion"];
        // An apply of an object that must not exist. Other patches have no kind.
        if *guard == NEW_OBJECT && body["kind"].is_string() && !self.objects.contains_key(path) {
            let mut object = body.clone();
            let name = path.rsplit('/').next().unwrap_or_default();
            object["metadata"]["uid"] = format!("uid-{name}").into();
            return Ok(self.write(path, object));
        }
        let old = self.objects.get(path).cloned().ok_or((404, "NotFound"))?;
        if *method == Method::DELETE {
            let guard = &body["preconditions"]["resourceVersion"];
            if guard.is_string() && *guard != old["metadata"]["resourceVersion"] {
                return Err((409, "Conflict"));
            }
            self.objects.remove(path);
            return Ok(old);
        }
        if guard.is_string() && *guard != old["metadata"]["resourceVersion"] {
            return Err((409, "Conflict"));
        }
        let mut new = old;
        match *method {
            Method::PUT if status => new["status"] = body["status"].clone(),
            Method::PUT => {
                self.replaced.push(path.to_owned());
                new = body.clone();
            }
            _ => merge(&mut new, body),
        }
        Ok(self.write(path, new))
    }

    fn write(&mut self, path: &str, mut object: Value) -> Value {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = self.revision.to_string().into();
        self.objects.insert(path.to_owned(), object.clone());
        object
    }
}

/// Applies a JSON merge patch.
fn merge(target: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        match target.as_object_mut() {
            Some(fields) if value.is_null() => drop(fields.remove(key)),
            _ => merge(&mut target[key], value),
        }
    }
}
