//! Error text of a refused call: the cloud's own message, from the body of the response.
//!
//! Every service encodes it differently, and a proxy in front of one responds in HTML.

use serde_json::Value;

/// Longest message, in characters. A broken service may dump a much longer text.
const LONGEST: usize = 600;

/// Text of a refusal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Words {
    /// Message for people; never empty.
    pub(crate) message: String,
    /// The name of the error, if the service gave one (Neutron's `type`).
    pub(crate) kind: Option<String>,
    /// The body is one of a JSON API.
    pub(crate) json: bool,
}

/// Reads the body of a refusal. `status` is the fallback, e.g. `502 Bad Gateway`.
pub(crate) fn words(body: &[u8], status: &str) -> Words {
    if let Ok(value) = serde_json::from_slice::<Value>(body) {
        let (message, kind) = from_json(&value);
        let message = message.map_or_else(|| format!("the cloud answered {status}"), |m| shorten(&m));
        return Words { message, kind, json: true };
    }
    let text = String::from_utf8_lossy(body);
    let message = if text.trim_start().starts_with('<') { from_html(&text) } else { shorten(&text) };
    let message = if message.is_empty() { format!("the cloud answered {status}") } else { message };
    Words { message, kind: None, json: false }
}

/// `{"badRequest": {"message"}}`, `{"NeutronError": {"message", "type"}}`, `{"error": {"message"}}`,
/// `{"message"}`, `{"NeutronError": "text"}`, `{"faultstring"}`, `{"errors": [{"detail"}]}`.
fn from_json(value: &Value) -> (Option<String>, Option<String>) {
    let Some(object) = value.as_object() else { return (None, None) };
    let direct = ["message", "faultstring", "detail", "title"];
    let text = |value: &Value| direct.iter().find_map(|key| value.get(key)?.as_str()).map(str::to_owned);
    if let Some(message) = text(value) {
        return (Some(message), None);
    }
    for inner in object.values() {
        let inner = inner.as_array().and_then(|all| all.first()).unwrap_or(inner);
        if let Some(message) = text(inner) {
            let kind = inner.get("type").and_then(Value::as_str).map(str::to_owned);
            return (Some(message), kind);
        }
        if let Some(message) = inner.as_str() {
            return (Some(message.to_owned()), None);
        }
    }
    (None, None)
}

/// Returns the text of a page without its markup and its title, which repeats the heading.
fn from_html(page: &str) -> String {
    let body = page.find("<body").and_then(|at| page.get(at..)).unwrap_or(page);
    let mut text = String::new();
    let mut inside = false;
    for character in body.chars() {
        match character {
            '<' => inside = true,
            '>' => {
                inside = false;
                text.push(' ');
            }
            _ if inside => {}
            other => text.push(other),
        }
    }
    shorten(&text)
}

/// Removes quoted values, which may be secrets: Nova repeats the whole user data.
fn without_quotations(text: &str) -> &str {
    let secret = text.find("user_data").and_then(|_| text.find("Value:"));
    secret.and_then(|at| text.get(..at)).map_or(text, str::trim_end)
}

/// Returns one line of limited length, without the line breaks of webob, which are even in JSON.
fn shorten(text: &str) -> String {
    let text = without_quotations(text).replace("<br />", " ");
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}...", line.get(..at).unwrap_or_default()),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_messages_of_every_service_are_parsed() {
        let table = [
            (r#"{"badRequest": {"code": 400, "message": "no such flavor"}}"#, "no such flavor", None),
            (
                r#"{"NeutronError": {"type": "OverQuota", "message": "Quota exceeded", "detail": ""}}"#,
                "Quota exceeded",
                Some("OverQuota"),
            ),
            (r#"{"NeutronError": "plain"}"#, "plain", None),
            (
                r#"{"badRequest": {"message": "Invalid input for field/attribute user_data. Value: c2VjcmV0. 'c2VjcmV0' is too long"}}"#,
                "Invalid input for field/attribute user_data.",
                None,
            ),
            (r#"{"itemNotFound": {"message": "No.<br /><br />\n\n"}}"#, "No.", None),
            (r#"{"error": {"code": 401, "message": "no", "title": "Unauthorized"}}"#, "no", None),
            (r#"{"message": "limit reached"}"#, "limit reached", None),
            (r#"{"errors": [{"status": 404, "detail": "gone"}]}"#, "gone", None),
            ("[]", "the cloud answered 500 Oops", None),
            ("", "the cloud answered 500 Oops", None),
            ("plain\n text", "plain text", None),
            (
                "<html><head><title>404 Not Found</title></head><body><h1>404 Not Found</h1>\n\
                 No image found with ID x<br /><br />\n</body></html>",
                "404 Not Found No image found with ID x",
                None,
            ),
        ];
        for (body, message, kind) in table {
            let read = words(body.as_bytes(), "500 Oops");
            assert_eq!((read.message.as_str(), read.kind.as_deref()), (message, kind), "{body}");
        }
    }

    #[test]
    fn a_long_message_is_truncated() {
        let read = words("é".repeat(5000).as_bytes(), "500");
        assert_eq!(read.message.chars().count(), LONGEST + 3);
    }
}
