//! Caller: requests with any headers, and a record of the responses that are no successes.

use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::process::Capstan;

/// Client without a certificate. Each request has the headers that it is called with.
#[derive(Clone)]
pub(crate) struct Caller {
    http: reqwest::Client,
    url: String,
    token: String,
    /// Responses that are no successes.
    errors: Arc<Mutex<Vec<Refusal>>>,
}

/// Response that is no success.
#[derive(Clone)]
pub(crate) struct Refusal {
    pub(crate) name: String,
    /// Headers and body.
    pub(crate) response: Vec<u8>,
    /// Body of the request. The response goes to its sender alone, and may quote it.
    pub(crate) request: Vec<u8>,
}

/// Response: its code, and its body.
pub(crate) type Response = (u16, Vec<u8>);

impl Caller {
    pub(crate) fn new(capstan: &Capstan, data: &Path, token: &str) -> Self {
        let ca = std::fs::read(data.join("pki/ca.crt")).unwrap();
        let ca = reqwest::Certificate::from_pem(&ca).unwrap();
        let http = reqwest::Client::builder().tls_certs_only([ca]).build().unwrap();
        let url = format!("https://127.0.0.1:{}", capstan.port);
        Self { http, url, token: token.to_owned(), errors: Arc::default() }
    }

    /// Sends a request with the token of the caller.
    pub(crate) async fn send(&self, method: &str, path: &str, form: &str, body: &str) -> Response {
        let token = format!("Bearer {}", self.token);
        self.send_with(method, path, &[("authorization", &token), ("content-type", form)], body).await
    }

    /// Sends a request with these headers alone.
    pub(crate) async fn send_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        text: &str,
    ) -> Response {
        let verb = method.parse().unwrap();
        let mut request = self.http.request(verb, format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.body(text.to_owned()).send().await.unwrap();
        let code = response.status().as_u16();
        let head = format!("{:?}", response.headers()).into_bytes();
        let body = response.bytes().await.unwrap().to_vec();
        if code >= 400 {
            let path = path.split('?').next().unwrap_or_default();
            let (name, request) = (format!("response {code} to {method} {path}"), text.as_bytes().to_vec());
            let response = [head, body.clone()].concat();
            self.errors.lock().unwrap().push(Refusal { name, response, request });
        }
        (code, body)
    }

    /// Sends a request in JSON, and expects this code.
    pub(crate) async fn json(
        &self,
        method: &str,
        path: &str,
        body: &serde_json::Value,
        code: u16,
    ) -> serde_json::Value {
        let (found, answer) = self.send(method, path, "application/json", &body.to_string()).await;
        assert_eq!(found, code, "{method} {path}: {}", String::from_utf8_lossy(&answer));
        serde_json::from_slice(&answer).unwrap_or_default()
    }

    /// Returns the body of a GET that must succeed.
    pub(crate) async fn text(&self, path: &str) -> Vec<u8> {
        let (code, body) = self.send("GET", path, "", "").await;
        assert_eq!(code, 200, "{path}: {}", String::from_utf8_lossy(&body));
        body
    }

    /// Returns the responses so far that are no successes.
    pub(crate) fn errors(&self) -> Vec<Refusal> {
        self.errors.lock().unwrap().clone()
    }
}
