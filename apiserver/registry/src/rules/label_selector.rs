//! Validation of label selectors within objects.

use serde_json::Value;

use crate::rules::names;

/// Returns the error of a selector; `None` if it is valid or absent.
pub(crate) fn error(selector: Option<&Value>) -> Option<String> {
    let part = |field: &str| selector.and_then(|selector| selector.get(field));
    for (key, value) in part("matchLabels").and_then(Value::as_object).into_iter().flatten() {
        let found = key_error(key).or_else(|| value_error(value, 0));
        if found.is_some() {
            return found;
        }
    }
    part("matchExpressions").and_then(Value::as_array).into_iter().flatten().find_map(term_error)
}

/// Reports whether a selector matches everything.
pub(crate) fn is_empty(selector: Option<&Value>) -> bool {
    let count = |field: &str| match selector.and_then(|selector| selector.get(field)) {
        Some(Value::Object(labels)) => labels.len(),
        Some(Value::Array(terms)) => terms.len(),
        _ => 0,
    };
    count("matchLabels") + count("matchExpressions") == 0
}

fn term_error(term: &Value) -> Option<String> {
    let text = |field: &str| term.get(field).and_then(Value::as_str).unwrap_or_default();
    let none = Vec::new();
    let values = term.get("values").and_then(Value::as_array).unwrap_or(&none);
    let shown = || Value::Array(values.clone());
    let wrong = match (text("operator"), values.is_empty()) {
        ("In" | "NotIn", true) => Some("for 'in', 'notin' operators, values set can't be empty"),
        ("Exists" | "DoesNotExist", false) => Some("values set must be empty for exists and does not exist"),
        ("In" | "NotIn" | "Exists" | "DoesNotExist", _) => None,
        (other, _) => return Some(format!("{other:?} is not a valid label selector operator")),
    };
    key_error(text("key"))
        .or_else(|| wrong.map(|wrong| format!("values: Invalid value: {}: {wrong}", shown())))
        .or_else(|| values.iter().enumerate().find_map(|(index, value)| value_error(value, index)))
}

fn key_error(key: &str) -> Option<String> {
    let errors = names::label_key(key);
    (!errors.is_empty()).then(|| format!("key: Invalid value: {key:?}: {}", errors.join("; ")))
}

fn value_error(value: &Value, index: usize) -> Option<String> {
    let errors = names::label_value(value.as_str().unwrap_or_default());
    (!errors.is_empty()).then(|| format!("values[{index}]: Invalid value: {value}: {}", errors.join("; ")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_requirement_of_a_selector_is_validated() {
        let term = |key: &str, operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        for (selector, expected) in [
            (json!({}), None),
            (json!({"matchLabels": {"a": "b"}}), None),
            (term("a", "In", &["b"]), None),
            (term("a", "Exists", &[]), None),
            (term("a", "In", &[]), Some("can't be empty")),
            (term("a", "DoesNotExist", &["b"]), Some("must be empty")),
            (term("a", "Like", &["b"]), Some("\"Like\" is not a valid label selector operator")),
            (term("-", "In", &["b"]), Some("key: Invalid value: \"-\"")),
            (term("a", "In", &["b", "c d"]), Some("values[1]: Invalid value: \"c d\"")),
            (json!({"matchLabels": {"a": "b c"}}), Some("values[0]")),
        ] {
            let found = error(Some(&selector));
            assert_eq!(found.is_some(), expected.is_some(), "{selector}: {found:?}");
            assert!(expected.is_none_or(|part| found.unwrap_or_default().contains(part)), "{selector}");
        }
        assert!(is_empty(None) && is_empty(Some(&json!({"matchLabels": {}}))));
        assert!(!is_empty(Some(&json!({"matchLabels": {"a": "b"}}))));
    }
}
