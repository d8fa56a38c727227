//! File with a change of an object.

use std::io::Read;
use std::path::Path;

use serde_json::Value;

use crate::error::{ExitCode, Failure};

/// Reads a change of the object of this kind and name.
///
/// # Errors
/// The file cannot be read, is not one YAML document, or is about another object.
pub(super) fn read(path: &Path, kind: &str, namespace: &str, name: &str) -> Result<Value, Failure> {
    let failure = |detail: String| {
        let failure = Failure::new(ExitCode::Failed, format!("cannot use {}", path.display()));
        failure.detail("file", detail)
    };
    let text = content(path).map_err(|error| failure(error.to_string()))?;
    parsed(&text, kind, namespace, name).map_err(failure)
}

fn content(path: &Path) -> std::io::Result<String> {
    if path.as_os_str() != "-" {
        return std::fs::read_to_string(path);
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    Ok(text)
}

fn parsed(text: &str, kind: &str, namespace: &str, name: &str) -> Result<Value, String> {
    let change: Value = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    if !change.is_object() {
        return Err(format!("it must be a {kind} or a part of one"));
    }
    let fields = [("/kind", kind), ("/metadata/namespace", namespace), ("/metadata/name", name)];
    for (pointer, expected) in fields {
        let found = change.pointer(pointer).and_then(Value::as_str);
        if let Some(found) = found.filter(|found| *found != expected) {
            let field = pointer.trim_start_matches('/').replace('/', ".");
            return Err(format!("its {field} is {found:?}, and the plan is about {expected:?}"));
        }
    }
    Ok(change)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_is_a_part_of_the_object_that_the_plan_is_about() {
        let of = |text: &str| parsed(text, "Cluster", "team", "prod");
        assert_eq!(of("spec: {paused: null}").unwrap(), json!({"spec": {"paused": null}}));
        assert!(of("kind: Cluster\nmetadata: {name: prod, namespace: team}\n").is_ok());
        let other = of("metadata: {name: test}").unwrap_err();
        assert_eq!(other, "its metadata.name is \"test\", and the plan is about \"prod\"");
        for bad in ["kind: Machine", "metadata: {namespace: x}", "text", "[]", "a: b\n---\nc: d\n", "{"] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_file_that_is_absent_is_named() {
        let error = read(Path::new("/nonexistent/c.yaml"), "Cluster", "team", "prod").unwrap_err();
        assert!(error.to_string().starts_with("error: cannot use /nonexistent/c.yaml"), "{error}");
    }
}
