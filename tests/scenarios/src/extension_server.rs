//! Extension server in the process of a test, over HTTPS with a CA of its own.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{anyhow, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use controllers_extensions::{API_VERSION, Hook};
use http::header::{CONTENT_TYPE, LOCATION};
use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// Time for which a silent server does not answer: longer than any timeout of a handler.
const SILENCE: Duration = Duration::from_secs(60);

/// Reply of an extension server.
#[derive(Debug, Clone)]
pub enum Reply {
    /// Answer with these fields.
    Answer(Value),
    /// Status, value of the header `Location` (none if empty), and body.
    Raw(u16, String, String),
    /// No answer for a minute.
    Silence,
}

impl Reply {
    /// Returns the answer of a server that agrees.
    pub fn success() -> Self {
        Self::Answer(json!({"status": "Success"}))
    }

    /// Returns the answer of a server that is to be called again after some seconds.
    pub fn retry(seconds: i32, message: &str) -> Self {
        Self::Answer(json!({"status": "Success", "message": message, "retryAfterSeconds": seconds}))
    }

    /// Returns the answer of a server that refuses.
    pub fn failure(message: &str) -> Self {
        Self::Answer(json!({"status": "Failure", "message": message}))
    }
}

/// Call that a server got.
#[derive(Debug, Clone)]
pub struct ExtensionCall {
    /// Path of the request.
    pub path: String,
    /// Query of the request, or an empty text.
    pub query: String,
    /// Message of the request.
    pub message: Value,
}

/// Function from the message of a request to the reply.
type Answer = dyn Fn(&Value) -> Reply + Send + Sync;

/// State of a server, by path.
#[derive(Default)]
struct State {
    /// Entries of the discovery.
    handlers: Vec<Value>,
    answers: HashMap<String, Arc<Answer>>,
    calls: Vec<ExtensionCall>,
    is_down: bool,
}

/// Extension server. It ends when it is dropped.
pub struct ExtensionServer {
    url: String,
    ca: String,
    state: Arc<Mutex<State>>,
    _serving: JoinSet<()>,
}

impl std::fmt::Debug for ExtensionServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExtensionServer").field("url", &self.url).finish_non_exhaustive()
    }
}

impl ExtensionServer {
    /// Starts a server without handlers on a free port of loopback.
    ///
    /// # Errors
    /// The failure to make certificates or to listen.
    pub async fn start() -> anyhow::Result<Self> {
        // Another test of the same process may have done so.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("https://{}", listener.local_addr()?);
        let (ca, acceptor) = tls()?;
        let state: Arc<Mutex<State>> = Arc::default();
        let mut serving = JoinSet::new();
        serving.spawn(accept(listener, acceptor, Arc::clone(&state)));
        Ok(Self { url, ca, state, _serving: serving })
    }

    /// Returns the URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the certificate of the CA, in PEM.
    pub fn ca(&self) -> &str {
        &self.ca
    }

    /// Returns an ExtensionConfig that names this server and its CA.
    pub fn config(&self, name: &str) -> Value {
        let bundle = STANDARD.encode(&self.ca);
        json!({
            "apiVersion": "runtime.cluster.x-k8s.io/v1beta2", "kind": "ExtensionConfig",
            "metadata": {"name": name}, "spec": {"clientConfig": {"url": self.url, "caBundle": bundle}},
        })
    }

    /// Adds a handler of a hook, with this answer. `settings` are further fields of its entry in the discovery: `timeoutSeconds`
    /// and `failurePolicy`.
    pub fn handle(
        &self,
        hook: Hook,
        handler: &str,
        settings: &Value,
        answer: impl Fn(&Value) -> Reply + Send + Sync + 'static,
    ) {
        let mut entry = settings.clone();
        entry["name"] = handler.into();
        entry["requestHook"] = json!({"apiVersion": API_VERSION, "hook": hook.name()});
        self.state().handlers.push(entry);
        self.answer(hook, handler, answer);
    }

    /// Changes the answer of a handler.
    pub fn answer(
        &self,
        hook: Hook,
        handler: &str,
        answer: impl Fn(&Value) -> Reply + Send + Sync + 'static,
    ) {
        self.state().answers.insert(hook.path(Some(handler)), Arc::new(answer));
    }

    /// Ends all connections from now on, or no longer.
    pub fn set_down(&self, is_down: bool) {
        self.state().is_down = is_down;
    }

    /// Returns the calls of a handler so far.
    pub fn calls(&self, hook: Hook, handler: &str) -> Vec<ExtensionCall> {
        let path = hook.path(Some(handler));
        self.state().calls.iter().filter(|call| call.path == path).cloned().collect()
    }

    /// Returns the calls of all handlers so far, in their order.
    pub fn all_calls(&self) -> Vec<ExtensionCall> {
        let discovery = Hook::Discovery.path(None);
        self.state().calls.iter().filter(|call| call.path != discovery).cloned().collect()
    }

    /// Returns the number of discoveries so far.
    pub fn discoveries(&self) -> usize {
        let path = Hook::Discovery.path(None);
        self.state().calls.iter().filter(|call| call.path == path).count()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, state: Arc<Mutex<State>>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        if lock(&state).is_down {
            continue;
        }
        let (acceptor, state) = (acceptor.clone(), Arc::clone(&state));
        connections.spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let service = service_fn(move |request| serve(request, Arc::clone(&state)));
            // A client may end its connection at any time.
            drop(Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await);
        });
    }
}

async fn serve(request: Request<Incoming>, state: Arc<Mutex<State>>) -> anyhow::Result<Response<String>> {
    let (head, body) = request.into_parts();
    let message: Value = serde_json::from_slice(&body.collect().await?.to_bytes()).unwrap_or_default();
    let (path, query) = (head.uri.path().to_owned(), head.uri.query().unwrap_or_default().to_owned());
    let call = ExtensionCall { path: path.clone(), query, message: message.clone() };
    let (answer, handlers) = {
        let mut state = lock(&state);
        if state.is_down {
            bail!("the server is down");
        }
        state.calls.push(call);
        (state.answers.get(&path).cloned(), state.handlers.clone())
    };
    let reply = match answer {
        Some(answer) => answer(&message),
        None if path == Hook::Discovery.path(None) => {
            Reply::Answer(json!({"status": "Success", "handlers": handlers}))
        }
        None => Reply::Raw(404, String::new(), "no such handler".to_owned()),
    };
    let (status, location, body) = match reply {
        Reply::Answer(answer) => (200, String::new(), answer.to_string()),
        Reply::Raw(status, location, body) => (status, location, body),
        Reply::Silence => {
            tokio::time::sleep(SILENCE).await;
            (200, String::new(), String::new())
        }
    };
    let mut response = Response::builder().status(status).header(CONTENT_TYPE, "application/json");
    if !location.is_empty() {
        response = response.header(LOCATION, location);
    }
    Ok(response.body(body)?)
}

/// Makes a CA and a server certificate. Returns the CA in PEM.
fn tls() -> anyhow::Result<(String, TlsAcceptor)> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "extension CA");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let leaf = CertificateParams::new(vec![Ipv4Addr::LOCALHOST.to_string()])?.signed_by(&key, &ca)?;
    let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(|error| anyhow!(error))?;
    let config = ServerConfig::builder().with_no_client_auth();
    let mut config = config.with_single_cert(vec![leaf.der().clone(), ca.der().clone()], key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok((ca.pem(), TlsAcceptor::from(Arc::new(config))))
}
