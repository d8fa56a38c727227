//! Call of a webhook.

use std::fmt;

use apiserver_machinery::status::ApiError;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Response, StatusCode};
use serde_json::{Value, json};

use super::answer::{self, Answer};
use super::hook::{Due, Hook};
use crate::host::{HostCluster, HostContact};
use crate::snapshot::Source;

/// Largest answer that is read. Unit: bytes.
const MOST: usize = 1024 * 1024;

/// Failure of a call: the webhook did not decide.
#[derive(Debug)]
pub(crate) struct CallError {
    hook: String,
    reason: String,
    remedy: String,
    has_answered: bool,
    /// True if the webhook is one of a host cluster that does not answer.
    is_outage: bool,
}

/// Reason why there is no answer, and whether the webhook refused the call.
struct NoAnswer {
    why: String,
    is_refusal: bool,
}

impl From<String> for NoAnswer {
    fn from(why: String) -> Self {
        Self { why, is_refusal: false }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "failed calling webhook {:?}: {}", self.hook, self.reason)
    }
}

impl CallError {
    /// Returns true if the webhook was reached and answered, although its answer cannot be used.
    pub(crate) const fn has_answered(&self) -> bool {
        self.has_answered
    }

    /// Returns the response to a write that fails with the webhook: it names the webhook, the cause and the remedy.
    pub(crate) fn response(&self) -> ApiError {
        if self.is_outage {
            let remedy = "or give yourself the permission to bypass admissionwebhooks.capstan.dev";
            return ApiError::silent_host(format!(
                "{self}. The host cluster does not answer: wait until it does, {remedy}"
            ));
        }
        ApiError::internal(format!("{self}. {}", self.remedy))
    }
}

impl Hook {
    /// Calls the webhook for a write.
    pub(crate) async fn call(
        &self,
        due: &Due,
        is_mutating: bool,
        host: Option<&dyn HostCluster>,
    ) -> Result<Answer, CallError> {
        let uid = uuid::Uuid::new_v4().to_string();
        let review = review(&uid, due);
        let body = self.send(&review, host).await.map_err(|NoAnswer { why, is_refusal }| {
            let failed = self.failed(format!("failed to call webhook: {why}"), is_refusal);
            let is_down = || host.is_some_and(|host| host.contact() == HostContact::Down);
            CallError { is_outage: self.source == Source::Host && !is_refusal && is_down(), ..failed }
        })?;
        answer::read(&body, &uid, is_mutating)
            .map_err(|why| self.failed(format!("received invalid webhook response: {why}"), true))
    }

    fn failed(&self, reason: String, has_answered: bool) -> CallError {
        let (kind, name) = (self.kind, &self.configuration);
        let remedy = match self.source {
            Source::Objects => {
                format!("Repair the server of the webhook, or change or delete {kind} {name:?}")
            }
            Source::Files => {
                format!("Repair the server of the webhook, or change the file with {kind} {name:?}")
            }
            Source::Host => format!(
                "Repair the server of the webhook, or change or delete {kind} {name:?} in the host cluster"
            ),
        };
        CallError { hook: self.name.clone(), reason, remedy, has_answered, is_outage: false }
    }

    async fn send(&self, review: &Value, host: Option<&dyn HostCluster>) -> Result<Vec<u8>, NoAnswer> {
        // Upstream names its deadline to the webhook, too.
        let of = |url: &str| format!("{url}?timeout={}s", self.timeout.as_secs());
        let (url, shown) = (of(&self.target.url), of(&self.target.shown));
        let client = self.target.client(host).await.map_err(|why| match self.target.key.service {
            Some(_) => format!("Post {shown:?}: {why}"),
            None => why,
        })?;
        let failed = |error: &reqwest::Error| format!("Post {shown:?}: {}", cause(error));
        let request = client.post(&url).timeout(self.timeout).header(CONTENT_TYPE, "application/json");
        let response = request.body(review.to_string()).send().await.map_err(|error| failed(&error))?;
        let status = response.status();
        let body = read(response).await.map_err(|why| match why {
            Unread::Failed(error) => failed(&error),
            Unread::TooLarge => format!("Post {shown:?}: the response is larger than {MOST} bytes"),
        })?;
        if status.is_success() {
            return Ok(body);
        }
        // A server that is overloaded or starts answers with 5xx.
        Err(NoAnswer { why: words(status, &body), is_refusal: !status.is_server_error() })
    }
}

/// Reason why a body was not read.
enum Unread {
    Failed(reqwest::Error),
    TooLarge,
}

async fn read(mut response: Response) -> Result<Vec<u8>, Unread> {
    let mut body = Vec::new();
    while let Some(part) = response.chunk().await.map_err(Unread::Failed)? {
        body.extend_from_slice(&part);
        if body.len() > MOST {
            return Err(Unread::TooLarge);
        }
    }
    Ok(body)
}

fn review(uid: &str, due: &Due) -> Value {
    let mut request = due.request.clone();
    request["uid"] = json!(uid);
    request["object"] = due.objects.object.clone().unwrap_or_default();
    request["oldObject"] = due.objects.old.clone().unwrap_or_default();
    json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request})
}

/// Returns the innermost cause of an error: the outer ones only name the URL.
fn cause(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "context deadline exceeded".to_owned();
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// Returns upstream's words for a response that is no success.
fn words(status: StatusCode, body: &[u8]) -> String {
    /// Longest excerpt of a body. Unit: characters.
    const LONGEST: usize = 200;
    let text: String = String::from_utf8_lossy(body).trim().chars().take(LONGEST).collect();
    match status.as_u16() {
        300..=399 => format!("the webhook redirects with {status}, and redirects are not followed"),
        400 => "the server rejected our request for an unknown reason".to_owned(),
        401 => "the server has asked for the client to provide credentials".to_owned(),
        404 => "the server could not find the requested resource".to_owned(),
        405 => "the server does not allow this method on the requested resource".to_owned(),
        500 => format!("an error on the server ({text:?}) has prevented the request from succeeding"),
        503 => "the server is currently unable to handle the request".to_owned(),
        code => {
            format!("the server responded with the status code {code} but did not return more information")
        }
    }
}
