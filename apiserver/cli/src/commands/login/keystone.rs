//! Login to Keystone.

use jiff::Timestamp;
use reqwest::Response;
use serde_json::Value;

use super::http_client::http_client;
use super::settings::Settings;
use super::{EARLY, Token};
use crate::error::{ExitCode, Failure};

/// Logs in.
pub(super) async fn log_in(settings: &Settings, request: &Value) -> Result<Token, Failure> {
    let url = format!("{}/auth/tokens?nocatalog", versioned(&settings.auth_url()?));
    let unreachable = |error: &reqwest::Error| {
        let summary = format!("cannot log in to Keystone at {url}: it cannot be reached");
        Failure::new(ExitCode::Unreachable, summary).detail("cause", crate::error::chain(error))
    };
    let client = http_client(settings.ca_file().as_deref())?;
    let sent = client.post(&url).header("Content-Type", "application/json").body(request.to_string()).send();
    let response = sent.await.map_err(|error| unreachable(&error))?;
    if response.status() != reqwest::StatusCode::CREATED {
        return Err(refused(&url, response).await);
    }
    let secret = response.headers().get("X-Subject-Token").and_then(|value| value.to_str().ok());
    let secret = secret.map(str::to_owned).ok_or_else(|| {
        let summary = format!("cannot log in to Keystone at {url}: its response has no token");
        Failure::new(ExitCode::Failed, summary)
    })?;
    let body = response.bytes().await.map_err(|error| unreachable(&error))?;
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let end = body.pointer("/token/expires_at").and_then(Value::as_str).and_then(|text| text.parse().ok());
    let renew_at = end.map(|end: Timestamp| end.saturating_sub(EARLY).unwrap_or(end));
    Ok(Token { secret, renew_at })
}

/// Returns the address of version 3 of Keystone.
fn versioned(auth_url: &str) -> String {
    let root = auth_url.trim_end_matches('/');
    if root.ends_with("/v3") { root.to_owned() } else { format!("{root}/v3") }
}

/// Returns the failure in the words of Keystone.
async fn refused(url: &str, response: Response) -> Failure {
    let status = response.status();
    let body = response.bytes().await.unwrap_or_default();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let words = body.pointer("/error/message").and_then(Value::as_str).unwrap_or("no details");
    let code = if status == reqwest::StatusCode::UNAUTHORIZED || status.is_server_error() {
        ExitCode::Unreachable
    } else {
        ExitCode::Failed
    };
    let failure = Failure::new(code, format!("cannot log in to Keystone at {url}"))
        .detail("keystone", format!("{} {words}", status.as_u16()));
    if code == ExitCode::Unreachable && !status.is_server_error() {
        return failure.next("check user, password, domain and project: openstack token issue");
    }
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_that_of_version_3() {
        for url in ["https://k:5000", "https://k:5000/", "https://k:5000/v3", "https://k:5000/v3/"] {
            assert_eq!(versioned(url), "https://k:5000/v3", "{url}");
        }
    }
}
