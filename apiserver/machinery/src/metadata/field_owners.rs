//! The rules of `metadata.managedFields` that are no matter of merging.

use serde_json::Value;

use crate::field_errors::{FieldError, FieldPath};
use crate::go_text::{is_printable, quoted};

/// Longest name of a manager. Unit: bytes.
const LONGEST_MANAGER: u16 = 128;

/// Longest name of a subresource. Unit: bytes.
const LONGEST_SUBRESOURCE: u16 = 256;

/// Every fault of the entries at `path`.
pub(super) fn validate(entries: &[Value], path: &FieldPath, faults: &mut Vec<FieldError>) {
    for (index, entry) in entries.iter().enumerate() {
        let path = path.index(index);
        faults.extend(manager_faults(&path.child("manager"), text(entry, "manager")));
        if is_longer(text(entry, "subresource"), LONGEST_SUBRESOURCE) {
            faults.push(FieldError::too_long(path.child("subresource"), u64::from(LONGEST_SUBRESOURCE)));
        }
    }
}

/// Everything that keeps a text from being the name of a manager.
pub fn manager_faults(field: &FieldPath, manager: &str) -> Vec<FieldError> {
    let mut faults = Vec::new();
    if is_longer(manager, LONGEST_MANAGER) {
        faults.push(FieldError::too_long(field.clone(), u64::from(LONGEST_MANAGER)));
    }
    for (at, character) in manager.char_indices().filter(|(_, character)| !is_printable(*character)) {
        let detail = format!("invalid character U+{:04X} (at position {at})", u32::from(character));
        faults.push(FieldError::invalid_text(field.clone(), &quoted(manager), &detail));
    }
    faults
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
    fn a_manager_is_short_and_can_be_read() {
        let faults = |entry: Value| {
            let mut faults = Vec::new();
            validate(&[entry], &FieldPath::new("metadata.managedFields"), &mut faults);
            faults.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(faults(json!({"manager": "x".repeat(128), "subresource": "s".repeat(256)})), [""; 0]);
        assert_eq!(
            faults(json!({"manager": "x".repeat(129), "subresource": "s".repeat(257)})),
            [
                "metadata.managedFields[0].manager: Too long: may not be more than 128 bytes",
                "metadata.managedFields[0].subresource: Too long: may not be more than 256 bytes",
            ]
        );
        let unseen =
            "metadata.managedFields[0].manager: Invalid value: \"a\\x01\\u200b\": invalid character U+";
        assert_eq!(
            faults(json!({"manager": "a\u{1}\u{200b}"})),
            [format!("{unseen}0001 (at position 1)"), format!("{unseen}200B (at position 2)")]
        );
    }
}
