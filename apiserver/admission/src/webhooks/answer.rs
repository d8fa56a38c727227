//! Answer of a webhook: decoding, and the refusal that it says.

use crate::one_request::MOST_WARNINGS;
use apiserver_machinery::status::ApiError;
use serde_json::{Map, Value};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::value::{entries, text};

/// Group and version of the review.
const VERSION: &str = "admission.k8s.io/v1";

/// Kind of the review.
const KIND: &str = "AdmissionReview";

/// Valid answer of a webhook.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Answer {
    pub(crate) warnings: Vec<String>,
    pub(crate) annotations: Vec<(String, String)>,
    /// JSON patch; `None` if there are no changes.
    pub(crate) patch: Option<Value>,
    /// `Status` of a refusal; `None` if the write is allowed.
    pub(crate) refusal: Option<Value>,
}

/// Reads the answer to the review with this uid.
///
/// # Errors
/// The text says what is wrong with it.
pub(super) fn read(body: &[u8], uid: &str, is_mutating: bool) -> Result<Answer, String> {
    let review: Value = serde_json::from_slice(body).map_err(|error| format!("it is no JSON: {error}"))?;
    let found = (text(&review, "apiVersion"), text(&review, "kind"));
    if found != (VERSION, KIND) {
        return Err(format!(
            "expected webhook response of {VERSION}, Kind={KIND}, got {}, Kind={}",
            found.0, found.1
        ));
    }
    let response = review.get("response").filter(|it| it.is_object()).ok_or("webhook response was absent")?;
    let given = text(response, "uid");
    if given != uid {
        return Err(format!("expected response.uid={uid:?}, got {given:?}"));
    }
    let is_allowed = response.get("allowed").and_then(Value::as_bool).unwrap_or(false);
    let status = || response.get("status").filter(|it| it.is_object()).cloned();
    Ok(Answer {
        warnings: entries(response, "warnings")
            .iter()
            .filter_map(Value::as_str)
            .take(MOST_WARNINGS)
            .map(str::to_owned)
            .collect(),
        annotations: annotations(response.get("auditAnnotations").and_then(Value::as_object)),
        patch: patch(response, is_mutating)?,
        refusal: (!is_allowed).then(|| status().unwrap_or_else(|| Value::Object(Map::new()))),
    })
}

fn annotations(given: Option<&Map<String, Value>>) -> Vec<(String, String)> {
    let texts = given.into_iter().flatten();
    texts.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// Returns the patch of an answer.
fn patch(response: &Value, is_mutating: bool) -> Result<Option<Value>, String> {
    let patch = text(response, "patch");
    let of = response.get("patchType").and_then(Value::as_str);
    match (is_mutating, patch.is_empty(), of) {
        (_, true, None) => return Ok(None),
        (false, false, _) => return Err("validating webhook may not return response.patch".to_owned()),
        (false, true, Some(_)) => {
            return Err("validating webhook may not return response.patchType".to_owned());
        }
        (true, false, None) => {
            return Err("webhook returned response.patch but not response.patchType".to_owned());
        }
        (true, true, Some(_)) => {
            return Err("webhook returned response.patchType but not response.patch".to_owned());
        }
        (true, false, Some("JSONPatch")) => {}
        (true, false, Some(other)) => {
            return Err(format!("webhook returned invalid response.patchType of {other:?}"));
        }
    }
    let undecodable = |error: &dyn std::fmt::Display| format!("response.patch cannot be decoded: {error}");
    let document = STANDARD.decode(patch).map_err(|error| undecodable(&error))?;
    let document: Value = serde_json::from_slice(&document).map_err(|error| undecodable(&error))?;
    let is_empty = document.as_array().is_some_and(Vec::is_empty);
    Ok((!is_empty).then_some(document))
}

/// Returns the refusal of a webhook. A code below 400 is none of a refusal.
pub(super) fn refusal(hook: &str, status: &Value) -> ApiError {
    let code = status.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
    let (message, reason) = (text(status, "message"), text(status, "reason"));
    let denied = format!("admission webhook {hook:?} denied the request");
    let message = match (message, reason) {
        ("", "") => format!("{denied} without explanation"),
        ("", why) | (why, _) => format!("{denied}: {why}"),
    };
    ApiError {
        code: code.filter(|code| (400..600).contains(code)).unwrap_or(400),
        reason: reason.to_owned().into(),
        details: status.get("details").filter(|it| it.is_object()).cloned().unwrap_or_default(),
        ..ApiError::untyped(400, message)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(response: &Value, is_mutating: bool) -> Result<Answer, String> {
        let review = json!({"apiVersion": VERSION, "kind": KIND, "response": response});
        read(review.to_string().as_bytes(), "7", is_mutating)
    }

    #[test]
    fn an_answer_is_checked_before_it_counts() {
        let patch = STANDARD.encode(r#"[{"op": "remove", "path": "/a"}]"#);
        let found = answer(
            &json!({"uid": "7", "allowed": true, "warnings": ["w"], "auditAnnotations": {"k": "v"},
            "patchType": "JSONPatch", "patch": patch}),
            true,
        )
        .unwrap();
        assert_eq!(found.warnings, ["w"]);
        assert_eq!(found.annotations, [("k".to_owned(), "v".to_owned())]);
        assert!(found.patch.is_some() && found.refusal.is_none());
        let empty = STANDARD.encode("[]");
        let none =
            answer(&json!({"uid": "7", "allowed": true, "patchType": "JSONPatch", "patch": empty}), true);
        assert_eq!(none.unwrap().patch, None);
        for (response, is_mutating, expected) in [
            (json!(null), true, "webhook response was absent"),
            (json!({"uid": "8"}), true, "expected response.uid=\"7\", got \"8\""),
            (json!({"uid": "7", "patch": patch}), true, "response.patch but not response.patchType"),
            (
                json!({"uid": "7", "patchType": "JSONPatch"}),
                true,
                "response.patchType but not response.patch",
            ),
            (json!({"uid": "7", "patchType": "Merge", "patch": patch}), true, "invalid response.patchType"),
            (json!({"uid": "7", "patchType": "JSONPatch", "patch": "%"}), true, "cannot be decoded"),
            (
                json!({"uid": "7", "patchType": "JSONPatch", "patch": patch}),
                false,
                "may not return response.patch",
            ),
        ] {
            let error = answer(&response, is_mutating).unwrap_err();
            assert!(error.contains(expected), "{response}: {error}");
        }
        let other = json!({"apiVersion": "admission.k8s.io/v1beta1", "kind": KIND}).to_string();
        assert!(read(other.as_bytes(), "7", true).unwrap_err().contains("got admission.k8s.io/v1beta1"));
        assert!(read(b"<html>", "7", true).unwrap_err().contains("no JSON"));
    }

    #[test]
    fn a_refusal_has_the_code_and_the_text_of_the_webhook() {
        for (status, code, reason, message) in [
            (json!({}), 400, "", "admission webhook \"h\" denied the request without explanation"),
            (json!({"message": "no"}), 400, "", "admission webhook \"h\" denied the request: no"),
            (
                json!({"reason": "Forbidden", "code": 403}),
                403,
                "Forbidden",
                "admission webhook \"h\" denied the request: Forbidden",
            ),
            (
                json!({"message": "no", "reason": "Team budget", "code": 409}),
                409,
                "Team budget",
                "admission webhook \"h\" denied the request: no",
            ),
            (
                json!({"message": "no", "code": 200}),
                400,
                "",
                "admission webhook \"h\" denied the request: no",
            ),
            (
                json!({"message": "no", "code": 9999}),
                400,
                "",
                "admission webhook \"h\" denied the request: no",
            ),
        ] {
            let error = refusal("h", &status);
            assert_eq!(
                (error.code, &*error.reason, error.message.as_str()),
                (code, reason, message),
                "{status}"
            );
        }
        let details = json!({"causes": [{"message": "c"}]});
        assert_eq!(refusal("h", &json!({"details": details})).details, details);
    }
}
