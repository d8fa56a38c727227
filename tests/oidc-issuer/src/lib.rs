//! OpenID Connect issuer in the process of a test, over HTTPS with a CA of its own.
//!
//! It publishes the keys that a test gives it, signs any claims, and serves the grants by which a client gets a token.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a test fails by panicking"
)]

mod grants;
mod http;
mod key;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

pub use http::{Request, Response};
pub use key::SigningKey;

/// State that a test changes while the issuer serves.
#[derive(Debug, Default)]
pub struct State {
    /// Published keys with their ids.
    pub keys: Vec<(String, Arc<SigningKey>)>,
    /// If set, connections are closed without a response.
    pub is_silent: bool,
    /// Responses that replace those of the issuer, by path.
    pub responses: HashMap<String, (u16, Value)>,
    /// Redirects that replace those responses: the URL of each, by path.
    pub redirects: HashMap<String, String>,
    /// Requests so far, as `GET /path`.
    pub log: Vec<String>,
    /// Value of `Cache-Control` of the keys.
    pub cache_control: Option<String>,
    /// Number of times for which the device grant is still pending.
    pub pending: usize,
    /// Fields of the last request for a code.
    pub(crate) code: HashMap<String, String>,
    /// Changes of the nonce in the next id token.
    pub nonce: Option<String>,
}

/// Issuer.
#[derive(Debug)]
pub struct Issuer {
    url: String,
    ca: String,
    state: Arc<Mutex<State>>,
}

impl Issuer {
    /// Starts an issuer with these keys.
    pub async fn start(keys: Vec<(&str, SigningKey)>) -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let (ca, acceptor) = tls();
        let keys = keys.into_iter().map(|(id, key)| (id.to_owned(), Arc::new(key))).collect();
        let state = Arc::new(Mutex::new(State { keys, ..State::default() }));
        let issuer = Self { url: url.clone(), ca, state: Arc::clone(&state) };
        let serving = async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, url, state) = (acceptor.clone(), url.clone(), Arc::clone(&state));
                spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    http::serve(stream, |request| respond(&url, &mut lock(&state), request)).await;
                });
            }
        };
        spawn(serving);
        issuer
    }

    /// Returns the URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the CA in PEM.
    pub fn ca(&self) -> &str {
        &self.ca
    }

    /// Returns the state. A test drops it before it waits.
    pub fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Returns the number of times that the keys were fetched.
    pub fn fetches(&self) -> usize {
        self.state().log.iter().filter(|line| *line == "GET /keys").count()
    }

    /// Signs claims with a published key. Issuer, audience `capstan` and an end in ten minutes are added.
    pub fn token(&self, key: &str, claims: &Value) -> String {
        token(&self.url, &self.state(), key, claims)
    }
}

#[allow(clippy::disallowed_methods, reason = "the tasks end with the test")]
fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(task);
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn token(url: &str, state: &State, key: &str, claims: &Value) -> String {
    let (_, signer) = state.keys.iter().find(|(id, _)| id == key).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let mut all = json!({"iss": url, "aud": "capstan", "iat": now, "exp": now + 600});
    claims.as_object().unwrap().iter().for_each(|(name, value)| all[name] = value.clone());
    signer.token(&json!({"alg": signer.algorithm(), "kid": key, "typ": "JWT"}), &all)
}

fn tls() -> (String, TlsAcceptor) {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "test issuer CA");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().signed_by(&key, &ca).unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone(), ca.der().clone()], key)
        .unwrap();
    (ca.pem(), TlsAcceptor::from(Arc::new(config)))
}

fn respond(url: &str, state: &mut State, request: &Request) -> Option<Response> {
    state.log.push(format!("{} {}", request.method, request.path));
    if state.is_silent {
        return None;
    }
    if let Some(location) = state.redirects.get(&request.path) {
        return Some(Response { code: 302, location: Some(location.clone()), ..Response::default() });
    }
    if let Some((code, body)) = state.responses.get(&request.path) {
        return Some(Response::json(*code, body));
    }
    Some(match request.path.as_str() {
        "/.well-known/openid-configuration" => Response::json(
            200,
            &json!({"issuer": url, "jwks_uri": format!("{url}/keys"),
                "authorization_endpoint": format!("{url}/authorize"),
                "token_endpoint": format!("{url}/token"),
                "token_endpoint_auth_methods_supported": ["client_secret_post"],
                "device_authorization_endpoint": format!("{url}/device")}),
        ),
        "/keys" => {
            let keys: Vec<Value> = state.keys.iter().map(|(id, key)| key.public(id)).collect();
            Response {
                cache_control: state.cache_control.clone(),
                ..Response::json(200, &json!({"keys": keys}))
            }
        }
        "/authorize" => grants::authorize(state, request),
        "/device" => grants::device(url),
        "/token" => grants::token(url, state, request),
        _ => Response::json(404, &json!({"error": "not_found"})),
    })
}
