//! Validation of a token by Keystone's API.

use std::time::Duration;

use http::{HeaderValue, StatusCode};
use reqwest::{Certificate, Client, Response, Url, redirect};
use serde::Deserialize;

use crate::identity::ValidatedToken;

/// Time limit of a request. Keystone answers from its cache or its database within milliseconds.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Header by which a service promises to enforce access rules, and the version of their form. Without it, Keystone does not
/// know tokens with access rules.
const ACCESS_RULES: (&str, &str) = ("OpenStack-Identity-Access-Rules", "1.0");

/// Largest body that is read: a token without a catalog has a few KiB, more with many roles. Unit: bytes.
const MOST: usize = 256 * 1024;

/// Cause of a 403. For Keystone, the subject of a token of a trust with impersonation is the trustee, and its user is the
/// trustor. So the rule that a token may validate itself never holds for it.
const NOT_BY_ITSELF: &str = "403 Forbidden: its policy identity:validate_token does not let the token validate itself. \
    No token of a trust with impersonation can: use a trust without it, or an application credential";

/// A client that cannot be created. The text names the setting and the reason.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SetupError(String);

/// Keystone did not decide whether a token is valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Undecided {
    /// Text for people.
    pub(crate) text: String,
    /// True if Keystone itself is the reason, so that other tokens get no decision either. A client could otherwise stop
    /// all others with one odd token.
    pub(crate) is_silence: bool,
}

/// Client of one Keystone.
#[derive(Debug)]
pub struct KeystoneClient {
    http: Client,
    validation: Url,
}

#[derive(Deserialize)]
struct Validation {
    token: ValidatedToken,
}

impl KeystoneClient {
    /// Creates a client. `url` is that of Keystone, with or without `/v3`. `ca` are the CAs of its certificate in PEM;
    /// without them, those of the system.
    ///
    /// # Errors
    /// [`SetupError`] if the URL or the CAs cannot be used.
    pub fn new(url: &str, ca: Option<&[u8]>) -> Result<Self, SetupError> {
        let invalid = || {
            let example = "https://keystone.example.org:5000/v3";
            SetupError(format!("keystone.authURL: {url:?} is not a URL such as {example}"))
        };
        let is_usable = |it: &Url| matches!(it.scheme(), "https" | "http") && it.has_host();
        url.parse().ok().filter(is_usable).ok_or_else(invalid)?;
        let root = url.trim_end_matches('/');
        let root = root.strip_suffix("/v3").unwrap_or(root);
        let validation = format!("{root}/v3/auth/tokens?nocatalog").parse().map_err(|_| invalid())?;
        // A redirect would show the token to another server.
        let mut builder = Client::builder().timeout(TIMEOUT).redirect(redirect::Policy::none());
        if let Some(pem) = ca {
            let found = Certificate::from_pem_bundle(pem)
                .ok()
                .filter(|found| !found.is_empty())
                .ok_or_else(|| SetupError("keystone.caFile: holds no certificate in PEM".to_owned()))?;
            builder = builder.tls_certs_only(found);
        }
        let http = builder.build().map_err(|error| {
            SetupError(format!("keystone: cannot create an HTTP client: {}", root_cause(&error)))
        })?;
        Ok(Self { http, validation })
    }

    /// Returns what a token says, or `None` if Keystone does not know it.
    pub(crate) async fn validate(&self, token: &str) -> Result<Option<ValidatedToken>, Undecided> {
        let Ok(mut header) = HeaderValue::from_str(token) else { return Ok(None) };
        header.set_sensitive(true);
        let request = self
            .http
            .get(self.validation.clone())
            .header(ACCESS_RULES.0, ACCESS_RULES.1)
            .header("X-Auth-Token", header.clone())
            .header("X-Subject-Token", header);
        let response = request.send().await.map_err(|error| self.silence(&root_cause(&error)))?;
        match response.status() {
            StatusCode::OK => self.read(response).await.map(Some),
            // 400: the token is none that Keystone can read.
            StatusCode::UNAUTHORIZED | StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST => Ok(None),
            StatusCode::FORBIDDEN => Err(self.undecided(NOT_BY_ITSELF)),
            other if other.is_server_error() || other == StatusCode::TOO_MANY_REQUESTS => {
                Err(self.silence(&other.to_string()))
            }
            other => Err(self.undecided(&other.to_string())),
        }
    }

    async fn read(&self, mut response: Response) -> Result<ValidatedToken, Undecided> {
        let mut body = Vec::new();
        while let Some(part) = response.chunk().await.map_err(|error| self.silence(&root_cause(&error)))? {
            body.extend_from_slice(&part);
            if body.len() > MOST {
                return Err(self.undecided("its response is too large"));
            }
        }
        // The error of the decoder may quote the token.
        let found: Result<Validation, _> = serde_json::from_slice(&body);
        found.map(|found| found.token).map_err(|_| self.undecided("its response is not that of Keystone"))
    }

    fn undecided(&self, cause: &str) -> Undecided {
        let address = self.validation.origin().ascii_serialization();
        let text = format!("Keystone at {address} does not say who this token belongs to: {cause}");
        Undecided { text, is_silence: false }
    }

    fn silence(&self, cause: &str) -> Undecided {
        Undecided { is_silence: true, ..self.undecided(cause) }
    }
}

/// Returns the innermost cause of an error: the outer ones only name the URL.
fn root_cause(error: &reqwest::Error) -> String {
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
    fn the_address_is_that_of_version_3_once() {
        for url in ["https://k:5000", "https://k:5000/", "https://k:5000/v3", "https://k:5000/v3/"] {
            let client = KeystoneClient::new(url, None).unwrap();
            assert_eq!(client.validation.as_str(), "https://k:5000/v3/auth/tokens?nocatalog");
        }
        let below = KeystoneClient::new("https://cloud/identity/v3", None).unwrap();
        assert_eq!(below.validation.path(), "/identity/v3/auth/tokens");
    }

    #[test]
    fn a_setting_that_cannot_be_used_is_named() {
        for bad in ["", "keystone:5000", "ftp://k", "https://"] {
            let error = KeystoneClient::new(bad, None).unwrap_err().to_string();
            assert!(error.starts_with("keystone.authURL: "), "{error}");
        }
        let error = KeystoneClient::new("https://k", Some(b"none")).unwrap_err().to_string();
        assert_eq!(error, "keystone.caFile: holds no certificate in PEM");
    }
}
