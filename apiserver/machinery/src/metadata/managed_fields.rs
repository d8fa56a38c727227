//! Validation of `metadata.managedFields`, without the merge of field managers.

use serde_json::Value;

use apiserver_schema::field_errors::{FieldError, FieldPath};
use apiserver_schema::go_text::{is_printable, quoted};

/// Longest name of a manager. Unit: bytes.
const LONGEST_MANAGER: u16 = 128;

/// Longest name of a subresource. Unit: bytes.
const LONGEST_SUBRESOURCE: u16 = 256;

/// Maximum number of errors that are reported. Each repeats a name, and a body may contain many thousands.
const MAX_ERRORS: usize = 100;

/// Adds every error of the entries at `path`, up to a limit.
pub(crate) fn validate(entries: &[Value], path: &FieldPath, errors: &mut Vec<FieldError>) {
    let most = errors.len().saturating_add(MAX_ERRORS);
    for (index, entry) in entries.iter().enumerate() {
        if errors.len() > most {
            break;
        }
        errors.extend(manager_errors(text(entry, "manager"), || path.index(index).child("manager")));
        if is_longer(text(entry, "subresource"), LONGEST_SUBRESOURCE) {
            let path = path.index(index).child("subresource");
            errors.push(FieldError::too_long(path, u64::from(LONGEST_SUBRESOURCE)));
        }
    }
}

/// Returns every error of the name of a field manager. A name that is too long has no other error, because each would
/// repeat it. The path is created only if there is an error.
pub fn manager_errors(manager: &str, field: impl FnOnce() -> FieldPath) -> Vec<FieldError> {
    if is_longer(manager, LONGEST_MANAGER) {
        return vec![FieldError::too_long(field(), u64::from(LONGEST_MANAGER))];
    }
    let mut unseen = manager.char_indices().filter(|(_, character)| !is_printable(*character)).peekable();
    if unseen.peek().is_none() {
        return Vec::new();
    }
    let (mut errors, shown, field) = (Vec::new(), quoted(manager), field());
    for (at, character) in unseen {
        let detail = format!("invalid character U+{:04X} (at position {at})", u32::from(character));
        errors.push(FieldError::invalid_text(field.clone(), &shown, &detail));
    }
    errors
}

fn is_longer(text: &str, most: u16) -> bool {
    text.len() > usize::from(most)
}

fn text<'a>(entry: &'a Value, field: &str) -> &'a str {
    entry.get(field).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_manager_name_is_limited_in_length_and_printable() {
        let errors = |entry: Value| {
            let mut errors = Vec::new();
            validate(&[entry], &FieldPath::new("metadata.managedFields"), &mut errors);
            errors.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(errors(json!({"manager": "x".repeat(128), "subresource": "s".repeat(256)})), [""; 0]);
        assert_eq!(
            errors(json!({"manager": "x".repeat(129), "subresource": "s".repeat(257)})),
            [
                "metadata.managedFields[0].manager: Too long: may not be more than 128 bytes",
                "metadata.managedFields[0].subresource: Too long: may not be more than 256 bytes",
            ]
        );
        let unseen =
            "metadata.managedFields[0].manager: Invalid value: \"a\\x01\\u200b\": invalid character U+";
        assert_eq!(
            errors(json!({"manager": "a\u{1}\u{200b}"})),
            [format!("{unseen}0001 (at position 1)"), format!("{unseen}200B (at position 2)")]
        );
    }

    #[test]
    fn the_number_of_errors_is_bounded() {
        let errors = |entries: &[Value]| {
            let mut errors = Vec::new();
            validate(entries, &FieldPath::new("metadata.managedFields"), &mut errors);
            errors.len()
        };
        assert_eq!(errors(&[json!({"manager": "\u{1}".repeat(1 << 20)})]), 1);
        let entries = vec![json!({"manager": "\u{1}".repeat(128)}); 10_000];
        assert!(errors(&entries) <= MAX_ERRORS + 128 + 1);
    }
}
