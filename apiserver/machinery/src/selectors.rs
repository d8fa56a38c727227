//! Label and field selectors.

use serde_json::{Map, Value};

use crate::metadata::{is_label_value, is_qualified_name};
use crate::status::{ApiError, ApiResult};

/// One term of a label selector.
#[derive(Debug, Clone, PartialEq, Eq)]
enum LabelTerm {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
}

/// A parsed label selector; the empty one selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector(Vec<LabelTerm>);

impl LabelSelector {
    /// Parses `a=b,c!=d,e in (x,y),f notin (z),g,!h`.
    ///
    /// # Errors
    /// 400 naming the term that cannot be read.
    pub fn parse(text: &str) -> ApiResult<Self> {
        let fault = |why: &str| ApiError::bad_request(format!("unable to parse requirement: {why}"));
        let mut terms = Vec::new();
        for term in split_terms(text).map_err(|why| fault(&why))? {
            terms.push(parse_term(&term).map_err(|why| fault(&why))?);
        }
        Ok(Self(terms))
    }

    /// Whether it selects everything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an object with these labels is selected.
    pub fn matches(&self, labels: Option<&Map<String, Value>>) -> bool {
        let value = |key: &str| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str);
        self.0.iter().all(|term| match term {
            LabelTerm::In(key, values) => value(key).is_some_and(|found| values.iter().any(|v| v == found)),
            LabelTerm::NotIn(key, values) => value(key).is_none_or(|found| values.iter().all(|v| v != found)),
            LabelTerm::Exists(key) => value(key).is_some(),
            LabelTerm::Absent(key) => value(key).is_none(),
        })
    }
}

/// Splits at commas outside parentheses.
fn split_terms(text: &str) -> Result<Vec<String>, String> {
    let mut terms = vec![String::new()];
    let mut depth = 0_u32;
    for character in text.chars() {
        match character {
            '(' => depth += 1,
            ')' => {
                depth = depth.checked_sub(1).ok_or_else(|| format!("found ')' without '(' in {text:?}"))?
            }
            _ => {}
        }
        if character == ',' && depth == 0 {
            terms.push(String::new());
        } else if let Some(term) = terms.last_mut() {
            term.push(character);
        }
    }
    if depth != 0 {
        return Err(format!("found no ')' for '(' in {text:?}"));
    }
    let terms: Vec<String> = terms.into_iter().map(|term| term.trim().to_owned()).collect();
    if terms.len() == 1 && terms.iter().all(String::is_empty) { Ok(Vec::new()) } else { Ok(terms) }
}

fn parse_term(term: &str) -> Result<LabelTerm, String> {
    if term.is_empty() {
        return Err("found ',', expected: identifier".to_owned());
    }
    if let Some(key) = term.strip_prefix('!') {
        return Ok(LabelTerm::Absent(key_of(key)?));
    }
    if let Some((key, set)) = split_operator(term, " notin ") {
        return Ok(LabelTerm::NotIn(key_of(key)?, values_of(set)?));
    }
    if let Some((key, set)) = split_operator(term, " in ") {
        return Ok(LabelTerm::In(key_of(key)?, values_of(set)?));
    }
    if let Some((key, value)) = term.split_once("!=") {
        return Ok(LabelTerm::NotIn(key_of(key)?, vec![value_of(value)?]));
    }
    if let Some((key, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
        return Ok(LabelTerm::In(key_of(key)?, vec![value_of(value)?]));
    }
    Ok(LabelTerm::Exists(key_of(term)?))
}

/// `key in (a,b)` and `key in(a,b)` are both written.
fn split_operator<'a>(term: &'a str, operator: &str) -> Option<(&'a str, &'a str)> {
    let (key, rest) = term.split_once(operator.trim_end())?;
    rest.trim_start().starts_with('(').then_some((key, rest))
}

fn key_of(text: &str) -> Result<String, String> {
    let key = text.trim();
    if is_qualified_name(key) { Ok(key.to_owned()) } else { Err(format!("key: Invalid value: {key:?}")) }
}

fn value_of(text: &str) -> Result<String, String> {
    let value = text.trim();
    if is_label_value(value) {
        Ok(value.to_owned())
    } else {
        Err(format!("values: Invalid value: {value:?}"))
    }
}

fn values_of(set: &str) -> Result<Vec<String>, String> {
    let inner = set.trim().strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    let inner = inner.ok_or_else(|| format!("found {set:?}, expected: '(' values ')'"))?;
    inner.split(',').map(value_of).collect()
}

/// A parsed field selector: dotted path, whether equal is wanted, value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSelector(Vec<(String, bool, String)>);

impl FieldSelector {
    /// Parses `metadata.name=x,status.phase!=y`. `selectable` are the paths allowed beside name
    /// and namespace.
    ///
    /// # Errors
    /// 400 naming the term or field.
    pub fn parse(text: &str, selectable: &[&str]) -> ApiResult<Self> {
        let mut terms = Vec::new();
        for term in text.split(',').map(str::trim).filter(|term| !term.is_empty()) {
            let (path, equal, value) = if let Some((path, value)) = term.split_once("!=") {
                (path, false, value)
            } else if let Some((path, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
                (path, true, value)
            } else {
                return Err(ApiError::bad_request(format!(
                    "invalid selector: {term:?}; can't understand {term:?}"
                )));
            };
            if !["metadata.name", "metadata.namespace"].contains(&path) && !selectable.contains(&path) {
                return Err(ApiError::bad_request(format!("field label not supported: {path}")));
            }
            terms.push((path.to_owned(), equal, value.to_owned()));
        }
        Ok(Self(terms))
    }

    /// Whether it selects everything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The one name it selects, if it names one.
    pub fn name(&self) -> Option<&str> {
        self.0
            .iter()
            .find(|(path, equal, _)| path == "metadata.name" && *equal)
            .map(|(_, _, name)| name.as_str())
    }

    /// Whether an object is selected whose fields are looked up by `field`.
    pub fn matches(&self, field: impl Fn(&str) -> Option<String>) -> bool {
        self.0.iter().all(|(path, equal, wanted)| (field(path).unwrap_or_default() == *wanted) == *equal)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn label_selectors_select_what_they_say() {
        let labels = json!({"app": "web", "tier": "front", "x.io/y": ""});
        let table = [
            ("", true),
            ("app=web", true),
            ("app==web,tier!=back", true),
            ("app=db", false),
            ("app in (web, db)", true),
            ("app in(db)", false),
            ("app notin (web)", false),
            ("none notin (web)", true),
            ("app", true),
            ("!app", false),
            ("!none", true),
            ("x.io/y", true),
            ("x.io/y=", true),
        ];
        for (text, expected) in table {
            assert_eq!(LabelSelector::parse(text).unwrap().matches(labels.as_object()), expected, "{text}");
        }
    }

    #[test]
    fn bad_label_selectors_are_refused() {
        for text in ["a=b=c d", "a in (b", "a in b)", ",", "a,,b", "-a", "a=ü", "a in (b c)", "!"] {
            let error = LabelSelector::parse(text).expect_err(text);
            assert_eq!(error.code, 400, "{text}");
            assert!(error.message.starts_with("unable to parse requirement: "), "{}", error.message);
        }
    }

    #[test]
    fn field_selectors_know_only_declared_fields() {
        let selector = FieldSelector::parse("metadata.name=a,type!=Warning", &["type"]).unwrap();
        assert_eq!(selector.name(), Some("a"));
        let lookup = |kind: &'static str| {
            move |path: &str| Some(if path == "type" { kind.to_owned() } else { "a".to_owned() })
        };
        assert!(selector.matches(lookup("Normal")));
        assert!(!selector.matches(lookup("Warning")));
        let error = FieldSelector::parse("spec.foo=1", &[]).unwrap_err();
        assert_eq!(error.message, "field label not supported: spec.foo");
    }
}
