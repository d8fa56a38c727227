//! Login to Keystone.

use jiff::Timestamp;
use reqwest::{Response, StatusCode};
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
        Failure::new(ExitCode::Unreachable, summary)
            .connection(error, "give the CA of Keystone as cacert in clouds.yaml, or in OS_CACERT")
    };
    let client = http_client(settings.ca_file().as_deref())?;
    let sent = client.post(&url).header("Content-Type", "application/json").body(request.to_string()).send();
    let response = sent.await.map_err(|error| unreachable(&error))?;
    if response.status() != StatusCode::CREATED {
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
    failure(url, status, &serde_json::from_slice(&body).unwrap_or_default())
}

fn failure(url: &str, status: StatusCode, body: &Value) -> Failure {
    let is_unauthorized = status == StatusCode::UNAUTHORIZED;
    let code =
        if is_unauthorized || status.is_server_error() { ExitCode::Unreachable } else { ExitCode::Failed };
    let methods = required_methods(body);
    let words = match &methods {
        Some(methods) => format!("the user must log in by {methods}"),
        None => body.pointer("/error/message").and_then(Value::as_str).unwrap_or("no details").to_owned(),
    };
    let failure = Failure::new(code, format!("cannot log in to Keystone at {url}"))
        .detail("keystone", format!("{} {words}", status.as_u16()));
    match status {
        _ if methods.is_some() => {
            failure.next("give the TOTP code with --passcode; other second factors are not supported")
        }
        StatusCode::UNAUTHORIZED => {
            failure.next("check user, password, domain and project: openstack token issue")
        }
        StatusCode::NOT_FOUND => failure
            .next("check auth_url: it is the URL of Keystone, such as https://cloud.example.org:5000/v3"),
        _ => failure,
    }
}

/// Returns the methods of which Keystone requires all, if one was not enough. Such a response has a receipt instead of an
/// error.
fn required_methods(body: &Value) -> Option<String> {
    let sets = body.get("required_auth_methods")?.as_array()?;
    let set = |set: &Value| {
        let methods: Vec<&str> = set.as_array()?.iter().filter_map(Value::as_str).collect();
        Some(methods.join(" and "))
    };
    let all: Vec<String> = sets.iter().filter_map(set).collect();
    Some(all.join(", or by "))
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

    #[test]
    fn a_refusal_says_what_keystone_said_and_what_to_do() {
        let words = "The request you have made requires authentication.";
        let refusal = serde_json::json!({"error": {"code": 401, "message": words}});
        let receipt = serde_json::json!({"receipt": {"methods": ["password"]},
            "required_auth_methods": [["password", "totp"], ["password", "other"]]});
        for (code, body, exit, expected) in [
            (401, &refusal, 6, "401 The request you have made requires authentication.\nnext: check user"),
            (401, &receipt, 6, "by password and totp, or by password and other\nnext: give the TOTP code"),
            (404, &Value::Null, 1, "404 no details\nnext: check auth_url"),
            (503, &Value::Null, 6, "503 no details"),
        ] {
            let failure = failure("https://k/v3", StatusCode::from_u16(code).unwrap(), body);
            assert_eq!(failure.code().number(), exit, "{code}");
            assert!(failure.to_string().contains(expected), "{failure}");
        }
    }
}
