//! Checks that every response of the server must pass.

use apiserver_machinery::protobuf::{self, Field, Shape};
use bytes::Bytes;
use http::{HeaderMap, header};
use serde_json::Value;

use crate::finding::{Finding, Verdict, demand};

/// Response, as far as it was read.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedResponse {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// True if the body is a stream, of which only the beginning was read.
    pub(crate) is_stream: bool,
}

impl ReceivedResponse {
    fn content_type(&self) -> &str {
        self.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(self.body.get(..2000).unwrap_or(&self.body)).into_owned()
    }

    /// Returns the body as JSON; null if it is not JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// Fields of a `Status` that are checked.
const STATUS: &[Field] = &[
    Field::new(2, "status", Shape::Text),
    Field::new(3, "message", Shape::Text),
    Field::new(4, "reason", Shape::Text),
    Field::new(6, "code", Shape::Integer),
];

/// Messages of validation errors for which upstream does not name a field, either.
const MESSAGES_WITHOUT_FIELD: [&str; 3] = [
    "the server rejected our request due to an error in our request",
    "only strategic merge patches without directives",
    "json: cannot unmarshal",
];

/// Text of a 500 that upstream returns for a path that has nothing after `watch`.
const PATH_WITHOUT_RESOURCE: &str = "failed to create RequestInfo";

/// Checks that an error response is a `Status` with a message, and that it is no internal error.
pub(crate) fn check(response: &ReceivedResponse) -> Verdict {
    if response.code < 400 {
        let is_whole = !response.is_stream && !response.headers.contains_key(header::CONTENT_ENCODING);
        let is_json = response.content_type() == "application/json" && is_whole && !response.body.is_empty();
        return demand(!is_json || !response.json().is_null(), || format!("not JSON: {}", response.text()));
    }
    let code = response.code;
    if response.content_type().starts_with("text/plain") {
        let is_known = code == 503 || response.text().contains(PATH_WITHOUT_RESOURCE);
        let is_wrong = response.body.is_empty() || code >= 500 && !is_known;
        return demand(!is_wrong, || format!("{code} in plain text: {:?}", response.text()));
    }
    let status = status(response)?;
    let text = |field: &str| status.get(field).and_then(Value::as_str).unwrap_or_default();
    let error = |what: &str| format!("{what}: {code} {}", response.text());
    demand(status.get("code").and_then(Value::as_u64) == Some(u64::from(code)), || {
        error("the Status has another code")
    })?;
    demand(text("status") == "Failure", || error("the Status of an error is not Failure"))?;
    demand(!text("message").is_empty(), || error("the Status of an error has no message"))?;
    // If upstream returns 500 for an error of the client, it gives no reason.
    demand(code != 500 || text("reason").is_empty(), || error("an internal error"))?;
    let is_json = response.content_type() == "application/json";
    if code != 422 || !is_json || MESSAGES_WITHOUT_FIELD.iter().any(|known| text("message").contains(known)) {
        return Ok(());
    }
    let causes = status.pointer("/details/causes").and_then(Value::as_array).cloned().unwrap_or_default();
    let named =
        |cause: &Value| cause.get("field").and_then(Value::as_str).is_some_and(|field| !field.is_empty());
    demand(!causes.is_empty() && causes.iter().all(named), || error("a validation error that names no field"))
}

fn status(response: &ReceivedResponse) -> Result<Value, Finding> {
    let none =
        |why: String| Finding(format!("{} is no Status ({why}): {:?}", response.code, response.text()));
    let status: Value = match response.content_type() {
        "application/json" => {
            serde_json::from_slice(&response.body).map_err(|error| none(error.to_string()))?
        }
        "application/yaml" => {
            let text = std::str::from_utf8(&response.body).map_err(|error| none(error.to_string()))?;
            serde_saphyr::from_str(text).map_err(|error| none(error.to_string()))?
        }
        "application/vnd.kubernetes.protobuf" => {
            protobuf::decode(&response.body, "Status", STATUS).map_err(|error| none(error.to_string()))?
        }
        other => return Err(none(format!("content type {other:?}"))),
    };
    match status.get("kind").and_then(Value::as_str) {
        Some("Status") => Ok(status),
        _ => Err(none("it has another kind".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn response(code: u16, media: &'static str, body: &str) -> ReceivedResponse {
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(media))]);
        ReceivedResponse { code, headers, body: Bytes::from(body.to_owned()), is_stream: false }
    }

    fn error_response(code: u16, rest: &str) -> ReceivedResponse {
        let body = format!(r#"{{"kind":"Status","status":"Failure","code":{code},{rest}}}"#);
        response(code, "application/json", &body)
    }

    #[test]
    fn errors_with_a_message_pass() {
        let cause = r#""message":"m","details":{"causes":[{"field":"spec.a","message":"m"}]}"#;
        let good = [
            error_response(400, r#""message":"m","reason":"BadRequest""#),
            error_response(500, r#""message":"content is not a list""#),
            error_response(422, cause),
            response(400, "application/yaml", "kind: Status\nstatus: Failure\ncode: 400\nmessage: m\n"),
            response(404, "text/plain; charset=utf-8", "404 page not found\n"),
            response(200, "application/json", "{}"),
        ];
        for response in good {
            assert_eq!(check(&response), Ok(()), "{}", response.text());
        }
    }

    #[test]
    fn all_other_errors_are_found() {
        let bad = [
            error_response(400, r#""message":"","reason":"BadRequest""#),
            error_response(500, r#""message":"m","reason":"InternalError""#),
            error_response(422, r#""message":"m""#),
            error_response(422, r#""message":"m","details":{"causes":[{"message":"m","field":""}]}"#),
            response(
                400,
                "application/json",
                r#"{"kind":"Status","status":"Failure","code":404,"message":"m"}"#,
            ),
            response(400, "application/json", "{}"),
            response(400, "application/json", ""),
            response(500, "text/plain; charset=utf-8", "This request caused apiserver to panic."),
            response(200, "application/json", "{"),
        ];
        for response in bad {
            assert!(check(&response).is_err(), "{}", response.text());
        }
    }
}
