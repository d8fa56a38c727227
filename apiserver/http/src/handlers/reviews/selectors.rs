//! Selectors of a review: `fieldSelector` and `labelSelector`, in the form that a request for a collection has.

use apiserver_machinery::metadata::{label_key_errors, label_value_errors};
use apiserver_machinery::selectors::{FieldSelector, LabelSelector};
use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::{Value, json};

use super::text;

/// Fields of the resource attributes with a selector.
pub(super) const FIELDS: [&str; 2] = [OF_FIELDS, OF_LABELS];

const OF_FIELDS: &str = "fieldSelector";

const OF_LABELS: &str = "labelSelector";

/// Selector of a review, as far as it can be read. A request must meet all its terms. Without one of them the review is
/// about a broader request, so it allows no more.
#[derive(Debug, PartialEq, Eq)]
struct Selector {
    /// Form in the query of a request; empty for none.
    text: String,
    /// Set if a term cannot be read.
    is_cut: bool,
}

impl Selector {
    fn of_fields(resource: &Value) -> Self {
        Self::read(&resource[OF_FIELDS], |raw| FieldSelector::read(raw).is_ok(), field_term)
    }

    fn of_labels(resource: &Value) -> Self {
        Self::read(&resource[OF_LABELS], |raw| LabelSelector::parse(raw).is_ok(), label_term)
    }

    fn read(
        selector: &Value,
        is_readable: impl Fn(&str) -> bool,
        term: impl Fn(&Value) -> Option<String>,
    ) -> Self {
        let requirements = requirements(selector);
        if requirements.is_empty() {
            let raw = text(selector, "rawSelector");
            let is_cut = !is_readable(&raw);
            return Self { text: if is_cut { String::new() } else { raw }, is_cut };
        }
        let terms: Vec<String> = requirements.iter().filter_map(term).collect();
        Self { text: terms.join(","), is_cut: terms.len() < requirements.len() }
    }

    /// Returns the text of upstream for a selector that is not taken as a whole.
    fn error(&self, field: &str) -> Option<String> {
        let how = if self.text.is_empty() { "ignored" } else { "partially ignored" };
        self.is_cut.then(|| format!("spec.resourceAttributes.{field} {how} due to parse error"))
    }
}

fn requirements(selector: &Value) -> &[Value] {
    selector.get("requirements").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Returns the values of a requirement; `None` if one is no text.
fn values(requirement: &Value) -> Option<Vec<&str>> {
    requirement.get("values").and_then(Value::as_array).into_iter().flatten().map(Value::as_str).collect()
}

/// Returns a requirement on a field as text. As in upstream, it has exactly one value.
fn field_term(requirement: &Value) -> Option<String> {
    let operator = match text(requirement, "operator").as_str() {
        "In" => "=",
        "NotIn" => "!=",
        _ => return None,
    };
    let values = values(requirement)?;
    let [value] = values.as_slice() else { return None };
    let escaped = value.replace('\\', r"\\").replace(',', r"\,").replace('=', r"\=");
    let key = text(requirement, "key");
    // As text, another key would be another term.
    let is_plain = !key.is_empty() && !key.contains([',', '=', '!', '\\']);
    is_plain.then(|| format!("{key}{operator}{escaped}"))
}

/// Returns a requirement on a label as text.
fn label_term(requirement: &Value) -> Option<String> {
    values(requirement)?;
    let selector = json!({"matchExpressions": [requirement]});
    LabelSelector::of_object(Some(&selector)).ok().map(|read| read.to_string())
}

/// Returns the field selector and the label selector of resource attributes, as the query of a request has them.
pub(super) fn texts(resource: &Value) -> (String, String) {
    (Selector::of_fields(resource).text, Selector::of_labels(resource).text)
}

/// Adds to the status of a review that a selector was not taken as a whole.
pub(super) fn note_ignored(status: &mut Value, resource: &Value) {
    let fields = Selector::of_fields(resource).error(OF_FIELDS);
    let labels = Selector::of_labels(resource).error(OF_LABELS);
    let known = Some(text(status, "evaluationError")).filter(|error| !error.is_empty());
    let errors: Vec<String> = known.into_iter().chain(fields).chain(labels).collect();
    if !errors.is_empty() {
        status["evaluationError"] = json!(errors.join("; "));
    }
}

/// Checks a selector of resource attributes.
pub(super) fn check(resource: &Value, field: &str) -> Option<FieldError> {
    let selector = resource.get(field).filter(|selector| selector.is_object())?;
    let raw = text(selector, "rawSelector");
    let requirements = requirements(selector);
    let path = FieldPath::new("spec.resourceAttributes").child(field);
    match (raw.is_empty(), requirements.is_empty()) {
        (false, false) => {
            let detail = "may not specified at the same time as requirements";
            return Some(FieldError::invalid(path.child("rawSelector"), &json!(raw), detail));
        }
        (true, true) => {
            let detail =
                format!("when {} is specified, requirements or rawSelector is required", path.as_str());
            return Some(FieldError::required(path.child("requirements"), &detail));
        }
        _ => {}
    }
    let path = path.child("requirements");
    let mut indexed = requirements.iter().enumerate();
    indexed.find_map(|(index, requirement)| check_requirement(requirement, field, &path.index(index)))
}

/// Checks a requirement. As in upstream, its operator may be one of a later release.
fn check_requirement(requirement: &Value, field: &str, path: &FieldPath) -> Option<FieldError> {
    let key = text(requirement, "key");
    if field == OF_FIELDS && key.is_empty() {
        return Some(FieldError::required(path.child("key"), "must be specified"));
    }
    let values = requirement.get("values").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    match text(requirement, "operator").as_str() {
        "In" | "NotIn" if values.is_empty() => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            return Some(FieldError::required(path.child("values"), detail));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            return Some(FieldError::forbidden(path.child("values"), detail));
        }
        _ => {}
    }
    if field == OF_FIELDS {
        return None;
    }
    if let Some(error) = label_key_errors(&key).first() {
        return Some(FieldError::invalid(path.child("key"), &json!(key), error));
    }
    values.iter().enumerate().find_map(|(index, value)| {
        let errors = label_value_errors(value.as_str().unwrap_or_default());
        errors.first().map(|error| FieldError::invalid(path.child("values").index(index), value, error))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_become_the_text_of_a_request_and_others_are_left_out() {
        let fields = |selector: Value| Selector::of_fields(&json!({"fieldSelector": selector}));
        let labels = |selector: Value| Selector::of_labels(&json!({"labelSelector": selector}));
        let all = |requirements: Value| json!({"requirements": requirements});
        let read = |text: &str, is_cut| Selector { text: text.to_owned(), is_cut };
        let term = |key: &str, operator: &str, values: Value| json!({"key": key, "operator": operator, "values": values});
        for (found, expected) in [
            (fields(Value::Null), read("", false)),
            (fields(json!({"rawSelector": "metadata.name=a"})), read("metadata.name=a", false)),
            (fields(json!({"rawSelector": "metadata.name"})), read("", true)),
            (
                fields(all(json!([term("a", "In", json!([r"b,c=d\"])), term("e", "NotIn", json!([""]))]))),
                read(r"a=b\,c\=d\\,e!=", false),
            ),
            (
                fields(all(json!([term("a", "In", json!(["b"])), term("c", "Like", json!(["d"]))]))),
                read("a=b", true),
            ),
            (fields(all(json!([term("a", "In", json!(["b", "c"]))]))), read("", true)),
            (fields(all(json!([term("a=b,c", "In", json!(["d"]))]))), read("", true)),
            (labels(json!({"rawSelector": "a in (b)"})), read("a in (b)", false)),
            (labels(json!({"rawSelector": "a in"})), read("", true)),
            (
                labels(all(json!([term("a", "In", json!(["c", "b"])), term("d", "Exists", Value::Null)]))),
                read("a in (b,c),d", false),
            ),
            (labels(all(json!([term("a", "In", json!([5]))]))), read("", true)),
        ] {
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_selector_that_is_cut_is_an_evaluation_error_beside_others() {
        let resource = json!({"fieldSelector": {"rawSelector": "a"}, "labelSelector": {"rawSelector": "a"}});
        let mut status = json!({"allowed": false, "evaluationError": "e"});
        note_ignored(&mut status, &resource);
        let expected = "e; spec.resourceAttributes.fieldSelector ignored due to parse error";
        assert_eq!(status["evaluationError"], expected);
        let mut status = json!({"allowed": true});
        note_ignored(&mut status, &json!({"labelSelector": {"rawSelector": "a"}}));
        assert_eq!(status, json!({"allowed": true}));
    }
}
