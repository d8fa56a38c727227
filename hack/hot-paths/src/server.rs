//! API server with all kinds in this process, without a network.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use apiserver_access::{Authenticator, Chain, LocalPolicy, User};
use apiserver_http::{ApiServer, Identity, InProcess, Parts, ResponseBody, Supervisor};
use apiserver_machinery::Revision;
use apiserver_machinery::encryption::Encryption;
use apiserver_machinery::store::{Freshness, ObjectStore, OwnNamespaces};
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use storage_embedded::EmbeddedStore;
use tokio_util::sync::CancellationToken;
use tower::Service;

/// InProcessServer and its only entry point.
#[derive(Debug)]
pub(crate) struct InProcessServer {
    entry_point: InProcess,
    objects: Arc<ObjectStore>,
    _directory: tempfile::TempDir,
}

impl InProcessServer {
    /// Starts a server on an empty store. All of it except the store's own thread runs on the calling thread.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        // On a file system in memory, writes do not wait for a disk.
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?;
        let objects = Arc::new(ObjectStore::open(
            Arc::new(apiserver_registry::registry()),
            Arc::new(EmbeddedStore::open(&directory.path().join("store"))?),
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
            identity: Identity { git_version: "v1.36.0".to_owned(), address: "hot-paths".to_owned() },
            checks: Vec::new(),
            supervisor: Supervisor::default(),
        };
        let user = User::authenticated("hot-paths", ["system:masters".to_owned()]);
        let server = Self {
            entry_point: InProcess::new(Arc::new(ApiServer::new(parts)), user),
            objects,
            _directory: directory,
        };
        while !server.objects.is_ready() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(server)
    }

    /// Sends a request, and returns its response. The body is not read yet.
    pub(crate) async fn open(
        &self,
        method: Method,
        path: &str,
        (name, value): (&str, &str),
        body: Bytes,
    ) -> anyhow::Result<Response<ResponseBody>> {
        let request = Request::builder().method(&method).uri(path).header(name, value);
        let Ok(response) = self.entry_point.clone().call(request.body(Full::new(body))?).await;
        let status = response.status();
        if !status.is_success() {
            let body = response.into_body().collect().await?.to_bytes();
            bail!("{method} {path}: {status} {}", String::from_utf8_lossy(&body));
        }
        Ok(response)
    }

    /// Sends a request, and reads the body of the response.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        header: (&str, &str),
        body: Bytes,
    ) -> anyhow::Result<Bytes> {
        let response = self.open(method, path, header, body).await?;
        Ok(response.into_body().collect().await?.to_bytes())
    }

    /// Waits until the cache has a Machine as of `revision`.
    pub(crate) async fn wait_for(&self, namespace: &str, name: &str, revision: u64) -> anyhow::Result<()> {
        let kind = self
            .objects
            .kind("cluster.x-k8s.io", "v1beta2", "machines")
            .context("the registry has no Machines")?;
        let fresh = Freshness::AtLeast(Revision::new(revision));
        let object = self.objects.get(kind, namespace, name, fresh).await;
        object.map(|_| ()).map_err(|error| anyhow!("{name} at {revision}: {}", error.message))
    }
}
