//! Discovery of an issuer: its document, and the keys that the document names.

use std::time::Duration;

use reqwest::header::CACHE_CONTROL;
use reqwest::{Client, Response, Url, redirect};
use serde::Deserialize;

use super::set::{self, VerificationKey};
use crate::config::certificates;

/// Time limit of each request.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Largest body that is read. Unit: bytes.
const MOST: usize = 1024 * 1024;

/// Age of the keys at which they are fetched again, if the issuer does not say.
const INTERVAL: Duration = Duration::from_secs(600);

/// Shortest and longest age that an issuer can set.
const SHORTEST: Duration = Duration::from_secs(60);
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Keys, and the age at which they are fetched again.
#[derive(Debug)]
pub(super) struct Fetched {
    pub(super) keys: Vec<VerificationKey>,
    pub(super) interval: Duration,
    /// Document that the keys are in.
    pub(super) document: String,
}

#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
}

/// Creates a client that trusts these CAs, in PEM. Without them, it trusts those of the system.
pub(super) fn client(authority: &str) -> Result<Client, String> {
    // A redirect would let the issuer choose what the server reads.
    let mut builder = Client::builder().timeout(TIMEOUT).redirect(redirect::Policy::none()).https_only(true);
    if !authority.is_empty() {
        let found = certificates(authority).ok_or("certificateAuthority holds no certificate in PEM")?;
        builder = builder.tls_certs_only(found);
    }
    builder.build().map_err(|error| format!("cannot create an HTTP client: {}", root_cause(&error)))
}

/// Fetches the keys of an issuer.
///
/// # Errors
/// The text names the URL and the cause.
pub(super) async fn fetch(http: &Client, discovery: &Url, issuer: &str) -> Result<Fetched, String> {
    let (document, _) = get(http, discovery).await?;
    let document: Discovery = serde_json::from_slice(&document)
        .map_err(|error| format!("{discovery}: it is no discovery document: {error}"))?;
    if document.issuer != issuer {
        return Err(format!("{discovery}: its issuer is {:?}, not {issuer:?}", document.issuer));
    }
    let url: Url = document
        .jwks_uri
        .parse()
        .map_err(|error| format!("{discovery}: its jwks_uri {:?}: {error}", document.jwks_uri))?;
    let (document, max_age) = get(http, &url).await?;
    let keys = set::read(&document).map_err(|error| format!("{url}: {error}"))?;
    let interval = max_age.map_or(INTERVAL, |age| age.clamp(SHORTEST, LONGEST));
    Ok(Fetched { keys, interval, document: String::from_utf8_lossy(&document).into_owned() })
}

/// Returns a body, and the age to which it may be used.
pub(crate) async fn get(http: &Client, url: &Url) -> Result<(Vec<u8>, Option<Duration>), String> {
    let failed = |error: &reqwest::Error| format!("{url}: {}", root_cause(error));
    let response = http.get(url.clone()).send().await.map_err(|error| failed(&error))?;
    body(response, url).await
}

/// Reads the body of a response with the status 200.
pub(crate) async fn body(mut response: Response, url: &Url) -> Result<(Vec<u8>, Option<Duration>), String> {
    if response.status() != reqwest::StatusCode::OK {
        return Err(format!("{url}: the response is {}", response.status()));
    }
    let control = response.headers().get(CACHE_CONTROL).and_then(|value| value.to_str().ok());
    let max_age = control.and_then(max_age);
    let mut body = Vec::new();
    while let Some(part) = response.chunk().await.map_err(|error| format!("{url}: {}", root_cause(&error)))? {
        body.extend_from_slice(&part);
        if body.len() > MOST {
            return Err(format!("{url}: the response is larger than {MOST} bytes"));
        }
    }
    Ok((body, max_age))
}

fn max_age(control: &str) -> Option<Duration> {
    let mut directives = control.split(',').map(str::trim);
    let seconds = directives.find_map(|directive| directive.strip_prefix("max-age="))?;
    seconds.trim_matches('"').parse().ok().map(Duration::from_secs)
}

/// Returns the innermost cause of an error: the outer ones only name the URL.
pub(crate) fn root_cause(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return format!("no response within {} s", TIMEOUT.as_secs());
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_issuer_says_how_long_its_keys_are_fresh() {
        assert_eq!(max_age("public, max-age=900, must-revalidate"), Some(Duration::from_secs(900)));
        assert_eq!(max_age("no-store"), None);
        assert_eq!(max_age("max-age=soon"), None);
    }
}
