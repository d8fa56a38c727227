//! Endpoints of an issuer, and the tokens that they give.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jiff::{SignedDuration, Timestamp};
use reqwest::{Client, StatusCode};
use serde::Deserialize;
use serde_json::Value;

use super::OidcArguments;
use crate::commands::login::{EARLY, Token, file_failure};
use crate::error::{ExitCode, Failure};

/// Endpoints of an issuer, for one client. Not `Debug`: it has the client's secret.
pub(super) struct Endpoints {
    http: Client,
    issuer: String,
    client: String,
    secret: Option<String>,
    document: Document,
}

#[derive(Deserialize)]
struct Document {
    issuer: String,
    token_endpoint: String,
    authorization_endpoint: Option<String>,
    device_authorization_endpoint: Option<String>,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Vec<String>,
}

impl Document {
    /// Returns an endpoint without TLS, if there is one. Codes, tokens and the client's secret could be read on the way.
    fn unprotected(&self) -> Option<&str> {
        let optional = [&self.authorization_endpoint, &self.device_authorization_endpoint];
        let all = optional.into_iter().flatten().chain([&self.token_endpoint]);
        all.map(String::as_str).find(|url| !url.starts_with("https://"))
    }
}

/// Tokens of a login.
pub(super) struct Granted {
    pub(super) token: Token,
    pub(super) refresh: Option<String>,
}

/// Answer of the issuer that is no token.
#[derive(Debug)]
pub(super) struct Refused {
    /// Error code of OAuth 2.0, or empty.
    pub(super) code: String,
    /// Failure for people.
    pub(super) failure: Failure,
    /// The issuer did not decide: it does not answer, has an error of its own, or sheds load.
    pub(super) is_undecided: bool,
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self { code: String::new(), failure, is_undecided: false }
    }
}

/// Fields of a form.
pub(super) type Fields<'a> = [(&'a str, &'a str)];

impl Endpoints {
    /// Asks the issuer for its endpoints.
    pub(super) async fn discover(http: Client, arguments: &OidcArguments) -> Result<Self, Failure> {
        let issuer = arguments.issuer.clone();
        let secret = arguments.client_secret_file.as_deref().map(read_secret).transpose()?;
        let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let response = http.get(&url).send().await.map_err(|error| unreachable(&issuer, &error))?;
        let status = response.status();
        let body = response.bytes().await.map_err(|error| unreachable(&issuer, &error))?;
        let document: Option<Document> =
            serde_json::from_slice(&body).ok().filter(|_| status == StatusCode::OK);
        let Some(document) = document else {
            return Err(Failure::new(ExitCode::Failed, cannot(&issuer))
                .detail("cause", format!("{url} is no discovery document: the response is {status}"))
                .next("check --issuer: it is the URL in the field iss of the issuer's tokens"));
        };
        if document.issuer != issuer {
            let cause = format!("its discovery document is that of {:?}", document.issuer);
            return Err(Failure::new(ExitCode::Failed, cannot(&issuer))
                .detail("cause", cause)
                .next("give --issuer exactly as the document names it"));
        }
        if let Some(url) = document.unprotected() {
            return Err(Failure::new(ExitCode::Failed, cannot(&issuer))
                .detail(
                    "cause",
                    format!("its discovery document names {url}, which does not begin with https://"),
                )
                .next(
                    "let the issuer announce https URLs: one behind a proxy has a setting for its public URL",
                ));
        }
        Ok(Self { http, issuer, client: arguments.client_id.clone(), secret, document })
    }

    /// Returns the endpoint for browsers.
    pub(super) fn authorization(&self) -> Result<&str, Failure> {
        self.document.authorization_endpoint.as_deref().ok_or_else(|| self.lacks("login by browser"))
    }

    /// Returns the endpoint for devices.
    pub(super) fn device(&self) -> Result<&str, Failure> {
        self.document.device_authorization_endpoint.as_deref().ok_or_else(|| self.lacks("device code"))
    }

    fn lacks(&self, grant: &str) -> Failure {
        Failure::new(ExitCode::Failed, format!("{}: it has no {grant}", cannot(&self.issuer)))
            .next("choose another way with --grant")
    }

    /// Returns the failure of a login.
    pub(super) fn failure(&self, cause: impl Into<String>) -> Failure {
        Failure::new(ExitCode::Failed, cannot(&self.issuer)).detail("cause", cause)
    }

    /// Renews a token.
    pub(super) async fn refresh(&self, refresh: &str) -> Result<Granted, Refused> {
        let fields = [("grant_type", "refresh_token"), ("refresh_token", refresh)];
        let mut granted = self.token(&fields, None).await?;
        // An issuer that does not rotate its refresh tokens returns none.
        granted.refresh.get_or_insert_with(|| refresh.to_owned());
        Ok(granted)
    }

    /// Logs in as the client itself.
    pub(super) async fn client_credentials(&self, scope: &str) -> Result<Granted, Failure> {
        if self.secret.is_none() {
            let summary = format!("{}: --grant client-credentials needs a secret", cannot(&self.issuer));
            return Err(Failure::new(ExitCode::Failed, summary).next("give --client-secret-file FILE"));
        }
        let mut fields = vec![("grant_type", "client_credentials")];
        if !scope.is_empty() {
            fields.push(("scope", scope));
        }
        self.token(&fields, None).await.map_err(|refused| refused.failure)
    }

    /// Requests a token. `nonce` is that of the login, and the token must repeat it.
    pub(super) async fn token(&self, fields: &Fields<'_>, nonce: Option<&str>) -> Result<Granted, Refused> {
        let url = &self.document.token_endpoint;
        let found = self.post(url, fields).await?;
        let text = |name: &str| found.get(name).and_then(Value::as_str).map(str::to_owned);
        let secret = text("id_token").or_else(|| text("access_token"));
        let secret = secret.ok_or_else(|| self.failure(format!("the response of {url} has no token")))?;
        if let Some(nonce) = nonce {
            self.check(&claims(&secret).unwrap_or_default(), nonce)?;
        }
        let of_token = claims(&secret).and_then(|claims| claims.get("exp")?.as_i64());
        let of_response = found.get("expires_in").and_then(Value::as_i64);
        let end = match (of_token, of_response) {
            (Some(end), _) => Timestamp::from_second(end).ok(),
            (None, Some(left)) => Timestamp::now().checked_add(SignedDuration::from_secs(left)).ok(),
            (None, None) => None,
        };
        let renew_at = end.map(|end| end.saturating_sub(EARLY).unwrap_or(end));
        Ok(Granted { token: Token { secret, renew_at }, refresh: text("refresh_token") })
    }

    /// Checks that a token is the answer to this login. It comes from the issuer itself over TLS, so its signature adds
    /// nothing here.
    fn check(&self, claims: &Value, nonce: &str) -> Result<(), Failure> {
        let aud = claims.get("aud");
        let is_for_us = match aud {
            Some(Value::Array(all)) => all.iter().any(|one| one == self.client.as_str()),
            other => other.and_then(Value::as_str) == Some(self.client.as_str()),
        };
        let problem = if claims.get("nonce").and_then(Value::as_str) != Some(nonce) {
            "the nonce of the token is not that of this login"
        } else if claims.get("iss").and_then(Value::as_str) != Some(self.issuer.as_str()) {
            "the token is of another issuer"
        } else if !is_for_us {
            "the token is for another client"
        } else {
            return Ok(());
        };
        Err(self
            .failure(problem)
            .next("the answer may have been replaced: log in again on a trusted network"))
    }

    /// Sends a form with the client's credentials.
    pub(super) async fn post(&self, url: &str, fields: &Fields<'_>) -> Result<Value, Refused> {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.extend_pairs(fields);
        let mut request = self.http.post(url).header("Content-Type", "application/x-www-form-urlencoded");
        request = request.header("Accept", "application/json");
        match &self.secret {
            Some(secret) if self.has_basic() => {
                let part = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
                let both = STANDARD.encode(format!("{}:{}", part(&self.client), part(secret)));
                request = request.header("Authorization", format!("Basic {both}"));
            }
            Some(secret) => {
                form.append_pair("client_id", &self.client).append_pair("client_secret", secret);
            }
            None => {
                form.append_pair("client_id", &self.client);
            }
        }
        let silent = |error: reqwest::Error| Refused {
            code: String::new(),
            failure: unreachable(&self.issuer, &error),
            is_undecided: true,
        };
        let response = request.body(form.finish()).send().await.map_err(silent)?;
        let status = response.status();
        let body = response.bytes().await.map_err(silent)?;
        let found: Value = serde_json::from_slice(&body).unwrap_or_default();
        if status == StatusCode::OK {
            return Ok(found);
        }
        Err(self.refused(status, &found))
    }

    /// Returns true if the client's secret belongs in the header, as it does unless the issuer says otherwise.
    fn has_basic(&self) -> bool {
        let methods = &self.document.token_endpoint_auth_methods_supported;
        methods.is_empty() || methods.iter().any(|method| method == "client_secret_basic")
    }

    /// Returns the refusal in the words of the issuer.
    fn refused(&self, status: StatusCode, body: &Value) -> Refused {
        let text = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default();
        let code = text("error").to_owned();
        let exit = if status == StatusCode::UNAUTHORIZED || status.is_server_error() {
            ExitCode::Unreachable
        } else {
            ExitCode::Failed
        };
        let words = format!("{} {code} {}", status.as_u16(), text("error_description"));
        let failure = Failure::new(exit, cannot(&self.issuer)).detail("issuer", words.trim_end());
        let is_undecided = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
        Refused { code, failure, is_undecided }
    }
}

/// Returns the claims of a token, or `None` if it is no JWT.
pub(super) fn claims(token: &str) -> Option<Value> {
    let payload = token.split('.').nth(1)?;
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()
}

fn read_secret(path: &Path) -> Result<String, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| file_failure("read", path, &error))?;
    Ok(text.trim().to_owned())
}

fn cannot(issuer: &str) -> String {
    format!("cannot log in to the issuer {issuer}")
}

fn unreachable(issuer: &str, error: &reqwest::Error) -> Failure {
    Failure::new(ExitCode::Unreachable, format!("{}: it cannot be reached", cannot(issuer)))
        .connection(error, "give the CA of the issuer with --issuer-ca")
}
