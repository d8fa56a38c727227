//! Objects of a real API, for callers that do not wait in a runtime.

use std::sync::mpsc;
use std::time::Duration;

use http::{Method, Request, StatusCode};
use kube::config::AuthInfo;
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::api::failure::Failure;
use crate::api::kinds::{Kind, named};
use crate::cluster::Cluster;
use crate::json::{set, text};
use crate::pki;

/// Longest duration of a request.
const LIMIT: Duration = Duration::from_secs(10);

/// Times that an update is repeated when another one came first.
const ATTEMPTS: usize = 5;

type Answer = Result<String, Failure>;

/// Request with the way of its answer.
type Job = (Request<Vec<u8>>, mpsc::SyncSender<Answer>);

/// Client of a real API. A thread of its own sends the requests, so that each caller may wait for the answer.
#[derive(Debug)]
pub(crate) struct Remote {
    jobs: UnboundedSender<Job>,
}

/// Returns the settings of an administrator's client.
fn config(cluster: &Cluster) -> Result<Config, String> {
    let url: http::Uri = format!("https://{}", cluster.address)
        .parse()
        .map_err(|error: http::uri::InvalidUri| error.to_string())?;
    let mut config = Config::new(url);
    config.root_cert = Some(cluster.pki.ca.certificates.iter().map(|it| it.to_vec()).collect());
    let (certificate, key) = cluster.pki.ca.client("hollow-cluster", "system:masters")?;
    config.auth_info = AuthInfo {
        client_certificate_data: Some(pki::base64(&pki::pem("CERTIFICATE", &certificate))),
        client_key_data: Some(pki::base64(&pki::pem("PRIVATE KEY", key.secret_der())).into()),
        ..AuthInfo::default()
    };
    config.proxy_url = None;
    config.default_retry = false;
    Ok(config)
}

/// Sends requests, one after another, until there is no caller any more.
async fn send(config: Config, mut jobs: UnboundedReceiver<Job>) {
    let Ok(client) = Client::try_from(config) else { return };
    while let Some((request, answer)) = jobs.recv().await {
        let sent = tokio::time::timeout(LIMIT, client.request_text(request)).await;
        let result = match sent {
            Ok(Ok(text)) => Ok(text),
            Ok(Err(kube::Error::Api(status))) => Err(failure(&status)),
            Ok(Err(error)) => Err(unreachable(&error.to_string())),
            Err(_) => Err(unreachable("no answer in time")),
        };
        let _ = answer.send(result);
    }
}

fn unreachable(message: &str) -> Failure {
    Failure::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message)
}

fn failure(status: &kube::core::Status) -> Failure {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let reason = match status.reason.as_str() {
        "NotFound" => "NotFound",
        "AlreadyExists" => "AlreadyExists",
        "Conflict" => "Conflict",
        _ => "InternalError",
    };
    Failure::new(code, reason, status.message.clone())
}

/// Returns the path of an object, or of a collection without a name.
fn path(kind: &Kind, namespace: Option<&str>, name: &str) -> String {
    let root = if kind.group.is_empty() { "api" } else { "apis" };
    let scope = namespace.filter(|_| kind.namespaced).map(|it| format!("/namespaces/{it}"));
    let name = if name.is_empty() { String::new() } else { format!("/{name}") };
    format!("/{root}/{}{}/{}{name}", kind.api_version(), scope.unwrap_or_default(), kind.plural)
}

impl Remote {
    pub(crate) fn connect(cluster: &Cluster) -> Result<Self, String> {
        let config = config(cluster)?;
        let (jobs, receiver) = unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let thread = std::thread::Builder::new().name("hollow-api".to_owned());
        thread.spawn(move || runtime.block_on(send(config, receiver))).map_err(|error| error.to_string())?;
        Ok(Self { jobs })
    }

    fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Answer {
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let request = request.body(body).map_err(|error| Failure::bad_request(error.to_string()))?;
        let (sender, receiver) = mpsc::sync_channel(1);
        self.jobs.send((request, sender)).map_err(|_| unreachable("the client has ended"))?;
        receiver.recv().map_err(|_| unreachable("the client has ended"))?
    }

    fn object(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, Failure> {
        let text = self.call(method, path, body)?;
        serde_json::from_str(&text).map_err(|error| unreachable(&format!("{path}: {error}")))
    }

    /// Returns true if the API server is ready.
    pub(crate) fn answers(&self) -> bool {
        self.call(Method::GET, "/readyz", None).is_ok()
    }

    pub(crate) fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Result<Value, Failure> {
        self.object(Method::GET, &path(kind, Some(namespace), name), None)
    }

    pub(crate) fn list(&self, kind: &Kind, namespace: Option<&str>) -> Vec<Value> {
        match self.object(Method::GET, &path(kind, namespace, ""), None) {
            Ok(mut list) => {
                let items = list.get_mut("items").map(Value::take);
                let mut items: Vec<Value> = items.and_then(|it| it.as_array().cloned()).unwrap_or_default();
                // A list leaves the type of its items out.
                for item in &mut items {
                    set(item, &["apiVersion"], kind.api_version());
                    set(item, &["kind"], kind.kind);
                }
                items
            }
            Err(failure) => {
                tracing::warn!(kind = kind.plural, message = failure.message, "cannot list objects");
                Vec::new()
            }
        }
    }

    /// Creates an object, and its status, which a creation does not take over.
    pub(crate) fn create(&self, kind: &Kind, namespace: &str, mut value: Value) -> Result<Value, Failure> {
        set(&mut value, &["apiVersion"], kind.api_version());
        set(&mut value, &["kind"], kind.kind);
        let mut created = self.object(Method::POST, &path(kind, Some(namespace), ""), Some(&value))?;
        let Some(status) = value.get("status").filter(|_| kind.status) else { return Ok(created) };
        let name = text(&created, "/metadata/name").to_owned();
        set(&mut created, &["status"], status.clone());
        let path = format!("{}/status", path(kind, Some(namespace), &name));
        self.object(Method::PUT, &path, Some(&created))
    }

    /// Writes the parts of an object that differ from `before`.
    pub(crate) fn update(
        &self,
        kind: &Kind,
        namespace: &str,
        before: &Value,
        mut value: Value,
    ) -> Result<Value, Failure> {
        let path = path(kind, Some(namespace), text(before, "/metadata/name"));
        let status = value.get("status").cloned();
        let differs = |pointer: &str| value.pointer(pointer) != before.pointer(pointer);
        let has_new_status = kind.status && differs("/status");
        let parts = ["/metadata/labels", "/metadata/annotations", "/spec", "/data"];
        if parts.into_iter().any(differs) {
            value = self.put(&path, &path, value)?;
        }
        if has_new_status {
            set(&mut value, &["status"], status.unwrap_or_default());
            value = self.put(&path, &format!("{path}/status"), value)?;
        }
        Ok(value)
    }

    /// Replaces an object or its status. The last writer wins.
    fn put(&self, object: &str, target: &str, mut value: Value) -> Result<Value, Failure> {
        let mut result = self.object(Method::PUT, target, Some(&value));
        for _ in 0..ATTEMPTS {
            match &result {
                Err(failure) if failure.code == StatusCode::CONFLICT => {}
                Ok(_) | Err(_) => break,
            }
            let present = self.object(Method::GET, object, None)?;
            let version = text(&present, "/metadata/resourceVersion");
            set(&mut value, &["metadata", "resourceVersion"], version);
            result = self.object(Method::PUT, target, Some(&value));
        }
        result
    }

    /// Places a pod on a node, as a scheduler does.
    pub(crate) fn bind(&self, namespace: &str, pod: &str, node: &str) -> Result<(), Failure> {
        let target = json!({"apiVersion": "v1", "kind": "Node", "name": node});
        let body = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod, "namespace": namespace}, "target": target,
        });
        let path = format!("{}/binding", path(named("pods"), Some(namespace), pod));
        self.call(Method::POST, &path, Some(&body)).map(|_| ())
    }

    /// Removes an object at once, as a kubelet removes a pod that has ended.
    pub(crate) fn remove(&self, kind: &Kind, namespace: &str, name: &str) -> Result<Value, Failure> {
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
        self.object(Method::DELETE, &path(kind, Some(namespace), name), Some(&options))
    }
}
