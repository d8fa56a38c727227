//! Label selectors: `a=b,c!=d,e in (x,y),f notin (z),g,!h,i>3`.

use std::fmt;

use serde_json::{Map, Value};

use super::scan::{Token, scan};
use crate::metadata::{is_label_value, label_key_errors};
use crate::status::{ApiError, ApiResult};
use apiserver_schema::go_text::quoted;

/// One requirement.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Requirement {
    /// The values are sorted and unique. Usually there is one, for which a tree would be ten times as large.
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
    Greater(String, i64),
    Less(String, i64),
}

/// A parsed label selector. The empty one selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector(Vec<Requirement>);

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::In(key, values) => match values.as_slice() {
                [value] => write!(f, "{key}={value}"),
                values => write!(f, "{key} in ({})", values.join(",")),
            },
            Self::NotIn(key, values) => write!(f, "{key} notin ({})", values.join(",")),
            Self::Exists(key) => f.write_str(key),
            Self::Absent(key) => write!(f, "!{key}"),
            Self::Greater(key, limit) => write!(f, "{key}>{limit}"),
            Self::Less(key, limit) => write!(f, "{key}<{limit}"),
        }
    }
}

impl fmt::Display for LabelSelector {
    /// Writes the selector as a query has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for requirement in &self.0 {
            write!(f, "{separator}{requirement}")?;
            separator = ",";
        }
        Ok(())
    }
}

impl LabelSelector {
    /// Parses a selector.
    ///
    /// # Errors
    /// 400 that names the position of the error.
    pub fn parse(text: &str) -> ApiResult<Self> {
        Parser { tokens: scan(text).into_iter().peekable() }.selector().map_err(ApiError::bad_request)
    }

    /// Reads the selector of an object: `matchLabels` and `matchExpressions`. An absent one selects everything.
    ///
    /// # Errors
    /// The text names the invalid key, value or operator.
    pub fn of_object(selector: Option<&Value>) -> Result<Self, String> {
        let part = |field: &str| selector.and_then(|selector| selector.get(field));
        let mut requirements = Vec::new();
        for (key, value) in part("matchLabels").and_then(Value::as_object).into_iter().flatten() {
            let value = check_value(key, 0, value.as_str().unwrap_or_default().to_owned())?;
            requirements.push(Requirement::In(check_key(key.clone())?, vec![value]));
        }
        for term in part("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
            requirements.push(of_term(term)?);
        }
        Ok(Self(requirements))
    }

    /// Returns true if it selects everything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if it selects an object with these labels.
    pub fn matches(&self, labels: Option<&Map<String, Value>>) -> bool {
        self.selects(|key| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str))
    }

    /// Returns true if it selects an object. `value` looks up the object's labels.
    pub(crate) fn selects<'a>(&self, value: impl Fn(&str) -> Option<&'a str>) -> bool {
        let is_one =
            |values: &[String], found: &str| values.binary_search_by(|one| one.as_str().cmp(found)).is_ok();
        let number = |key: &str| value(key).and_then(|text| text.parse::<i64>().ok());
        self.0.iter().all(|requirement| match requirement {
            Requirement::In(key, values) => value(key).is_some_and(|found| is_one(values, found)),
            Requirement::NotIn(key, values) => value(key).is_none_or(|found| !is_one(values, found)),
            Requirement::Exists(key) => value(key).is_some(),
            Requirement::Absent(key) => value(key).is_none(),
            Requirement::Greater(key, limit) => number(key).is_some_and(|found| found > *limit),
            Requirement::Less(key, limit) => number(key).is_some_and(|found| found < *limit),
        })
    }
}

/// Reads a term of `matchExpressions`.
fn of_term(term: &Value) -> Result<Requirement, String> {
    let text = |field: &str| term.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let key = check_key(text("key"))?;
    let values = term.get("values").and_then(Value::as_array).into_iter().flatten();
    let texts = values
        .enumerate()
        .map(|(index, value)| check_value(&key, index, value.as_str().unwrap_or_default().to_owned()));
    let mut values = texts.collect::<Result<Vec<_>, _>>()?;
    values.sort_unstable();
    values.dedup();
    match text("operator").as_str() {
        "In" => Ok(Requirement::In(key, values)),
        "NotIn" => Ok(Requirement::NotIn(key, values)),
        "Exists" => Ok(Requirement::Exists(key)),
        "DoesNotExist" => Ok(Requirement::Absent(key)),
        other => Err(format!("{other:?} is not a valid label selector operator")),
    }
}

/// Operators that may follow a key.
const OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";

struct Parser {
    tokens: std::iter::Peekable<std::vec::IntoIter<Token>>,
}

impl Parser {
    fn next(&mut self) -> Token {
        self.tokens.next().unwrap_or(Token::End)
    }

    fn peek(&mut self) -> &Token {
        self.tokens.peek().unwrap_or(&Token::End)
    }

    fn selector(&mut self) -> Result<LabelSelector, String> {
        let mut requirements = Vec::new();
        match self.peek() {
            Token::End => return Ok(LabelSelector::default()),
            Token::Word(_) | Token::Not => {}
            other => {
                return Err(format!("found '{}', expected: !, identifier, or 'end of string'", other.text()));
            }
        }
        loop {
            let requirement = self.requirement();
            requirements.push(requirement.map_err(|why| format!("unable to parse requirement: {why}"))?);
            match self.next() {
                Token::End => return Ok(LabelSelector(requirements)),
                Token::Comma => {}
                other => return Err(format!("found '{}', expected: ',' or 'end of string'", other.text())),
            }
            match self.peek() {
                Token::Word(_) | Token::Not => {}
                other => return Err(format!("found '{}', expected: identifier after ','", other.text())),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let absent = *self.peek() == Token::Not;
        if absent {
            self.next();
        }
        let key = match self.next() {
            Token::Word(key) => check_key(key)?,
            other => return Err(format!("found '{}', expected: identifier", other.text())),
        };
        if absent {
            return Ok(Requirement::Absent(key));
        }
        if matches!(self.peek(), Token::End | Token::Comma) {
            return Ok(Requirement::Exists(key));
        }
        match self.next() {
            Token::Equal | Token::DoubleEqual => {
                let value = check_value(&key, 0, self.value()?)?;
                Ok(Requirement::In(key, vec![value]))
            }
            Token::NotEqual => {
                let value = check_value(&key, 0, self.value()?)?;
                Ok(Requirement::NotIn(key, vec![value]))
            }
            Token::Greater => {
                let limit = number(&key, self.value()?)?;
                Ok(Requirement::Greater(key, limit))
            }
            Token::Less => {
                let limit = number(&key, self.value()?)?;
                Ok(Requirement::Less(key, limit))
            }
            Token::Word(word) if word == "in" => Ok(Requirement::In(key.clone(), self.values(&key)?)),
            Token::Word(word) if word == "notin" => Ok(Requirement::NotIn(key.clone(), self.values(&key)?)),
            other => Err(format!("found '{}', expected: {OPERATORS}", other.text())),
        }
    }

    /// Reads the value after an operator; an absent one is empty.
    fn value(&mut self) -> Result<String, String> {
        if matches!(self.peek(), Token::End | Token::Comma) {
            return Ok(String::new());
        }
        match self.next() {
            Token::Word(value) => Ok(value),
            other => Err(format!("found '{}', expected: identifier", other.text())),
        }
    }

    /// Reads `(x,y)`. An omitted value between commas is empty.
    fn values(&mut self, key: &str) -> Result<Vec<String>, String> {
        match self.next() {
            Token::Open => {}
            other => return Err(format!("found '{}' expected: '('", other.text())),
        }
        let mut values = Vec::new();
        loop {
            let value = match self.peek() {
                Token::Comma | Token::Close => String::new(),
                Token::Word(_) => self.value()?,
                other => return Err(format!("found '{}', expected: ',', ')' or identifier", other.text())),
            };
            values.push(value);
            match self.next() {
                Token::Comma => {}
                Token::Close => break,
                other => return Err(format!("found '{}', expected: ',' or ')'", other.text())),
            }
        }
        values.sort_unstable();
        values.dedup();
        values.into_iter().enumerate().map(|(index, value)| check_value(key, index, value)).collect()
    }
}

/// Parses a number that is a valid label value: without a plus or minus.
fn number(key: &str, text: String) -> Result<i64, String> {
    let number = text.parse().map_err(|_| {
        let text = quoted(&text);
        format!("values[0]: Invalid value: {text}: for 'Gt', 'Lt' operators, the value must be an integer")
    })?;
    check_value(key, 0, text).map(|_| number)
}

/// Syntax of a name, in the words of upstream's messages.
const NAME: &str =
    "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

fn check_key(key: String) -> Result<String, String> {
    let errors = label_key_errors(&key);
    if errors.is_empty() {
        return Ok(key);
    }
    Err(format!("<nil>: Invalid value: {}: {}", quoted(&key), errors.join("; ")))
}

fn check_value(key: &str, index: usize, value: String) -> Result<String, String> {
    if is_label_value(&value) {
        return Ok(value);
    }
    let why = if value.len() > 63 {
        "must be no more than 63 bytes".to_owned()
    } else {
        format!(
            "a valid label must be an empty string or consist of {NAME} (e.g. 'MyValue',  or 'my_value',  or \
             '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
        )
    };
    Err(format!("values[{index}][{key}]: Invalid value: {}: {why}", quoted(&value)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_selector_of_an_object_has_labels_and_terms() {
        let labels = json!({"a": "b", "c": "d"});
        let labels = labels.as_object();
        let term = |key: &str, operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        for (selector, expected) in [
            (json!({}), true),
            (json!({"matchLabels": {"a": "b"}}), true),
            (json!({"matchLabels": {"a": "x"}}), false),
            (term("c", "In", &["x", "d"]), true),
            (term("c", "NotIn", &["d"]), false),
            (term("e", "Exists", &[]), false),
            (term("e", "DoesNotExist", &[]), true),
        ] {
            let read = LabelSelector::of_object(Some(&selector)).unwrap();
            assert_eq!(read.matches(labels), expected, "{selector}");
        }
        assert!(LabelSelector::of_object(None).unwrap().is_empty());
        assert!(LabelSelector::of_object(Some(&term("a", "Like", &[]))).unwrap_err().contains("Like"));
    }

    #[test]
    fn a_selector_is_written_as_it_is_parsed() {
        for text in ["", "a=b", "a=,b in (c,d),e notin (f),g,!h,i>3,j<4"] {
            let selector = LabelSelector::parse(text).unwrap();
            assert_eq!(selector.to_string(), text);
        }
        let labels = json!({"matchLabels": {"b": "c", "a": "b"}});
        assert_eq!(LabelSelector::of_object(Some(&labels)).unwrap().to_string(), "a=b,b=c");
    }

    #[test]
    fn label_selectors_match_labels() {
        let labels = json!({"app": "web", "tier": "front", "x.io/y": "", "n": "5", "in": "notin"});
        let table = [
            ("", true),
            (" ", true),
            ("app=web", true),
            ("app==web,tier!=back", true),
            ("app = web , tier != front", false),
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
            ("x.io/y in ()", true),
            ("x.io/y in (a,)", true),
            ("n>4,n<6", true),
            ("n>5", false),
            ("app>1", false),
            ("in in (in,notin)", true),
            ("app=web\0,none", false),
            ("app=web\0,tier", true),
            ("app\0", true),
        ];
        for (text, expected) in table {
            assert_eq!(LabelSelector::parse(text).unwrap().matches(labels.as_object()), expected, "{text}");
        }
    }

    #[test]
    fn invalid_label_selectors_get_the_errors_of_kube_apiserver() {
        let table = [
            ("a b c", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
            ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("a in b)", "unable to parse requirement: found 'b' expected: '('"),
            ("a in (b c)", "unable to parse requirement: found 'c', expected: ',' or ')'"),
            ("a,,b", "found ',', expected: identifier after ','"),
            ("a,", "found '', expected: identifier after ','"),
            (",", "found ',', expected: !, identifier, or 'end of string'"),
            ("a=b=c", "found '=', expected: ',' or 'end of string'"),
            ("!", "unable to parse requirement: found '', expected: identifier"),
            (
                "a>x",
                "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
            ),
        ];
        for (text, expected) in table {
            assert_eq!(LabelSelector::parse(text).unwrap_err().message, expected, "{text}");
        }
        for text in ["n>-1", "n<+1", "\u{feff}a", "-a", "a=ü", "a/b/c", "/b", "A_/b", "a=b c", "a in (-)"] {
            let error = LabelSelector::parse(text).expect_err(text);
            assert_eq!(error.code, 400, "{text}");
        }
        let long = format!("{}/y", "a".repeat(254));
        for (text, expected) in [
            ("-a", "name part must consist of"),
            ("/y", "prefix part must be non-empty"),
            ("/", "prefix part must be non-empty; name part must be non-empty; name part must consist of"),
            ("a/b/c", "a valid label key must consist of"),
            ("A_/b", "prefix part a lowercase RFC 1123 subdomain must consist of"),
            (&long, "prefix part must be no more than 253 bytes"),
        ] {
            let found = LabelSelector::parse(text).unwrap_err().message;
            let expected = format!("unable to parse requirement: <nil>: Invalid value: {text:?}: {expected}");
            assert!(found.starts_with(&expected), "{found}");
        }
    }
}
