//! Field selectors: `metadata.name=x,status.phase!=y`.

use crate::status::{ApiError, ApiResult};

/// A parsed field selector: dotted path, true for equality, value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSelector(Vec<(String, bool, String)>);

impl FieldSelector {
    /// Parses a selector. `selectable` are the allowed paths in addition to name and namespace. A value may contain
    /// `\,`, `\=` and `\\`.
    ///
    /// # Errors
    /// 400 that names the term or field.
    pub fn parse(text: &str, selectable: &[&str]) -> ApiResult<Self> {
        let selector = Self::read(text)?;
        selector.check(selectable)?;
        Ok(selector)
    }

    /// Parses a selector with any fields. A term that consists of an operator only, such as `=`, selects everything.
    ///
    /// # Errors
    /// 400 that names the term.
    pub fn read(text: &str) -> ApiResult<Self> {
        let mut terms = Vec::new();
        for term in split(text).into_iter().filter(|term| !term.is_empty()) {
            let (path, equal, value) = parts(term).ok_or_else(|| {
                ApiError::bad_request(format!("invalid selector: '{text}'; can't understand '{term}'"))
            })?;
            let value = unescape(value).map_err(ApiError::bad_request)?;
            if !(path.is_empty() && value.is_empty()) {
                terms.push((path.to_owned(), equal, value));
            }
        }
        Ok(Self(terms))
    }

    /// Checks that all fields can be selected by: name, namespace and `selectable`.
    ///
    /// # Errors
    /// 400 that names the field.
    pub fn check(&self, selectable: &[&str]) -> ApiResult<()> {
        let is_known = |path: &str| {
            ["metadata.name", "metadata.namespace"].contains(&path) || selectable.contains(&path)
        };
        match self.0.iter().find(|(path, ..)| !is_known(path)) {
            Some((path, ..)) => Err(ApiError::bad_request(format!("field label not supported: {path}"))),
            None => Ok(()),
        }
    }

    /// Returns the same selector, restricted to the object of this name.
    #[must_use]
    pub fn and_name(mut self, name: &str) -> Self {
        self.0.push(("metadata.name".to_owned(), true, name.to_owned()));
        self
    }

    /// Returns true if it selects everything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the name that it requires, if any.
    pub fn name(&self) -> Option<&str> {
        self.equal("metadata.name")
    }

    /// Returns the namespace that it requires, if any.
    pub fn namespace(&self) -> Option<&str> {
        self.equal("metadata.namespace")
    }

    fn equal(&self, field: &str) -> Option<&str> {
        let named = self.0.iter().find(|(path, equal, _)| path == field && *equal);
        named.map(|(_, _, value)| value.as_str())
    }

    /// Returns true if it selects an object. `field` looks up the object's fields.
    pub fn matches(&self, field: impl Fn(&str) -> Option<String>) -> bool {
        self.0.iter().all(|(path, equal, wanted)| (field(path).unwrap_or_default() == *wanted) == *equal)
    }
}

/// Splits at the commas that are not escaped.
fn split(text: &str) -> Vec<&str> {
    let (mut terms, mut start, mut escaped) = (Vec::new(), 0, false);
    for (at, character) in text.char_indices() {
        if !escaped && character == ',' {
            terms.extend(text.get(start..at));
            start = at + 1;
        }
        escaped = !escaped && character == '\\';
    }
    terms.extend(text.get(start..));
    terms
}

/// Splits a term into path, operator (true for equality) and value, as written.
fn parts(term: &str) -> Option<(&str, bool, &str)> {
    term.char_indices().find_map(|(at, _)| {
        let (path, rest) = term.split_at(at);
        let unequal = rest.strip_prefix("!=").map(|value| (path, false, value));
        let equal =
            || rest.strip_prefix("==").or_else(|| rest.strip_prefix('=')).map(|value| (path, true, value));
        unequal.or_else(equal)
    })
}

fn unescape(value: &str) -> Result<String, String> {
    let mut plain = String::new();
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => plain.push(escaped),
                Some(other) => {
                    return Err(format!("invalid field selector: invalid escape sequence: \\{other}"));
                }
                None => return Err("invalid field selector: invalid escape sequence: \\".to_owned()),
            },
            ',' | '=' => {
                // Upstream prints the number of the rune.
                let number = u32::from(character);
                return Err(format!("invalid field selector: unescaped character in value: {number}"));
            }
            other => plain.push(other),
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        for everything in ["=", "==", "!="] {
            assert_eq!(FieldSelector::parse(everything, &[]), Ok(FieldSelector::default()), "{everything}");
        }
        assert_eq!(FieldSelector::parse("=a", &[]).unwrap_err().message, "field label not supported: ");
    }

    #[test]
    fn values_are_unescaped_and_invalid_selectors_are_refused() {
        let selector = FieldSelector::parse(r"metadata.name=a\,b\=c\\,metadata.namespace==d", &[]).unwrap();
        assert_eq!(selector.name(), Some(r"a,b=c\"));
        let table = [
            ("metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
            ("metadata.name=a=b", "invalid field selector: unescaped character in value: 61"),
            (r"metadata.name=a\b", r"invalid field selector: invalid escape sequence: \b"),
        ];
        for (text, expected) in table {
            assert_eq!(FieldSelector::parse(text, &[]).unwrap_err().message, expected);
        }
        assert_eq!(FieldSelector::parse("a!b=c", &[]).unwrap_err().message, "field label not supported: a!b");
        assert_eq!(FieldSelector::parse(",", &[]), Ok(FieldSelector::default()));
    }
}
