//! The API server: what it is made of, and the one door every request comes in by.

use std::sync::Arc;

use apiserver_access::{Authenticator, Authorizer};
use apiserver_machinery::resource::Registry;
use apiserver_machinery::store::ObjectStore;
use bytes::Bytes;
use http::Request;
use http_body::Body;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::chain;
use crate::connection::Connection;
use crate::documents::Documents;
use crate::health::Check;
use crate::metrics::Metrics;
use crate::response::Answer;

/// Reading requests served at once: upstream's number, proved on control planes of every size.
const READ_ONLY_AT_ONCE: usize = 400;

/// Changing requests served at once, likewise.
const MUTATING_AT_ONCE: usize = 200;

/// What the server says of itself at `/version`.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The Kubernetes version whose API behaviour this is, e.g. `v1.36.0+capstan-0.1.0`.
    pub git_version: String,
    /// `host:port` where clients of the direct face reach it.
    pub address: String,
}

/// What a server is made of.
#[derive(Debug)]
pub struct Parts {
    /// The objects.
    pub objects: Arc<ObjectStore>,
    /// Who.
    pub authenticator: Arc<Authenticator>,
    /// May they, when they come to us directly.
    pub authorizer: Arc<dyn Authorizer>,
    /// May they, when they come through a host's front proxy. The host vouches for who they are,
    /// not for what they may do.
    pub hosted_authorizer: Arc<dyn Authorizer>,
    /// What it says of itself.
    pub identity: Identity,
    /// Checks beyond the server's own.
    pub checks: Vec<Check>,
    /// Cancelled when the server begins to stop.
    pub shutdown: CancellationToken,
}

/// The server.
#[derive(Debug)]
pub struct ApiServer {
    pub(crate) parts: Parts,
    pub(crate) documents: Documents,
    pub(crate) metrics: Metrics,
    pub(crate) read_only: Semaphore,
    pub(crate) mutating: Semaphore,
}

impl ApiServer {
    /// A server of these parts. Discovery and OpenAPI are computed here, once.
    pub fn new(parts: Parts) -> Self {
        let documents = Documents::new(parts.objects.registry(), &parts.identity);
        Self {
            parts,
            documents,
            metrics: Metrics::new(),
            read_only: Semaphore::new(READ_ONLY_AT_ONCE),
            mutating: Semaphore::new(MUTATING_AT_ONCE),
        }
    }

    /// The kinds it serves.
    pub fn registry(&self) -> &Registry {
        self.parts.objects.registry()
    }

    /// Serves one request.
    pub async fn handle<B>(self: &Arc<Self>, request: Request<B>, connection: &Connection) -> Answer
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        chain::run(self, request, connection).await
    }
}
