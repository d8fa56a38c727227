//! Label and field selectors.

use serde_json::{Map, Value};

use super::failure::Failure;
use crate::json::{list, text};

/// One condition on a label.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
}

impl Requirement {
    fn accepts(&self, labels: Option<&Map<String, Value>>) -> bool {
        let held = |key: &str| labels.and_then(|labels| labels.get(key)?.as_str());
        let is_one = |key: &str, values: &[String]| {
            held(key).is_some_and(|value| values.iter().any(|wanted| wanted == value))
        };
        match self {
            Self::In(key, values) => is_one(key, values),
            Self::NotIn(key, values) => !is_one(key, values),
            Self::Exists(key) => held(key).is_some(),
            Self::Absent(key) => held(key).is_none(),
        }
    }
}

/// Selector of objects by labels and fields.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selector {
    labels: Vec<Requirement>,
    /// JSON pointer, wanted text, and whether it must be equal.
    fields: Vec<(String, String, bool)>,
}

/// Splits a label selector at commas outside of parentheses.
fn parts(selector: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let mut found: Vec<&str> = selector
        .split(|character: char| {
            match character {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            character == ',' && depth == 0
        })
        .map(str::trim)
        .collect();
    found.retain(|part| !part.is_empty());
    found
}

fn requirement(part: &str) -> Result<Requirement, Failure> {
    let owned = |text: &str| text.trim().to_owned();
    if let Some((left, values)) = part.split_once('(') {
        let values = values.trim_end().trim_end_matches(')').split(',').map(owned).collect();
        return match left.split_whitespace().collect::<Vec<_>>().as_slice() {
            [key, "in"] => Ok(Requirement::In((*key).to_owned(), values)),
            [key, "notin"] => Ok(Requirement::NotIn((*key).to_owned(), values)),
            _ => Err(Failure::bad_request(format!("unable to parse requirement: {part}"))),
        };
    }
    if let Some((key, value)) = part.split_once("!=") {
        return Ok(Requirement::NotIn(owned(key), vec![owned(value)]));
    }
    if let Some((key, value)) = part.split_once('=') {
        return Ok(Requirement::In(owned(key), vec![owned(value.trim_start_matches('='))]));
    }
    Ok(match part.strip_prefix('!') {
        Some(key) => Requirement::Absent(owned(key)),
        None => Requirement::Exists(owned(part)),
    })
}

impl Selector {
    /// Parses the parameters `labelSelector` and `fieldSelector`.
    pub(crate) fn parse(labels: &str, fields: &str) -> Result<Self, Failure> {
        let labels = parts(labels).into_iter().map(requirement).collect::<Result<_, _>>()?;
        let field = |part: &str| {
            let (key, value, equal) = match part.split_once("!=") {
                Some((key, value)) => (key, value, false),
                None => part
                    .split_once('=')
                    .map(|(key, value)| (key, value.trim_start_matches('='), true))
                    .ok_or_else(|| Failure::bad_request(format!("invalid selector: {part:?}")))?,
            };
            Ok((format!("/{}", key.trim().replace('.', "/")), value.trim().to_owned(), equal))
        };
        let fields = parts(fields).into_iter().map(field).collect::<Result<_, Failure>>()?;
        Ok(Self { labels, fields })
    }

    /// Reads a LabelSelector. An empty one accepts everything.
    pub(crate) fn of_label_selector(selector: &Value) -> Self {
        let mut labels = Vec::new();
        if let Some(Value::Object(exact)) = selector.get("matchLabels") {
            let value = |value: &Value| vec![value.as_str().unwrap_or_default().to_owned()];
            labels.extend(exact.iter().map(|(key, held)| Requirement::In(key.clone(), value(held))));
        }
        for expression in list(selector, "/matchExpressions") {
            let key = text(expression, "/key").to_owned();
            let values =
                list(expression, "/values").iter().filter_map(Value::as_str).map(str::to_owned).collect();
            labels.push(match text(expression, "/operator") {
                "In" => Requirement::In(key, values),
                "NotIn" => Requirement::NotIn(key, values),
                "Exists" => Requirement::Exists(key),
                _ => Requirement::Absent(key),
            });
        }
        Self { labels, fields: Vec::new() }
    }

    pub(crate) fn accepts(&self, object: &Value) -> bool {
        let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
        self.labels.iter().all(|requirement| requirement.accepts(labels))
            && self.fields.iter().all(|(pointer, wanted, equal)| (text(object, pointer) == wanted) == *equal)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_accept_objects_by_labels_and_fields() {
        let object = json!({"metadata": {"name": "a", "labels": {"tier": "web", "x": "1"}}, "spec": {"nodeName": "n"}});
        let accepts = |labels: &str, fields: &str| Selector::parse(labels, fields).unwrap().accepts(&object);
        assert!(accepts("", ""));
        assert!(accepts("tier=web,x==1", "metadata.name=a,spec.nodeName=n"));
        assert!(accepts("tier in (web, db),!y,x", "spec.nodeName!=m"));
        assert!(!accepts("tier notin (web,db)", ""));
        assert!(!accepts("tier!=web", ""));
        assert!(!accepts("", "spec.nodeName=m"));
        let selector = json!({"matchLabels": {"tier": "web"}, "matchExpressions": [{"key": "y", "operator": "DoesNotExist"}]});
        assert!(Selector::of_label_selector(&selector).accepts(&object));
    }
}
