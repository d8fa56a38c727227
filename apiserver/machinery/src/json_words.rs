//! What is said of JSON that cannot be read, in the words of Go's decoder: clients and people know
//! them, and search for them.

use serde_json::Value;

/// What is wrong with a text that is not JSON.
pub fn fault(error: &serde_json::Error) -> String {
    if error.is_eof() { "unexpected end of JSON input".to_owned() } else { error.to_string() }
}

/// The kind of a value, as Go names it in an error.
pub fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unfinished_text_is_told_from_a_wrong_one() {
        let fault_of = |text: &str| fault(&serde_json::from_str::<Value>(text).unwrap_err());
        for text in ["", "{", "[1,"] {
            assert_eq!(fault_of(text), "unexpected end of JSON input", "{text:?}");
        }
        assert!(fault_of("nux").contains("line 1"), "where it is wrong is told");
        assert_eq!(kind(&Value::from(1.5)), "number");
    }
}
