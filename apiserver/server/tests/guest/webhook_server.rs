//! Webhook server in the process of a test, over HTTPS with a CA of its own.

#![allow(clippy::disallowed_methods, reason = "its tasks end with the test")]

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// Name in the certificate beside the address: that of a Service `gate` in the namespace `tools`.
const SERVICE: &str = "gate.tools.svc";

/// Answer of a webhook.
pub(crate) enum Reply {
    /// `response` of the review, without its uid.
    Review(Value),
    /// Status, value of `Location`, and body.
    Raw(u16, &'static str, Vec<u8>),
    /// No answer for a minute.
    Silence,
}

impl Reply {
    pub(crate) fn allowed() -> Self {
        Self::Review(json!({"allowed": true}))
    }

    pub(crate) fn patch(patch: &Value) -> Self {
        let patch = STANDARD.encode(patch.to_string());
        Self::Review(json!({"allowed": true, "patchType": "JSONPatch", "patch": patch}))
    }
}

/// Call that the server got.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) version: Version,
    /// `request` of the review.
    pub(crate) request: Value,
    /// Whole body.
    pub(crate) body: Value,
    /// Value of the header `Authorization`, or empty.
    pub(crate) authorization: String,
    /// True if the client has a certificate of the server's CA.
    pub(crate) has_certificate: bool,
}

type Answer = dyn Fn(&str, &Value) -> Reply + Send + Sync;

/// Running server.
pub(crate) struct WebhookServer {
    pub(crate) url: String,
    /// Client certificate that the server's CA has signed, with its key.
    pub(crate) client: (String, String),
    /// CA as in a `caBundle`.
    pub(crate) bundle: String,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl WebhookServer {
    /// Starts a server that answers with a function of the path and the request of the review, or the review of another
    /// kind.
    pub(crate) async fn start(answer: impl Fn(&str, &Value) -> Reply + Send + Sync + 'static) -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let (ca, client, acceptor) = tls();
        let (calls, answer): (Arc<Mutex<Vec<Call>>>, Arc<Answer>) = (Arc::default(), Arc::new(answer));
        let server = Self { url, client, bundle: STANDARD.encode(ca), calls: Arc::clone(&calls) };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, calls, answer) = (acceptor.clone(), Arc::clone(&calls), Arc::clone(&answer));
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let has_certificate = stream.get_ref().1.peer_certificates().is_some();
                    let service = service_fn(move |request| {
                        serve(request, has_certificate, Arc::clone(&calls), Arc::clone(&answer))
                    });
                    let builder = Builder::new(TokioExecutor::new());
                    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        server
    }

    /// Returns the calls of a path so far.
    pub(crate) fn calls(&self, path: &str) -> Vec<Call> {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.iter().filter(|call| call.path == path).cloned().collect()
    }
}

async fn serve(
    request: Request<Incoming>,
    has_certificate: bool,
    calls: Arc<Mutex<Vec<Call>>>,
    answer: Arc<Answer>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let (head, body) = request.into_parts();
    let review: Value = serde_json::from_slice(&body.collect().await?.to_bytes()).unwrap();
    let (path, query) = (head.uri.path().to_owned(), head.uri.query().unwrap_or_default().to_owned());
    // A review of another kind has no request.
    let request = review.get("request").unwrap_or(&review).clone();
    let authorization = head.headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
    let call = Call {
        path: path.clone(),
        query,
        version: head.version,
        request: request.clone(),
        body: review,
        authorization: authorization.unwrap_or_default(),
        has_certificate,
    };
    calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
    let (code, location, body) = match answer(&path, &request) {
        Reply::Review(mut response) => {
            if response.get("uid").is_none() {
                response["uid"] = request["uid"].clone();
            }
            let kind = "AdmissionReview";
            let review =
                json!({"apiVersion": "admission.k8s.io/v1", "kind": kind, "response": response}).to_string();
            (200, "", review.into_bytes())
        }
        Reply::Raw(code, location, body) => (code, location, body),
        Reply::Silence => {
            tokio::time::sleep(Duration::from_secs(60)).await;
            (200, "", Vec::new())
        }
    };
    let mut response = Response::builder().status(code).header("content-type", "application/json");
    if !location.is_empty() {
        response = response.header("location", location);
    }
    Ok(response.body(Full::new(Bytes::from(body))).unwrap())
}

fn tls() -> (String, (String, String), TlsAcceptor) {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "webhook CA");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(["127.0.0.1", SERVICE].map(str::to_owned))
        .unwrap()
        .signed_by(&key, &ca)
        .unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let of_client = KeyPair::generate().unwrap();
    let signed = CertificateParams::new(Vec::<String>::new()).unwrap().signed_by(&of_client, &ca).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(ca.der().clone()).unwrap();
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).allow_unauthenticated().build().unwrap();
    let config = ServerConfig::builder().with_client_cert_verifier(verifier);
    let mut config = config.with_single_cert(vec![leaf.der().clone(), ca.der().clone()], key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let client = (signed.pem(), of_client.serialize_pem());
    (ca.pem(), client, TlsAcceptor::from(Arc::new(config)))
}
