//! Label selectors within objects: parser and matching.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::rules::label_selector;

/// Term of a selector.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Term {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
}

/// Parsed selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LabelSelection {
    terms: Vec<(String, Term)>,
}

impl LabelSelection {
    /// Parses `matchLabels` and `matchExpressions`. The error is the text for the user.
    pub(crate) fn read(selector: &Value) -> Result<Self, String> {
        if let Some(error) = label_selector::error(Some(selector)) {
            return Err(error);
        }
        let mut terms = Vec::new();
        let labels: BTreeMap<_, _> =
            selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten().collect();
        for (key, value) in labels {
            terms.push((key.clone(), Term::In(vec![value.as_str().unwrap_or_default().to_owned()])));
        }
        let expressions = selector.get("matchExpressions").and_then(Value::as_array);
        for expression in expressions.into_iter().flatten() {
            terms.push(read_expression(expression)?);
        }
        terms.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(Self { terms })
    }

    /// Reports whether the selector matches everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Reports whether the selector matches an object with these labels.
    pub(crate) fn matches(&self, labels: Option<&Map<String, Value>>) -> bool {
        self.terms.iter().all(|(key, term)| {
            let found = labels.and_then(|labels| labels.get(key)).and_then(Value::as_str);
            let is_among =
                |values: &[String]| found.is_some_and(|found| values.iter().any(|value| value == found));
            match term {
                Term::In(values) => is_among(values),
                Term::NotIn(values) => !is_among(values),
                Term::Exists => found.is_some(),
                Term::DoesNotExist => found.is_none(),
            }
        })
    }
}

impl std::fmt::Display for LabelSelection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, (key, term)) in self.terms.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            match term {
                Term::In(values) if values.len() == 1 => write!(f, "{comma}{key}={}", values.concat())?,
                Term::In(values) => write!(f, "{comma}{key} in ({})", values.join(","))?,
                Term::NotIn(values) => write!(f, "{comma}{key} notin ({})", values.join(","))?,
                Term::Exists => write!(f, "{comma}{key}")?,
                Term::DoesNotExist => write!(f, "{comma}!{key}")?,
            }
        }
        Ok(())
    }
}

fn read_expression(expression: &Value) -> Result<(String, Term), String> {
    let text = |field: &str| expression.get(field).and_then(Value::as_str).unwrap_or_default();
    let values = expression.get("values").and_then(Value::as_array).into_iter().flatten();
    let mut values: Vec<String> = values.filter_map(Value::as_str).map(str::to_owned).collect();
    values.sort();
    let term = match text("operator") {
        "In" => Term::In(values),
        "NotIn" => Term::NotIn(values),
        "Exists" => Term::Exists,
        "DoesNotExist" => Term::DoesNotExist,
        other => return Err(format!("{other:?} is not a valid label selector operator")),
    };
    Ok((text("key").to_owned(), term))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_requirements_must_match() {
        let selector = json!({"matchLabels": {"a": "1"}, "matchExpressions": [
            {"key": "b", "operator": "In", "values": ["y", "x"]}, {"key": "c", "operator": "DoesNotExist"},
            {"key": "d", "operator": "NotIn", "values": ["z"]}, {"key": "e", "operator": "Exists"}]});
        let selector = LabelSelection::read(&selector).unwrap();
        assert_eq!(selector.to_string(), "a=1,b in (x,y),!c,d notin (z),e");
        for (labels, expected) in [
            (json!({"a": "1", "b": "x", "e": ""}), true),
            (json!({"a": "1", "b": "x", "d": "y", "e": ""}), true),
            (json!({"a": "2", "b": "x", "e": ""}), false),
            (json!({"a": "1", "b": "z", "e": ""}), false),
            (json!({"a": "1", "b": "x", "c": "", "e": ""}), false),
            (json!({"a": "1", "b": "x", "d": "z", "e": ""}), false),
            (json!({"a": "1", "b": "x"}), false),
        ] {
            assert_eq!(selector.matches(labels.as_object()), expected, "{labels}");
        }
        assert!(LabelSelection::read(&json!({})).unwrap().is_empty());
    }

    #[test]
    fn an_invalid_requirement_is_refused() {
        for (operator, values, expected) in [
            ("In", json!([]), "values set can't be empty"),
            ("Exists", json!(["a"]), "values set must be empty"),
            ("Like", json!(["a"]), "\"Like\" is not a valid label selector operator"),
        ] {
            let selector =
                json!({"matchExpressions": [{"key": "k", "operator": operator, "values": values}]});
            let error = LabelSelection::read(&selector).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
