//! Validation of names, with the error texts of Kubernetes, which users search for. An empty list means a valid name.

pub(crate) use apiserver_machinery::metadata::label_key_errors as label_key;

/// Longest DNS label, name part of a label key, and label value.
const LONGEST_LABEL: usize = 63;

/// Longest domain name.
const LONGEST_SUBDOMAIN: usize = 253;

/// Pattern of a DNS label.
const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";

/// Pattern of the name part of a label key.
const KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

/// Returns the errors of a label value.
pub(crate) fn label_value(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > LONGEST_LABEL {
        errors.push(too_long(LONGEST_LABEL));
    }
    if !text.is_empty() && !is_key(text) {
        errors.push(format!(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used \
             for validation is '({KEY})?')"
        ));
    }
    errors
}

/// Returns the errors of a domain name.
pub(crate) fn subdomain(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > LONGEST_SUBDOMAIN {
        errors.push(too_long(LONGEST_SUBDOMAIN));
    }
    if !is_subdomain(text) {
        errors.push(format!(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
             start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '{LABEL}(\\.{LABEL})*')"
        ));
    }
    errors
}

/// Returns the errors of a DNS label.
pub(crate) fn label(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > LONGEST_LABEL {
        errors.push(too_long(LONGEST_LABEL));
    }
    if is_label(text) {
        return errors;
    }
    errors.push(if is_subdomain(text) {
        "must not contain dots".to_owned()
    } else {
        format!(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
             and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
             '{LABEL}')"
        )
    });
    errors
}

/// Returns the errors of the name of a Service: a DNS label that begins with a letter.
pub(crate) fn service(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > LONGEST_LABEL {
        errors.push(too_long(LONGEST_LABEL));
    }
    if !is_label(text) || !text.starts_with(|c: char| c.is_ascii_lowercase()) {
        errors.push(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
             validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        );
    }
    errors
}

fn too_long(limit: usize) -> String {
    format!("must be no more than {limit} bytes")
}

fn is_key(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let end = |c: char| c.is_ascii_alphanumeric();
    text.starts_with(end) && text.ends_with(end) && text.chars().all(inner)
}

fn is_label(text: &str) -> bool {
    let end = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.starts_with(end) && text.ends_with(end) && text.chars().all(|c| end(c) || c == '-')
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_name_has_its_own_rule() {
        type Rule = fn(&str) -> Vec<String>;
        let table: [(Rule, &[&str], &[&str]); 5] = [
            (label_key, &["a", "a.b_c-d", "x.y/A"], &["", "/a", "a/", "a/b/c", "-a", "X.y/a", "a b"]),
            (label_value, &["", "A.b_c-1"], &["-", "a b", "a."]),
            (subdomain, &["a.b-c.1"], &["", "A", "a..b", "a.-b"]),
            (label, &["1-a"], &["a.b", "-", "A"]),
            (service, &["a-1"], &["1-a", "a.b", ""]),
        ];
        for (rule, good, bad) in table {
            for text in good {
                assert_eq!(rule(text), Vec::<String>::new(), "{text}");
            }
            for text in bad {
                assert!(!rule(text).is_empty(), "{text}");
            }
        }
        assert_eq!(label("a.b"), ["must not contain dots"]);
        assert_eq!(label_key(&"a".repeat(64)), ["name part must be no more than 63 bytes"]);
        assert_eq!(subdomain(&"a".repeat(254)), ["must be no more than 253 bytes"]);
    }
}
