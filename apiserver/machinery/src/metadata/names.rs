//! Validation of names, keys and values in metadata. The error texts are upstream's, because users search for them.

const SUBDOMAIN_FORM: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
     and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const QUALIFIED_FORM: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
     alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE_FORM: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
     and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
     validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// Longest name of an object. Unit: bytes.
const LONGEST_SUBDOMAIN: usize = 253;

/// Longest name part of a key, and longest label value. Unit: bytes.
const LONGEST_LABEL: usize = 63;

/// Returns the errors of a text that has to be an RFC 1123 subdomain.
pub fn subdomain_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > LONGEST_SUBDOMAIN {
        errors.push(format!("must be no more than {LONGEST_SUBDOMAIN} characters"));
    }
    if !text.split('.').all(|label| is_enclosed(label, is_of_subdomain)) {
        errors.push(SUBDOMAIN_FORM.to_owned());
    }
    errors
}

/// Returns the errors of a name that has to be a label of a domain name.
pub fn label_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 63 {
        errors.push("must be no more than 63 bytes".to_owned());
    }
    if !is_subdomain(text) {
        errors.push(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
             and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        );
    } else if text.contains('.') {
        errors.push("must not contain dots".to_owned());
    }
    errors
}

/// Returns the errors of a text that has to be a label key, an annotation key or a finalizer: the rules of a qualified
/// name, with a part of their text.
pub fn label_key_errors(text: &str) -> Vec<String> {
    let errors = qualified_name_errors(text).into_iter();
    let worded = errors.map(|error| match error.strip_prefix("a qualified name ") {
        Some(rest) => format!("a valid label key {rest}"),
        None => error.replace(
            &format!("prefix part must be no more than {LONGEST_SUBDOMAIN} characters"),
            &format!("prefix part must be no more than {LONGEST_SUBDOMAIN} bytes"),
        ),
    });
    worded.collect()
}

/// Returns the errors of a text that has to be a name with an optional domain.
pub fn qualified_name_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let mut parts = text.split('/');
    let name = match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, _) => name,
        (Some(""), Some(name), None) => {
            errors.push("prefix part must be non-empty".to_owned());
            name
        }
        (Some(prefix), Some(name), None) => {
            errors.extend(subdomain_errors(prefix).into_iter().map(|error| format!("prefix part {error}")));
            name
        }
        _ => {
            let optional = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a qualified name {QUALIFIED_FORM} {optional}")];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > LONGEST_LABEL {
        errors.push(format!("name part must be no more than {LONGEST_LABEL} bytes"));
    }
    if !is_enclosed(name, is_of_name) {
        errors.push(format!("name part {QUALIFIED_FORM}"));
    }
    errors
}

/// Returns the errors of a text that has to be a label value.
pub fn label_value_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > LONGEST_LABEL {
        errors.push(format!("must be no more than {LONGEST_LABEL} bytes"));
    }
    if !text.is_empty() && !is_enclosed(text, is_of_name) {
        errors.push(LABEL_VALUE_FORM.to_owned());
    }
    errors
}

/// Returns true if `text` is an RFC 1123 subdomain of at most 253 bytes.
pub fn is_subdomain(text: &str) -> bool {
    subdomain_errors(text).is_empty()
}

/// Returns true if `text` is a valid label value.
pub fn is_label_value(text: &str) -> bool {
    label_value_errors(text).is_empty()
}

/// Returns true if `text` is a valid label key, annotation key or finalizer.
pub fn is_qualified_name(text: &str) -> bool {
    qualified_name_errors(text).is_empty()
}

/// Returns true if all bytes are allowed, and the first and the last are letters or digits. It compares bytes, because
/// an object has about twenty such texts, and a regular expression takes several times as long for each.
fn is_enclosed(text: &str, is_allowed: fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    let is_end = |end: Option<&u8>| end.is_some_and(|byte| byte.is_ascii_alphanumeric());
    is_end(bytes.first()) && is_end(bytes.last()) && bytes.iter().all(|byte| is_allowed(*byte))
}

fn is_of_subdomain(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-')
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_name_has_its_own_errors() {
        let long = "a".repeat(254);
        let table: [(&str, usize, usize, usize); 9] = [
            ("a.b-1", 0, 0, 0),
            ("Name", 1, 0, 0),
            ("", 1, 2, 0),
            ("a b", 1, 1, 1),
            ("/a", 1, 1, 1),
            ("x.io/a", 1, 0, 1),
            ("X/a", 1, 1, 1),
            ("a/b/c", 1, 1, 1),
            (&long, 1, 1, 1),
        ];
        for (text, subdomain, qualified, value) in table {
            assert_eq!(subdomain_errors(text).len(), subdomain, "subdomain {text}");
            assert_eq!(qualified_name_errors(text).len(), qualified, "qualified {text}");
            assert_eq!(label_value_errors(text).len(), value, "value {text}");
        }
    }

    /// An error repeats the regular expression that the text has to match.
    #[test]
    fn checks_agree_with_the_regular_expressions_in_their_messages() {
        let expression = |form: &str| {
            let quoted = form.rsplit_once("validation is '").and_then(|(_, rest)| rest.rsplit_once('\''));
            regex::Regex::new(&format!("^({})$", quoted.unwrap().0)).unwrap()
        };
        let forms = [SUBDOMAIN_FORM, QUALIFIED_FORM, LABEL_VALUE_FORM].map(expression);
        let characters = ["a", "Z", "5", "-", "_", ".", "\n", "é"];
        let mut texts = vec![String::new()];
        for length in 0..=5 {
            for text in &texts {
                let found = [
                    subdomain_errors(text).is_empty(),
                    qualified_name_errors(text).is_empty(),
                    label_value_errors(text).is_empty(),
                ];
                assert_eq!(found, std::array::from_fn(|at| forms[at].is_match(text)), "{length}: {text:?}");
            }
            let longer =
                texts.iter().flat_map(|text| characters.map(|character| format!("{text}{character}")));
            texts = longer.collect();
        }
    }
}
