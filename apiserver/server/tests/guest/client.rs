//! HTTP/2 client that behaves as client-go does: one connection for all requests, a new one after `GOAWAY`, and a retry
//! if the server requests one or certainly has not begun.

#![allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::Mutex;

/// Number of tries of one request: client-go's number.
const TRIES: u32 = 10;

/// Certificates of a cluster administrator (group `system:masters`).
#[derive(Clone)]
pub(crate) struct Identity {
    config: Arc<rustls::ClientConfig>,
    /// Name of the user in the header of a front proxy.
    remote_user: Option<&'static str>,
    /// Trace context of all requests.
    trace: Option<String>,
}

/// Response, read whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) took: Duration,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

/// Returns all certificates of a PEM file as those of CAs: during a rotation there are several.
fn roots(pem: &[u8]) -> rustls::RootCertStore {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        roots.add(certificate.unwrap()).unwrap();
    }
    assert!(!roots.is_empty(), "no certificate of a CA");
    roots
}

impl Identity {
    pub(crate) fn mint(data: &Path) -> Self {
        Self::of_user(data, "capstan-admin")
    }

    /// Returns the identity of a front proxy at a server with this data directory. Its user is alice.
    pub(crate) fn of_front_proxy(data: &Path, certificate: &str, key: &str) -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let roots = roots(&std::fs::read(data.join("pki/ca.crt")).unwrap());
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let config = rustls::ClientConfig::builder().with_root_certificates(roots);
        let mut config = config.with_client_auth_cert(vec![certificate], key).unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Self { config: Arc::new(config), remote_user: Some("alice"), trace: None }
    }

    /// Creates a certificate of this user.
    pub(crate) fn of_user(data: &Path, user: &str) -> Self {
        Self::of_member(data, user, &["system:masters"])
    }

    /// Creates a certificate of this user with these groups; an empty group is none.
    pub(crate) fn of_member(data: &Path, user: &str, groups: &[&str]) -> Self {
        if groups.contains(&"system:masters") {
            return Self::of_master(data, user);
        }
        let groups = groups.iter().flat_map(|group| ["--group", *group]);
        let flags: Vec<&str> = ["--user", user].into_iter().chain(groups).collect();
        Self::with_flags(data, &flags)
    }

    /// Signs a certificate of the group that may do everything, without the Event that a certificate of the command has.
    fn of_master(data: &Path, user: &str) -> Self {
        let read = |name: &str| std::fs::read_to_string(data.join("pki").join(name)).unwrap();
        let key = rcgen::KeyPair::from_pem(&read("ca.key")).unwrap();
        let issuer = rcgen::Issuer::from_ca_cert_pem(&read("ca.crt"), key).unwrap();
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::CommonName, user);
        params.distinguished_name.push(rcgen::DnType::OrganizationName, "system:masters");
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap().pem();
        Self::of_certificate(data, &certificate, &key.serialize_pem())
    }

    /// Returns the identity of a certificate and its key, in PEM.
    pub(crate) fn of_certificate(data: &Path, certificate: &str, key: &str) -> Self {
        Self { remote_user: None, ..Self::of_front_proxy(data, certificate, key) }
    }

    /// Creates a kubeconfig with these flags of the command, and returns its identity.
    pub(crate) fn with_flags(data: &Path, flags: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_capstan"));
        command.arg("kubeconfig").args(flags).arg("--data-dir").arg(data);
        Self::printed(&mut command)
    }

    /// Creates a kubeconfig with the CA in the store of a configuration, and returns its identity.
    pub(crate) fn with_configuration(config: &Path, flags: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_capstan"));
        command.arg("kubeconfig").args(flags).arg("--config").arg(config);
        Self::printed(&mut command)
    }

    /// Returns the identity in the kubeconfig that a command prints.
    fn printed(command: &mut Command) -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let kubeconfig: Value = serde_saphyr::from_str(&text).unwrap();
        let pem = |path: &str| STANDARD.decode(kubeconfig.pointer(path).unwrap().as_str().unwrap()).unwrap();
        let roots = roots(&pem("/clusters/0/cluster/certificate-authority-data"));
        let certificate = pem("/users/0/user/client-certificate-data");
        let certificate = CertificateDer::from_pem_slice(&certificate).unwrap();
        let key = pem("/users/0/user/client-key-data");
        let key = PrivateKeyDer::from_pem_slice(&key).unwrap();
        let config = rustls::ClientConfig::builder().with_root_certificates(roots);
        let mut config = config.with_client_auth_cert(vec![certificate], key).unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Self { config: Arc::new(config), remote_user: None, trace: None }
    }

    /// Returns an identity without a certificate.
    pub(crate) fn anonymous(data: &Path) -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let roots = roots(&std::fs::read(data.join("pki/ca.crt")).unwrap());
        let mut config = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Self { config: Arc::new(config), remote_user: None, trace: None }
    }

    /// Returns the same identity, which trusts servers by other certificates of CAs.
    pub(crate) fn with_roots(self, pem: &[u8]) -> Self {
        self.trusting(roots(pem))
    }

    /// Returns the same identity, which trusts servers by the last certificate of a CA alone.
    pub(crate) fn with_last_root(self, pem: &[u8]) -> Self {
        let mut last = rustls::RootCertStore::empty();
        last.add(CertificateDer::pem_slice_iter(pem).last().unwrap().unwrap()).unwrap();
        self.trusting(last)
    }

    fn trusting(self, roots: rustls::RootCertStore) -> Self {
        let resolver = Arc::clone(&self.config.client_auth_cert_resolver);
        let config = rustls::ClientConfig::builder().with_root_certificates(roots);
        let mut config = config.with_client_cert_resolver(resolver);
        config.alpn_protocols = vec![b"h2".to_vec()];
        Self { config: Arc::new(config), ..self }
    }

    /// Returns the same identity, whose requests have this trace context.
    pub(crate) fn with_trace(self, trace: String) -> Self {
        Self { trace: Some(trace), ..self }
    }
}

/// Client of one server, or of the server that a load balancer selects.
#[derive(Clone)]
pub(crate) struct Client {
    ports: Arc<dyn Fn() -> u16 + Send + Sync>,
    identity: Identity,
    connection: Arc<Mutex<Option<SendRequest<Full<Bytes>>>>>,
}

/// Reason why there is no response.
#[derive(Debug)]
#[allow(dead_code, reason = "what is lost is printed whole")]
pub(crate) struct Lost {
    /// Set if the server certainly did not begin to serve the request.
    pub(crate) never_begun: bool,
    pub(crate) why: String,
}

impl Client {
    pub(crate) fn new(port: u16, identity: Identity) -> Self {
        Self::balanced(move || port, identity)
    }

    /// Creates a client whose new connections go to the port that `ports` returns.
    pub(crate) fn balanced(ports: impl Fn() -> u16 + Send + Sync + 'static, identity: Identity) -> Self {
        Self { ports: Arc::new(ports), identity, connection: Arc::default() }
    }

    /// Returns a client of the same identity without a connection.
    pub(crate) fn reconnected(&self) -> Self {
        Self { connection: Arc::default(), ..self.clone() }
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Answer, Lost> {
        self.once("GET", path, "").await
    }

    /// Sends a request once, without a retry.
    pub(crate) async fn once(&self, method: &str, path: &str, body: &str) -> Result<Answer, Lost> {
        let asked = Instant::now();
        let answer = self.send(method, path, body).await?;
        let (head, body) = answer.into_parts();
        let body = body.collect().await.map_err(|error| lost(&error))?.to_bytes();
        Ok(Answer { code: head.status.as_u16(), headers: head.headers, body, took: asked.elapsed() })
    }

    /// Sends a request with client-go's retries: if the response says when to retry, or if the server did not begin.
    pub(crate) async fn with_retries(&self, method: &str, path: &str, body: &str) -> Result<Answer, Lost> {
        let mut last = None;
        for _ in 0..TRIES {
            match self.once(method, path, body).await {
                Ok(answer) if matches!(answer.code, 429 | 500..) => {
                    let Ok(seconds) = answer.header("retry-after").parse() else { return Ok(answer) };
                    tokio::time::sleep(Duration::from_secs(seconds)).await;
                    last = Some(Ok(answer));
                }
                Err(lost) if lost.never_begun || method == "GET" => {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    last = Some(Err(lost));
                }
                other => return other,
            }
        }
        last.unwrap()
    }

    /// Sends a request, and returns the response before its body has arrived.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        body: &str,
    ) -> Result<Response<Incoming>, Lost> {
        let mut sender = self.connected().await?;
        let request = Request::builder().method(method).uri(format!("https://127.0.0.1{path}"));
        let form = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let mut request = request.header("content-type", form);
        if let Some(user) = self.identity.remote_user {
            request = request.header("x-remote-user", user);
        }
        if let Some(trace) = &self.identity.trace {
            request = request.header("traceparent", trace);
        }
        let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
        sender.send_request(request).await.map_err(|error| lost(&error))
    }

    async fn connected(&self) -> Result<SendRequest<Full<Bytes>>, Lost> {
        let mut connection = self.connection.lock().await;
        if let Some(sender) = connection.as_ref().filter(|sender| !sender.is_closed()) {
            return Ok(sender.clone());
        }
        let failed = |error: &dyn std::fmt::Display| Lost { never_begun: true, why: error.to_string() };
        let stream =
            TcpStream::connect(("127.0.0.1", (self.ports)())).await.map_err(|error| failed(&error))?;
        let connector = tokio_rustls::TlsConnector::from(Arc::clone(&self.identity.config));
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let stream = connector.connect(name, stream).await.map_err(|error| failed(&error))?;
        let (sender, serving) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                .await
                .map_err(|error| failed(&error))?;
        tokio::spawn(serving);
        *connection = Some(sender.clone());
        Ok(sender)
    }
}

/// A request that was never sent, or that the server's `GOAWAY` left out, was not begun.
fn lost(error: &hyper::Error) -> Lost {
    let mut never_begun = error.is_canceled();
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    let mut why = String::new();
    while let Some(error) = cause {
        why = format!("{why}{error}: ");
        if let Some(error) = error.downcast_ref::<h2::Error>() {
            let left_out = error.is_go_away() && error.is_remote();
            never_begun |= error.reason() == Some(h2::Reason::REFUSED_STREAM) || left_out;
        }
        cause = error.source();
    }
    Lost { never_begun, why }
}
