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

    /// Reports whether no labels match both selectors.
    pub(crate) fn excludes(&self, other: &Self) -> bool {
        self.terms.iter().any(|(key, term)| {
            other
                .terms
                .iter()
                .any(|(of, other)| of == key && (contradict(term, other) || contradict(other, term)))
        })
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

/// Reports whether no value of a label fulfils both terms. The terms are in one order only.
fn contradict(term: &Term, other: &Term) -> bool {
    match (term, other) {
        (Term::In(values), Term::In(others)) => !values.iter().any(|value| others.contains(value)),
        (Term::In(values), Term::NotIn(others)) => values.iter().all(|value| others.contains(value)),
        (Term::In(_) | Term::Exists, Term::DoesNotExist) => true,
        _ => false,
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
    fn selectors_exclude_each_other_only_by_a_contradiction() {
        let of = |key: &str, operator: &str, values: &[&str]| {
            let term = json!({"key": key, "operator": operator, "values": values});
            LabelSelection::read(&json!({"matchExpressions": [term]})).unwrap()
        };
        let (none, exists) = (of("a", "DoesNotExist", &[]), of("a", "Exists", &[]));
        let (one, two) = (of("a", "In", &["1"]), of("a", "In", &["1", "2"]));
        let table = [
            (&one, &two, false),
            (&one, &of("a", "In", &["2"]), true),
            (&one, &of("b", "In", &["2"]), false),
            (&two, &of("a", "NotIn", &["1"]), false),
            (&one, &of("a", "NotIn", &["1"]), true),
            (&one, &none, true),
            (&exists, &none, true),
            (&exists, &one, false),
            (&of("a", "NotIn", &["1"]), &none, false),
        ];
        for (first, second, expected) in table {
            assert_eq!(first.excludes(second), expected, "{first} {second}");
            assert_eq!(second.excludes(first), expected, "{second} {first}");
        }
    }

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
