//! Client without a certificate, whose requests have a token.

use std::path::Path;

use serde_json::{Value, json};

use crate::process::Capstan;

const SELF: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

pub(crate) struct TokenClient {
    http: reqwest::Client,
    url: String,
}

impl TokenClient {
    pub(crate) fn new(capstan: &Capstan, data: &Path) -> Self {
        let ca = std::fs::read(data.join("pki/ca.crt")).unwrap();
        let ca = reqwest::Certificate::from_pem(&ca).unwrap();
        let http = reqwest::Client::builder().tls_certs_only([ca]).build().unwrap();
        Self { http, url: format!("https://127.0.0.1:{}", capstan.port) }
    }

    /// Returns the code, and the user that the server sees or its error.
    pub(crate) async fn review(&self, header: &str, value: &str) -> (u16, Value) {
        let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let request = self.http.post(format!("{}{SELF}", self.url)).header(header, value);
        let request = request.header("Content-Type", "application/json").body(body.to_string());
        let response = request.send().await.unwrap();
        let code = response.status().as_u16();
        let body: Value = serde_json::from_slice(&response.bytes().await.unwrap()).unwrap();
        (code, body.pointer("/status/userInfo").or_else(|| body.get("message")).cloned().unwrap_or_default())
    }

    /// Returns the code of a GET without credentials.
    pub(crate) async fn anonymous(&self, path: &str) -> u16 {
        self.http.get(format!("{}{path}", self.url)).send().await.unwrap().status().as_u16()
    }

    /// Returns the code of a GET as another user.
    pub(crate) async fn get_as(&self, path: &str, token: &str, user: &str) -> u16 {
        let request = self.http.get(format!("{}{path}", self.url)).bearer_auth(token);
        request.header("Impersonate-User", user).send().await.unwrap().status().as_u16()
    }

    /// Returns the code of a POST.
    pub(crate) async fn post(&self, path: &str, token: &str, body: &Value) -> u16 {
        let request = self.http.post(format!("{}{path}", self.url)).bearer_auth(token);
        let request = request.header("Content-Type", "application/json").body(body.to_string());
        request.send().await.unwrap().status().as_u16()
    }

    /// Returns the code and the body of a GET.
    pub(crate) async fn get(&self, path: &str, token: &str) -> (u16, Value) {
        let request = self.http.get(format!("{}{path}", self.url)).bearer_auth(token);
        let response = request.send().await.unwrap();
        let code = response.status().as_u16();
        (code, serde_json::from_slice(&response.bytes().await.unwrap()).unwrap_or_default())
    }
}
