//! Client of a KMS plug-in: gRPC over a unix socket.

use std::path::PathBuf;
use std::time::Duration;

use apiserver_machinery::encryption::{OpenError, SEED, SealedSeed, check_key_id};
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use prost::Message;
use tokio::net::UnixStream;
use tokio::time::timeout;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;
use uuid::Uuid;

use super::messages::{
    DecryptRequest, DecryptResponse, EncryptRequest, EncryptResponse, StatusRequest, StatusResponse,
};

/// Versions of the protocol, as a plug-in states them. The second one is that of old plug-ins, with the same messages.
const VERSIONS: [&str; 2] = ["v2", "v2beta1"];

/// Codes with which a plug-in reports that it cannot work now, whatever the request is.
const PASSING: [Code; 5] =
    [Code::Unavailable, Code::DeadlineExceeded, Code::Cancelled, Code::ResourceExhausted, Code::Aborted];

/// Client of one plug-in. It connects again by itself when the plug-in was started again.
#[derive(Debug, Clone)]
pub(super) struct Client {
    channel: Channel,
    timeout: Duration,
}

impl Client {
    /// Creates a client of a socket. It connects with the first call, so it needs a runtime.
    pub(super) fn new(socket: PathBuf, timeout: Duration) -> Self {
        let connect = tower::service_fn(move |_| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        });
        // The name is not used: the connector has the path of the socket.
        let channel = Endpoint::from_static("http://localhost").connect_with_connector_lazy(connect);
        Self { channel, timeout }
    }

    /// Returns the key id with which the plug-in seals.
    ///
    /// # Errors
    /// The plug-in's own words, if it is not well.
    pub(super) async fn status(&self) -> Result<String, String> {
        let StatusResponse { version, healthz, key_id } = self
            .call("/v2.KeyManagementService/Status", StatusRequest {})
            .await
            .map_err(OpenError::into_detail)?;
        if !VERSIONS.contains(&version.as_str()) {
            return Err(format!("it has version {version:?}, and v2 is needed"));
        }
        if healthz != "ok" {
            return Err(format!("it is not well: {healthz}"));
        }
        check_key_id(&key_id).map_err(|error| format!("its status: {error}"))?;
        Ok(key_id)
    }

    /// Seals a seed.
    ///
    /// # Errors
    /// The plug-in's own words; an answer that is too large.
    pub(super) async fn seal(&self, seed: &[u8; SEED]) -> Result<SealedSeed, String> {
        let request = EncryptRequest { plaintext: seed.to_vec(), uid: uid() };
        let answer = self.call("/v2.KeyManagementService/Encrypt", request).await;
        let answer: EncryptResponse = answer.map_err(OpenError::into_detail)?;
        let EncryptResponse { ciphertext, key_id, annotations } = answer;
        let sealed = SealedSeed { key_id, ciphertext, annotations };
        sealed.check()?;
        Ok(sealed)
    }

    /// Opens a seed.
    ///
    /// # Errors
    /// `NoAnswer`; `Refused`.
    pub(super) async fn open(&self, sealed: SealedSeed) -> Result<Vec<u8>, OpenError> {
        let SealedSeed { key_id, ciphertext, annotations } = sealed;
        let request = DecryptRequest { ciphertext, uid: uid(), key_id, annotations };
        let answer: DecryptResponse = self.call("/v2.KeyManagementService/Decrypt", request).await?;
        Ok(answer.plaintext)
    }

    async fn call<Q, A>(&self, path: &'static str, request: Q) -> Result<A, OpenError>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let answer = timeout(self.timeout, async {
            let mut grpc = Grpc::new(self.channel.clone());
            grpc.ready().await.map_err(|error| OpenError::NoAnswer(causes(&error)))?;
            let path = PathAndQuery::from_static(path);
            let answer = grpc.unary(Request::new(request), path, ProstCodec::<Q, A>::default()).await;
            answer.map_err(|status| error_of(&status))
        });
        let silent = |_| OpenError::NoAnswer(format!("no answer in {:?}", self.timeout));
        let answer = answer.await.map_err(silent)?;
        answer.map(tonic::Response::into_inner)
    }
}

/// Returns the error of a status. One with a cause was made on this side, because the connection broke.
fn error_of(status: &Status) -> OpenError {
    let is_answer = std::error::Error::source(status).is_none() && !PASSING.contains(&status.code());
    let detail = causes(status);
    if is_answer { OpenError::Refused(detail) } else { OpenError::NoAnswer(detail) }
}

fn uid() -> String {
    Uuid::new_v4().to_string()
}

/// Returns the innermost cause, after the error itself.
fn causes(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let (outer, inner) = (error.to_string(), innermost.to_string());
    if outer == inner { outer } else { format!("{outer}: {inner}") }
}
