//! Test server of one test kind, and an in-process client of it.

#![allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]
#![allow(dead_code, reason = "each file of tests uses a part of it")]

use std::sync::Arc;
use std::time::Duration;

use apiserver_access::{
    Attributes, Authenticator, Authorizer, Chain, Decision, LocalPolicy, Rules, User, Verdict,
};
use apiserver_http::{ApiServer, Check, Identity, InProcess, Parts, ResponseBody, Settings, Supervisor};
use apiserver_machinery::conversion::{Conversion, ConversionError};
use apiserver_machinery::encryption::Encryption;
use apiserver_machinery::preview::Preview;
use apiserver_machinery::resource::{Column, Registry, Resource, Scale};
use apiserver_machinery::store::{NamespaceSource, ObjectStore, OwnNamespaces};
use apiserver_machinery::strategy::{Plain, Strategy};
use apiserver_schema::KindSchema;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use storage_contract::Store;
use storage_embedded::EmbeddedStore;
use tokio_util::sync::CancellationToken;
use tower::Service;

#[derive(Clone)]
pub(crate) struct Server {
    door: InProcess,
    pub(crate) server: Arc<ApiServer>,
    _directory: Option<Arc<tempfile::TempDir>>,
}

fn resource(group: &str, kind: &str, namespaced: bool) -> Resource {
    let open_api = json!({"type": "object", "properties": {
        "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
        "spec": {"type": "object", "properties": {
            "size": {"type": "integer", "minimum": 1}, "colour": {"type": "string", "default": "red"},
            "replicas": {"type": "integer", "format": "int32"}}},
        "status": {"type": "object", "properties": {"phase": {"type": "string"},
            "replicas": {"type": "integer", "format": "int32"}, "selector": {"type": "string"}}}}});
    let column = |name: &str, kind: &str, path: &str| Column {
        name: name.to_owned(),
        kind: kind.to_owned(),
        json_path: path.to_owned(),
        priority: 0,
        description: String::new(),
    };
    Resource {
        group: group.to_owned(),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
        plural: format!("{}s", kind.to_lowercase()),
        singular: kind.to_lowercase(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced,
        status_subresource: true,
        scale: None,
        deprecation: None,
        conversion: None,
        generation: true,
        hosted: true,
        columns: vec![column("Size", "integer", ".spec.size")],
        selectable: Vec::new(),
        schema: KindSchema::new(apiserver_machinery::metadata::RULES, move || open_api.clone()),
        strategy: Arc::new(Plain),
        verbs: Vec::new(),
        preview: None,
    }
}

/// The gadget of earlier days: `size` was called `width`.
fn older_gadget() -> Resource {
    let gadget = resource("toys.example.com", "Gadget", true);
    let mut open_api = gadget.schema.published();
    let properties = open_api["properties"]["spec"]["properties"].as_object_mut().unwrap();
    let size = properties.remove("size").unwrap();
    properties.insert("width".to_owned(), size);
    Resource {
        version: "v1beta1".to_owned(),
        conversion: Some(Arc::new(Renamed)),
        schema: KindSchema::new(apiserver_machinery::metadata::RULES, move || open_api.clone()),
        ..gadget
    }
}

#[derive(Debug)]
struct Renamed;

impl Renamed {
    fn rename(mut object: Value, from: &str, to: &str, version: &str) -> Value {
        object["apiVersion"] = format!("toys.example.com/{version}").into();
        if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
            && let Some(value) = spec.remove(from)
        {
            spec.insert(to.to_owned(), value);
        }
        object
    }
}

impl Conversion for Renamed {
    fn stored(&self, object: Value) -> Result<Value, ConversionError> {
        Ok(Self::rename(object, "width", "size", "v1"))
    }

    fn served(&self, object: Value) -> Result<Value, ConversionError> {
        Ok(Self::rename(object, "size", "width", "v1beta1"))
    }
}

/// A kind, one with a Scale, one that is on its way out, and what they live in.
fn kinds() -> Vec<Resource> {
    let scale = Scale {
        spec_replicas: ".spec.replicas".to_owned(),
        status_replicas: ".status.replicas".to_owned(),
        selector: Some(".status.selector".to_owned()),
    };
    let warning = "old.example.com/v1 Relic is deprecated; use toys.example.com/v1 Gadget";
    vec![
        resource("toys.example.com", "Gadget", true),
        Resource { scale: Some(scale), ..resource("toys.example.com", "Swarm", true) },
        Resource { deprecation: Some(warning.to_owned()), ..resource("old.example.com", "Relic", true) },
        resource("", "Namespace", false),
        older_gadget(),
    ]
}

/// Parts of a server besides its kinds.
pub(crate) struct Setup {
    pub(crate) settings: Settings,
    pub(crate) authenticator: Authenticator,
    pub(crate) authorizer: Arc<dyn Authorizer>,
    pub(crate) namespaces: Arc<dyn NamespaceSource>,
    pub(crate) encryption: Arc<Encryption>,
    pub(crate) checks: Vec<Check>,
    pub(crate) shutdown: CancellationToken,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            settings: Settings::default(),
            authenticator: Authenticator::default(),
            authorizer: Arc::new(Chain(vec![Arc::new(LocalPolicy::default()), Arc::new(PatchAlone)])),
            namespaces: Arc::new(OwnNamespaces),
            encryption: Arc::default(),
            checks: Vec::new(),
            shutdown: CancellationToken::new(),
        }
    }
}

/// Strategy that reads the status of its objects, so that every write decodes it.
#[derive(Debug)]
struct ReadsStatus;

impl Strategy for ReadsStatus {
    fn reads_status(&self) -> bool {
        true
    }
}

const PATCHER: &str = "patcher";

/// User who may review the access of others, and nothing else.
pub(crate) const REVIEWER: &str = "reviewer";

/// User with the permissions of the ClusterRole `system:auth-delegator`.
pub(crate) const DELEGATOR: &str = "delegator";

#[derive(Debug)]
struct PatchAlone;

#[async_trait::async_trait]
impl Authorizer for PatchAlone {
    async fn judge(&self, attributes: &Attributes) -> Verdict {
        let (verb, resource) = (attributes.verb.as_str(), attributes.resource.as_str());
        let reviews_access = verb == "create" && resource.ends_with("subjectaccessreviews");
        let may = match attributes.user.name.as_str() {
            PATCHER => ["get", "patch"].contains(&verb),
            REVIEWER => reviews_access,
            DELEGATOR => reviews_access || (verb == "create" && resource == "tokenreviews"),
            _ => false,
        };
        Verdict::of(if may { Decision::Allow } else { Decision::NoOpinion(String::new()) }, self.name())
    }

    async fn rules(&self, _: &User, _: &str) -> Rules {
        Rules::default()
    }
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::of(kinds()).await
    }

    /// Starts a server of widgets, for which there are recorded responses of a real server.
    pub(crate) async fn of_widgets() -> Self {
        let mut kinds = tests_widget::resources().unwrap();
        kinds.push(resource("", "Namespace", false));
        Self::of(kinds).await
    }

    /// Starts a server of widgets whose rules read the status of its objects.
    pub(crate) async fn of_widgets_that_read_status() -> Self {
        let mut kinds = tests_widget::resources().unwrap();
        kinds.iter_mut().for_each(|kind| kind.strategy = Arc::new(ReadsStatus));
        kinds.push(resource("", "Namespace", false));
        Self::of(kinds).await
    }

    /// Starts a server on which changes of every kind have this preview.
    pub(crate) async fn with_preview(preview: Arc<dyn Preview>) -> Self {
        let mut kinds = kinds();
        kinds.iter_mut().for_each(|kind| kind.preview = Some(Arc::clone(&preview)));
        Self::of(kinds).await
    }

    async fn of(kinds: Vec<Resource>) -> Self {
        let directory = Arc::new(tempfile::tempdir().unwrap());
        let store = Arc::new(EmbeddedStore::open(&directory.path().join("store")).unwrap());
        Self { _directory: Some(directory), ..Self::serve(kinds, store, Setup::default()).await }
    }

    pub(crate) async fn start_with(setup: Setup) -> Self {
        let directory = Arc::new(tempfile::tempdir().unwrap());
        let store = Arc::new(EmbeddedStore::open(&directory.path().join("store")).unwrap());
        Self { _directory: Some(directory), ..Self::set_up_on(store, setup).await }
    }

    /// Starts one of several servers on a store.
    pub(crate) async fn start_on(store: Arc<dyn Store>) -> Self {
        Self::set_up_on(store, Setup::default()).await
    }

    /// Starts a server of these parts on a store.
    pub(crate) async fn set_up_on(store: Arc<dyn Store>, setup: Setup) -> Self {
        Self::serve(kinds(), store, setup).await
    }

    async fn serve(kinds: Vec<Resource>, store: Arc<dyn Store>, setup: Setup) -> Self {
        let objects = Arc::new(ObjectStore::open(
            Arc::new(Registry::new(kinds)),
            store,
            setup.encryption,
            setup.namespaces,
            &Supervisor::default(),
            CancellationToken::new(),
        ));
        let parts = Parts {
            objects: Arc::clone(&objects),
            authenticator: Arc::new(setup.authenticator),
            authorizer: Arc::clone(&setup.authorizer),
            hosted_authorizer: setup.authorizer,
            identity: Identity { git_version: "v1.36.0".to_owned(), address: "test".to_owned() },
            checks: setup.checks,
            supervisor: Supervisor::new(setup.shutdown),
        };
        let server = Arc::new(ApiServer::with_settings(parts, setup.settings));
        let master = User::authenticated("tester", ["system:masters".to_owned()]);
        let door = InProcess::new(Arc::clone(&server), master);
        let server = Self { door, server, _directory: None };
        while !objects.is_ready() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
        // Another server may have made it.
        assert!(matches!(server.post("/api/v1/namespaces", &namespace).await.0, 201 | 409));
        server
    }

    /// Serves the same server over the network, without TLS.
    pub(crate) async fn listen(self, listener: tokio::net::TcpListener) {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let service = hyper_util::service::TowerToHyperService::new(self.door.clone());
            let builder = hyper_util::server::conn::auto::Builder::new(hyper_util::rt::TokioExecutor::new());
            tokio::spawn(async move {
                let stream = hyper_util::rt::TokioIo::new(stream);
                builder.serve_connection_with_upgrades(stream, service).await.unwrap();
            });
        }
    }

    /// Returns the same server as another user.
    pub(crate) fn as_user(&self, user: User) -> Self {
        Self { door: InProcess::new(Arc::clone(&self.server), user), ..self.clone() }
    }

    /// Sends a request with any body.
    pub(crate) async fn ask<B>(&self, request: Request<B>) -> Response<ResponseBody>
    where
        B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.door.clone().call(request).await.unwrap()
    }

    /// Returns the same server as a user who may get and patch, and nothing else.
    pub(crate) fn as_patcher(&self) -> Self {
        self.as_user(User::authenticated(PATCHER, []))
    }

    pub(crate) async fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<bytes::Bytes>,
    ) -> Response<ResponseBody> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).unwrap();
        self.door.clone().call(request).await.unwrap()
    }

    /// Returns the same server as a user of this name and these groups.
    pub(crate) fn seen_by(&self, name: &str, groups: &[&str]) -> Self {
        let user = User::authenticated(name, groups.iter().map(|group| (*group).to_owned()));
        Self { door: InProcess::new(Arc::clone(&self.server), user), ..self.clone() }
    }

    /// Returns the code, the content type and the bytes of a response.
    pub(crate) async fn bytes(&self, path: &str, accept: &str) -> (u16, String, bytes::Bytes) {
        let answer = self.request("GET", path, &[("accept", accept)], "").await;
        let media = answer.headers().get("content-type").unwrap().to_str().unwrap().to_owned();
        let code = answer.status().as_u16();
        (code, media, answer.into_body().collect().await.unwrap().to_bytes())
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> (u16, Value) {
        let answer = self.request(method, path, headers, body.to_owned()).await;
        let code = answer.status().as_u16();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes))))
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        self.send("GET", path, &[], "").await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.send("POST", path, &[], &body.to_string()).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> (u16, Value) {
        self.send("PUT", path, &[], &body.to_string()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> (u16, Value) {
        self.send("DELETE", path, &[], "").await
    }

    pub(crate) async fn patch(&self, path: &str, kind: &str, body: &Value) -> (u16, Value) {
        let media =
            if kind == "json" { "application/json-patch+json" } else { "application/merge-patch+json" };
        self.send("PATCH", path, &[("content-type", media)], &body.to_string()).await
    }

    /// Applies as `manager`, with further query parameters.
    pub(crate) async fn apply(&self, path: &str, manager: &str, body: &Value) -> (u16, Value) {
        let headers = [("content-type", "application/apply-patch+yaml")];
        self.send("PATCH", &format!("{path}?fieldManager={manager}"), &headers, &body.to_string()).await
    }

    pub(crate) async fn watch(&self, path: &str) -> Watch {
        self.watch_as(path, "application/json").await
    }

    pub(crate) async fn watch_as(&self, path: &str, accept: &str) -> Watch {
        let answer = self.request("GET", path, &[("accept", accept)], String::new()).await;
        assert_eq!(answer.status(), 200);
        Watch { body: answer.into_body(), rest: Vec::new() }
    }
}

pub(crate) struct Watch {
    body: ResponseBody,
    rest: Vec<u8>,
}

impl Watch {
    /// Returns the next event. A stream that is silent for long has failed.
    pub(crate) async fn next(&mut self) -> Value {
        self.next_or_end().await.unwrap()
    }

    /// Returns the next event, or `None` at the end of the stream.
    pub(crate) async fn next_or_end(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = tokio::time::timeout(Duration::from_secs(10), self.body.frame()).await.unwrap()?;
            self.rest.extend_from_slice(&frame.unwrap().into_data().unwrap());
        }
    }

    /// Returns every event up to the end of the stream.
    pub(crate) async fn all(mut self) -> Vec<Value> {
        let mut events = Vec::new();
        while let Some(event) = self.next_or_end().await {
            events.push(event);
        }
        events
    }

    /// Returns true if the stream ends soon.
    pub(crate) async fn ended(&mut self) -> bool {
        let rest = async { while self.body.frame().await.is_some() {} };
        tokio::time::timeout(Duration::from_secs(10), rest).await.is_ok()
    }
}
