//! What every answer must be.

use apiserver_machinery::protobuf::{self, Field, Shape};
use bytes::Bytes;
use http::{HeaderMap, header};
use serde_json::Value;

use crate::finding::{Finding, Verdict, demand};

/// An answer, as far as it was read.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// It has no end, and only its beginning is here.
    pub(crate) is_stream: bool,
}

impl Answer {
    fn content_type(&self) -> &str {
        self.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(self.body.get(..2000).unwrap_or(&self.body)).into_owned()
    }

    /// The body in JSON; null when it is none.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// The parts of a `Status` that are looked at.
const STATUS: &[Field] = &[
    Field::new(2, "status", Shape::Text),
    Field::new(3, "message", Shape::Text),
    Field::new(4, "reason", Shape::Text),
    Field::new(6, "code", Shape::Integer),
];

/// What upstream, too, answers without a field to name.
const WITHOUT_A_FIELD: [&str; 3] = [
    "the server rejected our request due to an error in our request",
    "only strategic merge patches without directives",
    "json: cannot unmarshal",
];

/// Checks that a refusal is a `Status` that says what is wrong, and that nothing broke.
pub(crate) fn check(answer: &Answer) -> Verdict {
    if answer.code < 400 {
        let is_whole = !answer.is_stream && !answer.headers.contains_key(header::CONTENT_ENCODING);
        let is_json = answer.content_type() == "application/json" && is_whole && !answer.body.is_empty();
        return demand(!is_json || !answer.json().is_null(), || format!("not JSON: {}", answer.text()));
    }
    let code = answer.code;
    if answer.content_type().starts_with("text/plain") {
        let is_wrong = answer.body.is_empty() || code >= 500 && code != 503;
        return demand(!is_wrong, || format!("{code} in plain text: {:?}", answer.text()));
    }
    let status = status(answer)?;
    let text = |field: &str| status.get(field).and_then(Value::as_str).unwrap_or_default();
    let error = |what: &str| format!("{what}: {code} {}", answer.text());
    demand(status.get("code").and_then(Value::as_u64) == Some(u64::from(code)), || {
        error("another code inside")
    })?;
    demand(text("status") == "Failure", || error("a refusal that is no failure"))?;
    demand(!text("message").is_empty(), || error("a refusal that does not say why"))?;
    // Where upstream answers 500 to an error of the client, it gives no reason.
    demand(code != 500 || text("reason").is_empty(), || error("something broke"))?;
    let is_json = answer.content_type() == "application/json";
    if code != 422 || !is_json || WITHOUT_A_FIELD.iter().any(|known| text("message").contains(known)) {
        return Ok(());
    }
    let causes = status.pointer("/details/causes").and_then(Value::as_array).cloned().unwrap_or_default();
    let named =
        |cause: &Value| cause.get("field").and_then(Value::as_str).is_some_and(|field| !field.is_empty());
    demand(!causes.is_empty() && causes.iter().all(named), || error("an invalid object, and no field named"))
}

fn status(answer: &Answer) -> Result<Value, Finding> {
    let none = |why: String| Finding(format!("{} is no Status ({why}): {:?}", answer.code, answer.text()));
    let status: Value = match answer.content_type() {
        "application/json" => {
            serde_json::from_slice(&answer.body).map_err(|error| none(error.to_string()))?
        }
        "application/yaml" => {
            let text = std::str::from_utf8(&answer.body).map_err(|error| none(error.to_string()))?;
            serde_saphyr::from_str(text).map_err(|error| none(error.to_string()))?
        }
        "application/vnd.kubernetes.protobuf" => {
            protobuf::decode(&answer.body, "Status", STATUS).map_err(|error| none(error.to_string()))?
        }
        other => return Err(none(format!("content type {other:?}"))),
    };
    match status.get("kind").and_then(Value::as_str) {
        Some("Status") => Ok(status),
        _ => Err(none("another kind".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn answer(code: u16, media: &'static str, body: &str) -> Answer {
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(media))]);
        Answer { code, headers, body: Bytes::from(body.to_owned()), is_stream: false }
    }

    fn refusal(code: u16, rest: &str) -> Answer {
        let body = format!(r#"{{"kind":"Status","status":"Failure","code":{code},{rest}}}"#);
        answer(code, "application/json", &body)
    }

    #[test]
    fn refusals_that_say_why_are_good() {
        let cause = r#""message":"m","details":{"causes":[{"field":"spec.a","message":"m"}]}"#;
        let good = [
            refusal(400, r#""message":"m","reason":"BadRequest""#),
            refusal(500, r#""message":"content is not a list""#),
            refusal(422, cause),
            answer(400, "application/yaml", "kind: Status\nstatus: Failure\ncode: 400\nmessage: m\n"),
            answer(404, "text/plain; charset=utf-8", "404 page not found\n"),
            answer(200, "application/json", "{}"),
        ];
        for answer in good {
            assert_eq!(check(&answer), Ok(()), "{}", answer.text());
        }
    }

    #[test]
    fn all_others_are_found() {
        let bad = [
            refusal(400, r#""message":"","reason":"BadRequest""#),
            refusal(500, r#""message":"m","reason":"InternalError""#),
            refusal(422, r#""message":"m""#),
            refusal(422, r#""message":"m","details":{"causes":[{"message":"m","field":""}]}"#),
            answer(
                400,
                "application/json",
                r#"{"kind":"Status","status":"Failure","code":404,"message":"m"}"#,
            ),
            answer(400, "application/json", "{}"),
            answer(400, "application/json", ""),
            answer(500, "text/plain; charset=utf-8", "This request caused apiserver to panic."),
            answer(200, "application/json", "{"),
        ];
        for answer in bad {
            assert!(check(&answer).is_err(), "{}", answer.text());
        }
    }
}
