//! Comparison of two recorded responses, field by field.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::Value;

use crate::transcript::{Exchange, Transcript};

/// One field whose value differs from the recorded one.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// `area/case`.
    pub case: String,
    /// Number of the request in its case, counted from 1.
    pub step: usize,
    /// The request line.
    pub request: String,
    /// Path of the field: `status`, `headers.Warning`, `body.metadata.labels.a`, `body.items[0].spec`.
    pub field: String,
    /// Value of the real kube-apiserver; `None` if the field is absent.
    pub expected: Option<Value>,
    /// Value of the server under test; `None` if the field is absent.
    pub got: Option<Value>,
}

/// Returns every difference between the recorded responses and the received ones.
pub fn compare(case: &str, expected: &Transcript, got: &Transcript) -> Vec<Difference> {
    let mut differences = Vec::new();
    for index in 0..expected.len().max(got.len()) {
        let sides = [expected.get(index), got.get(index)];
        let request = sides.into_iter().flatten().next().map(|one| one.request.clone()).unwrap_or_default();
        let mut fields = Vec::new();
        let [expected, got] = sides.map(|side| side.map(shown));
        walk("", expected.as_ref(), got.as_ref(), &mut fields);
        differences.extend(fields.into_iter().map(|(field, expected, got)| Difference {
            case: case.to_owned(),
            step: index + 1,
            request: request.clone(),
            field,
            expected,
            got,
        }));
    }
    differences
}

fn shown(exchange: &Exchange) -> Value {
    serde_json::to_value(exchange).unwrap_or_default()
}

type FieldDifference = (String, Option<Value>, Option<Value>);

fn walk(path: &str, expected: Option<&Value>, got: Option<&Value>, into: &mut Vec<FieldDifference>) {
    match (expected, got) {
        (Some(Value::Object(expected)), Some(Value::Object(got))) => {
            let keys: BTreeSet<&String> = expected.keys().chain(got.keys()).collect();
            for key in keys {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                walk(&path, expected.get(key), got.get(key), into);
            }
        }
        (Some(Value::Array(expected)), Some(Value::Array(got))) => {
            for index in 0..expected.len().max(got.len()) {
                walk(&format!("{path}[{index}]"), expected.get(index), got.get(index), into);
            }
        }
        (expected, got) if expected == got => {}
        (expected, got) => into.push((path.to_owned(), expected.cloned(), got.cloned())),
    }
}

/// Longest value that a report shows in full, in characters.
const LONGEST: usize = 600;

/// Formats differences for people: the case and the request once, then the fields.
pub fn report(differences: &[Difference]) -> String {
    let mut text = String::new();
    let mut last = None;
    for difference in differences {
        let here = (&difference.case, difference.step);
        if last != Some(here) {
            let _ = writeln!(text, "\n{} step {}: {}", difference.case, difference.step, difference.request);
            last = Some(here);
        }
        let side = |value: &Option<Value>| match value {
            None => "(nothing)".to_owned(),
            Some(value) => cut(&value.to_string()),
        };
        let _ = writeln!(
            text,
            "  {}\n    real:    {}\n    capstan: {}",
            difference.field,
            side(&difference.expected),
            side(&difference.got)
        );
    }
    text
}

fn cut(text: &str) -> String {
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    text.chars().take(LONGEST).chain("…".chars()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn exchange(body: Value) -> Exchange {
        Exchange { request: "GET /".to_owned(), status: 200, headers: Default::default(), body }
    }

    #[test]
    fn differing_fields_are_named() {
        let real = vec![exchange(json!({"a": {"b": 1, "c": [1, 2]}, "d": "x"}))];
        let ours = vec![exchange(json!({"a": {"b": 2, "c": [1]}, "d": "x", "e": null}))];
        let fields: Vec<String> =
            compare("x/y", &real, &ours).into_iter().map(|difference| difference.field).collect();
        assert_eq!(fields, ["body.a.b", "body.a.c[1]", "body.e"]);
        assert_eq!(compare("x/y", &real, &real), []);
        assert_eq!(compare("x/y", &real, &Vec::new()).len(), 1, "a missing answer is a difference");
    }
}
