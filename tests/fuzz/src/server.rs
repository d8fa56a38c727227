//! A server of all kinds and of widgets, and the one door into it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, bail};
use apiserver_access::{Authenticator, Chain, LocalPolicy, User};
use apiserver_http::{ApiServer, Identity, InProcess, Parts, ResponseBody};
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

use crate::answer::Answer;
use crate::finding::Finding;

/// What is there to be asked for: one object a line.
const OBJECTS: &str = include_str!("../objects.jsonl");

/// How long a stream may be silent before the rest of it is left.
const SILENCE: Duration = Duration::from_millis(2);

/// As much of a stream is read.
const FRAMES: usize = 16;

/// A server and what it runs in.
#[derive(Debug)]
pub(crate) struct World {
    runtime: Runtime,
    door: InProcess,
    registry: Arc<Registry>,
    _directory: tempfile::TempDir,
}

impl World {
    /// The one server of this process.
    pub(crate) fn get() -> Result<&'static Self, Finding> {
        static WORLD: OnceLock<Result<World, String>> = OnceLock::new();
        let world = WORLD.get_or_init(|| Self::start().map_err(|error| format!("{error:#}")));
        world.as_ref().map_err(|why| Finding(format!("the server does not start: {why}")))
    }

    /// Requests are served on a thread with the stack that the product's threads have.
    fn start() -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let product = apiserver_registry::registry();
        let mut kinds: Vec<Resource> = product.resources().iter().map(|kind| Resource::clone(kind)).collect();
        kinds.extend(tests_widget::resources()?);
        let registry = Arc::new(Registry::new(kinds));
        // Where there is a file system in memory, writes need not wait for a disk.
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?;
        let store = Arc::new(EmbeddedStore::open(&directory.path().join("store"))?);
        let guard = runtime.enter();
        let objects = Arc::new(ObjectStore::open(
            Arc::clone(&registry),
            store,
            Arc::new(Encryption::default()),
            Arc::new(OwnNamespaces),
            CancellationToken::new(),
        ));
        let parts = Parts {
            objects: Arc::clone(&objects),
            authenticator: Arc::new(Authenticator::default()),
            authorizer: Arc::new(Chain(vec![Arc::new(LocalPolicy)])),
            hosted_authorizer: Arc::new(Chain(vec![Arc::new(LocalPolicy)])),
            identity: Identity { git_version: "v1.36.0".to_owned(), address: "test".to_owned() },
            checks: Vec::new(),
            shutdown: CancellationToken::new(),
        };
        let master = User::authenticated("fuzz", ["system:masters".to_owned()]);
        let door = InProcess::new(Arc::new(ApiServer::new(parts)), master);
        drop(guard);
        while !objects.is_ready() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let world = Self { runtime, door, registry, _directory: directory };
        world.furnish()?;
        Ok(world)
    }

    /// Makes the objects that requests are about.
    fn furnish(&self) -> anyhow::Result<()> {
        for line in OBJECTS.lines() {
            let object: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
            let path = self.collection(&object).with_context(|| format!("not served: {line}"))?;
            let request = Request::post(&path).body(Full::new(Bytes::from(line)))?;
            let answer = self.ask(request)?;
            if answer.code != 201 {
                bail!("{path}: {} {}", answer.code, String::from_utf8_lossy(&answer.body));
            }
        }
        Ok(())
    }

    /// The kind of an object, when it is served.
    pub(crate) fn resource(&self, object: &Value) -> Option<&Resource> {
        let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
        let (kind, version) = (text("kind"), text("apiVersion"));
        let is_it = |resource: &&Arc<Resource>| resource.kind == kind && resource.api_version() == version;
        self.registry.resources().iter().find(is_it).map(|resource| &**resource)
    }

    /// The path at which objects like this are created, be they for this place or not.
    pub(crate) fn collection(&self, object: &Value) -> Option<String> {
        Some(path(self.resource(object)?, "default"))
    }

    /// Has a request answered.
    pub(crate) fn ask(&self, request: Request<Full<Bytes>>) -> Result<Answer, Finding> {
        let mut door = self.door.clone();
        let served = self.runtime.spawn(async move {
            match door.call(request).await {
                Ok(answer) => read(answer).await,
                Err(never) => match never {},
            }
        });
        self.runtime.block_on(served).map_err(|error| Finding(format!("the request ended badly: {error}")))
    }
}

/// Where objects of a kind are.
pub(crate) fn path(resource: &Resource, namespace: &str) -> String {
    let root = if resource.group.is_empty() { "/api" } else { "/apis" };
    let plural = &resource.plural;
    let place = if resource.namespaced { format!("namespaces/{namespace}/{plural}") } else { plural.clone() };
    format!("{root}/{}/{place}", resource.api_version())
}

async fn read(answer: Response<ResponseBody>) -> Answer {
    let (head, mut body) = answer.into_parts();
    let is_stream = !matches!(body, ResponseBody::Full(_));
    let mut bytes = BytesMut::new();
    for _ in 0..FRAMES {
        let next = tokio::time::timeout(SILENCE, body.frame()).await;
        let Ok(Some(Ok(frame))) = next else { break };
        if let Ok(data) = frame.into_data() {
            bytes.extend_from_slice(&data);
        }
    }
    Answer { code: head.status.as_u16(), headers: head.headers, body: bytes.freeze(), is_stream }
}
