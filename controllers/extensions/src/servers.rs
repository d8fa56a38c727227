//! HTTP clients of extension servers. Servers with the same CA certificates share one, and so its connections.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use apiserver_types::ClientConfig;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use controllers_runtime::without_slot;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Certificate, Client, RequestBuilder, Response, StatusCode, Url, redirect};

/// Time after which an idle connection is closed.
const IDLE: Duration = Duration::from_secs(90);

/// Largest answer that is read. A thousand templates, each with patches of 16 KiB, fit in, and so does any object that the API
/// could store, ten times over. Unit: bytes.
const LARGEST_ANSWER: usize = 16 * 1024 * 1024;

/// Longest excerpt of an answer in an error, as that of a page in HTML. Unit: characters.
pub(crate) const LONGEST_EXCERPT: usize = 200;

/// Most clients that are kept: one per set of CA certificates. There are few, but certificates are replaced.
const MOST_CLIENTS: usize = 64;

/// Connections to extension servers. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct ExtensionServers(Arc<Mutex<HashMap<String, Client>>>);

/// Reason why there is no answer. For people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// The configuration cannot be used; nothing was sent.
    Misconfigured(String),
    /// The call failed.
    Failed(String),
}

impl ExtensionServers {
    /// Sends a message, and returns the answer. A pass of a controller that waits for it holds no slot for long: a server that
    /// is slow or silent delays no other object.
    ///
    /// # Errors
    /// The configuration cannot be used, the server did not answer in this time, or it answered with another status than 200.
    pub(crate) async fn post(
        &self,
        config: &ClientConfig,
        url: Url,
        timeout: Duration,
        message: Vec<u8>,
    ) -> Result<Vec<u8>, NoAnswer> {
        let client = self.client(config).map_err(NoAnswer::Misconfigured)?;
        let mut shown = url.clone();
        shown.set_query(None);
        let failed = |why: String| NoAnswer::Failed(format!("POST {shown}: {why}"));
        let request = client.post(url).timeout(timeout).header(CONTENT_TYPE, "application/json");
        let answer = without_slot(exchange(request.body(message), timeout)).await;
        let (status, body) = answer.map_err(failed)?;
        if status == StatusCode::OK {
            return Ok(body);
        }
        Err(failed(refusal(status, &body)))
    }

    /// Returns the client for a configuration.
    fn client(&self, config: &ClientConfig) -> Result<Client, String> {
        let bundle = config.ca_bundle.as_ref().map(|bundle| bundle.0.as_str()).unwrap_or_default();
        let mut clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(bundle) {
            return Ok(client.clone());
        }
        let client = create(bundle)?;
        if clients.len() >= MOST_CLIENTS {
            clients.clear();
        }
        clients.insert(bundle.to_owned(), client.clone());
        Ok(client)
    }
}

/// Creates a client that trusts the CAs of a bundle alone; without one, those of the system.
fn create(bundle: &str) -> Result<Client, String> {
    // A redirect would send objects to an address that no administrator has named.
    let builder = Client::builder().redirect(redirect::Policy::none()).https_only(true);
    let mut builder = builder.pool_idle_timeout(IDLE).no_proxy();
    if !bundle.is_empty() {
        let wrong = |why: String| format!("spec.clientConfig.caBundle: {why}");
        let pem = STANDARD.decode(bundle).map_err(|error| wrong(format!("it is not base64: {error}")))?;
        builder = builder.tls_certs_only(trusted(&pem).map_err(wrong)?);
    }
    builder.build().map_err(|error| format!("the client cannot be created: {error}"))
}

/// Checks that a text holds certificates in PEM, and nothing else that is in PEM, such as a key.
///
/// # Errors
/// The text says what is wrong. It has no part of the checked text.
pub fn certificates(pem: &[u8]) -> Result<(), String> {
    let text = std::str::from_utf8(pem).map_err(|_| "it is no text".to_owned())?;
    if text.matches("-----BEGIN ").count() != text.matches("-----BEGIN CERTIFICATE-----").count() {
        return Err("it holds something else in PEM than certificates".to_owned());
    }
    trusted(pem).map(|_| ())
}

fn trusted(pem: &[u8]) -> Result<Vec<Certificate>, String> {
    let found = Certificate::from_pem_bundle(pem).ok().filter(|found| !found.is_empty());
    found.ok_or_else(|| "it holds no certificate in PEM".to_owned())
}

/// Sends a request. Returns status and body of the answer.
async fn exchange(request: RequestBuilder, timeout: Duration) -> Result<(StatusCode, Vec<u8>), String> {
    let answer = request.send().await.map_err(|error| cause(&error, timeout))?;
    let status = answer.status();
    Ok((status, read(answer, timeout).await?))
}

/// Reads an answer up to its limit.
async fn read(mut answer: Response, timeout: Duration) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(part) = answer.chunk().await.map_err(|error| cause(&error, timeout))? {
        if body.len().saturating_add(part.len()) > LARGEST_ANSWER {
            return Err(format!("the answer is larger than {LARGEST_ANSWER} bytes"));
        }
        body.extend_from_slice(&part);
    }
    Ok(body)
}

/// Returns the innermost cause of an error: the outer ones only name the URL.
fn cause(error: &reqwest::Error, timeout: Duration) -> String {
    if error.is_timeout() {
        return format!("no answer within {} seconds", timeout.as_secs());
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// Describes an answer with another status than 200.
fn refusal(status: StatusCode, body: &[u8]) -> String {
    if status.is_redirection() {
        return format!("the server redirects with {status}, and redirects are not followed");
    }
    let text = excerpt(&String::from_utf8_lossy(body), LONGEST_EXCERPT);
    format!("the server answered with status {status}: {text:?}")
}

/// Returns the begin of a text of a server: this number of characters.
pub(crate) fn excerpt(text: &str, most: usize) -> String {
    text.trim().chars().take(most).collect()
}

#[cfg(test)]
mod tests {
    use apiserver_types::Bytes;

    use super::*;

    fn config(bundle: Option<&str>) -> ClientConfig {
        ClientConfig { ca_bundle: bundle.map(|it| Bytes(it.to_owned())), ..ClientConfig::default() }
    }

    #[test]
    fn servers_with_the_same_cas_share_a_client() {
        let servers = ExtensionServers::default();
        assert!(servers.client(&config(None)).is_ok() && servers.clone().client(&config(None)).is_ok());
        assert_eq!(servers.0.lock().unwrap().len(), 1);
        let error = servers.client(&config(Some("%"))).unwrap_err();
        assert!(error.starts_with("spec.clientConfig.caBundle: it is not base64"), "{error}");
        let error = servers.client(&config(Some(&STANDARD.encode("no PEM")))).unwrap_err();
        assert!(error.contains("no certificate"), "{error}");
    }

    #[test]
    fn a_key_is_no_certificate_and_is_not_shown() {
        let key = "-----BEGIN EC PRIVATE KEY-----\nc2VjcmV0\n-----END EC PRIVATE KEY-----\n";
        let error = certificates(key.as_bytes()).unwrap_err();
        assert!(error.contains("something else") && !error.contains("c2VjcmV0"), "{error}");
        assert!(certificates(b"").unwrap_err().contains("no certificate"));
        assert!(certificates(b"password").unwrap_err().contains("no certificate"));
    }

    #[test]
    fn an_answer_with_another_status_is_quoted_in_part() {
        let long = "x".repeat(LONGEST_EXCERPT * 2);
        let text = refusal(StatusCode::INTERNAL_SERVER_ERROR, long.as_bytes());
        assert!(text.contains("500") && text.len() < LONGEST_EXCERPT + 100, "{text}");
        assert!(refusal(StatusCode::FOUND, b"").contains("redirects are not followed"));
    }
}
