//! API server with all kinds and the Widget, and its only entry point.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, bail};
use apiserver_access::{Authenticator, Chain, LocalPolicy, User};
use apiserver_http::{ApiServer, Identity, InProcess, Parts, ResponseBody, Supervisor};
use apiserver_machinery::encryption::Encryption;
use apiserver_machinery::resource::{Registry, Resource};
use apiserver_machinery::store::{ObjectStore, OwnNamespaces};
use bytes::{Bytes, BytesMut};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use storage_embedded::EmbeddedStore;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use tower::Service;

use crate::finding::Finding;
use crate::response::ReceivedResponse;

/// Objects that exist for requests, one per line.
const OBJECTS: &str = include_str!("../objects.jsonl");

/// Time without data after which the rest of a stream is not read.
const STREAM_IDLE_TIMEOUT: Duration = Duration::from_millis(2);

/// Largest number of frames that are read of a stream.
const MAX_FRAMES: usize = 16;

/// Server and its runtime.
#[derive(Debug)]
pub(crate) struct FuzzServer {
    runtime: Runtime,
    entry_point: InProcess,
    registry: Arc<Registry>,
    _directory: tempfile::TempDir,
}

impl FuzzServer {
    /// Returns the one server of this process.
    pub(crate) fn get() -> Result<&'static Self, Finding> {
        static SERVER: OnceLock<Result<FuzzServer, String>> = OnceLock::new();
        let server = SERVER.get_or_init(|| Self::start().map_err(|error| format!("{error:#}")));
        server.as_ref().map_err(|why| Finding(format!("the server does not start: {why}")))
    }

    /// Starts the server. Requests run on a thread with the same stack size as the product's threads.
    fn start() -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let product = apiserver_registry::registry();
        let mut kinds: Vec<Resource> = product.resources().iter().map(|kind| Resource::clone(kind)).collect();
        kinds.extend(tests_widget::resources()?);
        let registry = Arc::new(Registry::new(kinds));
        // On a file system in memory, writes do not wait for a disk.
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?;
        let store = Arc::new(EmbeddedStore::open(&directory.path().join("store"))?);
        let guard = runtime.enter();
        let objects = Arc::new(ObjectStore::open(
            Arc::clone(&registry),
            store,
            Arc::new(Encryption::default()),
            Arc::new(OwnNamespaces),
            &Supervisor::default(),
            CancellationToken::new(),
        ));
        let parts = Parts {
            objects: Arc::clone(&objects),
            authenticator: Arc::new(Authenticator::default()),
            authorizer: Arc::new(Chain(vec![Arc::new(LocalPolicy::default())])),
            hosted_authorizer: Arc::new(Chain(vec![Arc::new(LocalPolicy::default())])),
            identity: Identity { git_version: "v1.36.0".to_owned(), address: "test".to_owned() },
            checks: Vec::new(),
            supervisor: Supervisor::default(),
        };
        let master = User::authenticated("fuzz", ["system:masters".to_owned()]);
        let entry_point = InProcess::new(Arc::new(ApiServer::new(parts)), master);
        drop(guard);
        while !objects.is_ready() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let server = Self { runtime, entry_point, registry, _directory: directory };
        server.create_objects()?;
        Ok(server)
    }

    /// Creates the objects that requests use.
    fn create_objects(&self) -> anyhow::Result<()> {
        for line in OBJECTS.lines() {
            let object: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
            let path = self.collection(&object).with_context(|| format!("not served: {line}"))?;
            let request = Request::post(&path).body(Full::new(Bytes::from(line)))?;
            let response = self.send(request)?;
            if response.code != 201 {
                bail!("{path}: {} {}", response.code, String::from_utf8_lossy(&response.body));
            }
        }
        Ok(())
    }

    /// Returns the kind of an object, if it is served.
    pub(crate) fn resource(&self, object: &Value) -> Option<&Resource> {
        let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
        let (kind, version) = (text("kind"), text("apiVersion"));
        let is_it = |resource: &&Arc<Resource>| resource.kind == kind && resource.api_version() == version;
        self.registry.resources().iter().find(is_it).map(|resource| &**resource)
    }

    /// Returns the path at which objects of this kind are created, in the default namespace.
    pub(crate) fn collection(&self, object: &Value) -> Option<String> {
        Some(path(self.resource(object)?, "default"))
    }

    /// Sends a request, and returns the response.
    pub(crate) fn send(&self, request: Request<Full<Bytes>>) -> Result<ReceivedResponse, Finding> {
        let mut entry_point = self.entry_point.clone();
        let served = self.runtime.spawn(async move {
            match entry_point.call(request).await {
                Ok(response) => read(response).await,
                Err(never) => match never {},
            }
        });
        self.runtime.block_on(served).map_err(|error| Finding(format!("the request panicked: {error}")))
    }
}

/// Returns the path of the objects of a kind.
pub(crate) fn path(resource: &Resource, namespace: &str) -> String {
    let root = if resource.group.is_empty() { "/api" } else { "/apis" };
    let plural = &resource.plural;
    let suffix =
        if resource.namespaced { format!("namespaces/{namespace}/{plural}") } else { plural.clone() };
    format!("{root}/{}/{suffix}", resource.api_version())
}

async fn read(response: Response<ResponseBody>) -> ReceivedResponse {
    let (head, mut body) = response.into_parts();
    let is_stream = !matches!(body, ResponseBody::Full(_));
    let mut bytes = BytesMut::new();
    for _ in 0..MAX_FRAMES {
        let next = tokio::time::timeout(STREAM_IDLE_TIMEOUT, body.frame()).await;
        let Ok(Some(Ok(frame))) = next else { break };
        if let Ok(data) = frame.into_data() {
            bytes.extend_from_slice(&data);
        }
    }
    ReceivedResponse { code: head.status.as_u16(), headers: head.headers, body: bytes.freeze(), is_stream }
}
