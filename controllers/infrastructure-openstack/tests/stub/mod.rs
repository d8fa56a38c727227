//! Stub of a cloud: one socket with scripted responses, for errors that neither a simulator nor a real cloud produces
//! on demand.

#![allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use controllers_infrastructure::Credentials;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader},
    net::TcpListener,
};
use tokio_rustls::{TlsAcceptor, rustls};

/// Response to a call.
#[derive(Clone)]
pub(crate) enum Answer {
    /// Status, further headers, body.
    Respond(u16, &'static str, String),
    /// Reads the call and closes the connection.
    Disconnect,
}

/// Received call.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedCall {
    pub(crate) line: String,
    pub(crate) headers: String,
    pub(crate) body: String,
}

/// Method and path of a call, e.g. `GET /compute/v2.1/servers`, and its response, once.
type Script = VecDeque<(&'static str, Answer)>;

#[derive(Clone)]
pub(crate) struct Stub {
    root: String,
    script: Arc<Mutex<Script>>,
    received: Arc<Mutex<Vec<ReceivedCall>>>,
}

impl Stub {
    pub(crate) async fn start() -> Self {
        Self::listen("http", None).await
    }

    /// Creates a stub behind TLS, and the certificate (its own authority) to trust.
    pub(crate) async fn start_tls() -> (Self, String) {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        (Self::listen("https", Some(TlsAcceptor::from(Arc::new(config)))).await, made.cert.pem())
    }

    async fn listen(scheme: &str, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let root = format!("{scheme}://{}", listener.local_addr().unwrap());
        let stub = Self { root, script: Arc::default(), received: Arc::default() };
        let serving = stub.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (stub, tls) = (serving.clone(), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => stub.serve(stream).await,
                        // The client does not trust the stub.
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                stub.serve(stream).await;
                            }
                        }
                    }
                });
            }
        });
        stub
    }

    /// Returns the URL of the stub, without a path.
    pub(crate) fn root(&self) -> &str {
        &self.root
    }

    /// Adds to the script. A call consumes the first entry that matches it.
    pub(crate) fn enqueue(&self, call: &'static str, answer: Answer) {
        self.script.lock().unwrap().push_back((call, answer));
    }

    /// Returns the calls so far with this prefix.
    pub(crate) fn received(&self, call: &str) -> Vec<ReceivedCall> {
        self.received
            .lock()
            .unwrap()
            .iter()
            .filter(|received| received.line.starts_with(call))
            .cloned()
            .collect()
    }

    pub(crate) fn credentials(&self) -> Credentials {
        let clouds_yaml = format!(
            "clouds: {{stub: {{auth: {{auth_url: '{}/identity/v3', username: u, password: hunter2, \
             user_domain_id: default, project_id: p}}, region_name: R}}}}",
            self.root
        );
        Credentials {
            clouds_yaml,
            cloud_name: "stub".into(),
            ca_certificate: None,
            region: None,
            identity: None,
        }
    }

    async fn serve(&self, stream: impl AsyncRead + AsyncWrite + Unpin) {
        let mut stream = BufReader::new(stream);
        while let Some(received) = read(&mut stream).await {
            let answer = self.answer(&received.line);
            self.received.lock().unwrap().push(received);
            let Answer::Respond(status, headers, body) = answer else { return };
            let head = format!(
                "HTTP/1.1 {status} X\r\ncontent-length: {}\r\ncontent-type: application/json\r\n\
                 x-openstack-request-id: req-stub\r\n{headers}\r\n",
                body.len()
            );
            if stream.write_all(format!("{head}{body}").as_bytes()).await.is_err() {
                return;
            }
        }
    }

    fn answer(&self, line: &str) -> Answer {
        let mut script = self.script.lock().unwrap();
        if let Some(at) = script.iter().position(|(call, _)| line.starts_with(call)) {
            return script.remove(at).unwrap().1;
        }
        drop(script);
        self.default_answer(line)
    }

    fn default_answer(&self, line: &str) -> Answer {
        let root = &self.root;
        if line.starts_with("POST /identity/v3/auth/tokens") {
            let endpoint = |name: &str, path: &str| {
                format!(
                    r#"{{"type":"{name}","name":"{name}","endpoints":[{{"id":"e","interface":"public","region":"R","region_id":"R","url":"{root}/{path}"}}]}}"#
                )
            };
            let catalog = [
                endpoint("compute", "compute/v2.1"),
                endpoint("network", "network"),
                endpoint("identity", "identity/v3"),
                endpoint("load-balancer", "load-balancer"),
                endpoint("sharev2", "share/v2/p"),
            ]
            .join(",");
            let body = format!(
                r#"{{"token":{{"methods":["password"],"user":{{"id":"u","name":"u","domain":{{"id":"default","name":"Default"}},"password_expires_at":null}},"project":{{"id":"p","name":"p","domain":{{"id":"default","name":"Default"}}}},"roles":[],"audit_ids":["a"],"expires_at":"2099-01-01T00:00:00.000000Z","issued_at":"2026-01-01T00:00:00.000000Z","catalog":[{catalog}]}}}}"#
            );
            return Answer::Respond(201, "x-subject-token: secret-token\r\n", body);
        }
        if line.starts_with("GET /identity/v3") {
            let body = format!(
                r#"{{"version":{{"id":"v3.14","status":"stable","links":[{{"rel":"self","href":"{root}/identity/v3/"}}]}}}}"#
            );
            return Answer::Respond(200, "", body);
        }
        if line.starts_with("GET /compute/v2.1/ ") {
            let body = r#"{"version":{"id":"v2.1","version":"2.79","min_version":"2.1"}}"#;
            return Answer::Respond(200, "", body.to_owned());
        }
        Answer::Respond(404, "", r#"{"itemNotFound":{"message":"not in the script"}}"#.to_owned())
    }
}

async fn read(stream: &mut BufReader<impl AsyncRead + Unpin>) -> Option<ReceivedCall> {
    let mut line = String::new();
    if stream.read_line(&mut line).await.ok()? == 0 {
        return None;
    }
    let mut headers = String::new();
    loop {
        let mut header = String::new();
        stream.read_line(&mut header).await.ok()?;
        if header.trim().is_empty() {
            break;
        }
        headers.push_str(&header.to_ascii_lowercase());
    }
    let length =
        headers.lines().find_map(|header| header.strip_prefix("content-length: ")?.trim().parse().ok());
    let mut body = vec![0; length.unwrap_or_default()];
    stream.read_exact(&mut body).await.ok()?;
    Some(ReceivedCall { line, headers, body: String::from_utf8(body).unwrap() })
}
