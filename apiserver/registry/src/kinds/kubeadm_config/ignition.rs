//! Restrictions of the Ignition format.

use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::{Value, json};

use super::items;

/// Error detail of each field that Ignition does not support.
const UNSUPPORTED: &str = "not supported when spec.format is set to: \"ignition\"";

/// Adds every error of a spec in the Ignition format, or of Ignition settings in another format.
pub(super) fn validate(spec: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let format = spec.get("format").cloned().unwrap_or_else(|| json!(""));
    if format != "ignition" {
        if spec.get("ignition").is_some() {
            let detail = "must be set to \"ignition\" if spec.ignition is set";
            errors.push(FieldError::invalid(path.child("format"), &format, detail));
        }
        return;
    }
    for (index, user) in items(spec, "/users") {
        if user.get("inactive") == Some(&json!(true)) {
            let at = path.child("users").index(index).child("inactive");
            errors.push(FieldError::forbidden(at, UNSUPPORTED));
        }
    }
    for (index, file) in items(spec, "/files") {
        if matches!(file.get("encoding").and_then(Value::as_str), Some("gzip" | "gzip+base64")) {
            let at = path.child("files").index(index).child("encoding");
            errors.push(FieldError::forbidden(at, UNSUPPORTED));
        }
    }
    if spec.get("bootCommands").is_some() {
        errors.push(FieldError::forbidden(path.child("bootCommands"), UNSUPPORTED));
    }
    validate_disks(spec, &path.child("diskSetup"), errors);
}

fn validate_disks(spec: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    for (index, partition) in items(spec, "/diskSetup/partitions") {
        let Some(kind) = partition.get("tableType").filter(|kind| *kind != "gpt") else { continue };
        let at = path.child("partitions").index(index).child("tableType");
        let detail = "only partition type \"gpt\" is supported when spec.format is set to \"ignition\"";
        errors.push(FieldError::invalid(at, kind, detail));
    }
    for (index, filesystem) in items(spec, "/diskSetup/filesystems") {
        let set = ["replaceFS", "partition"].into_iter().filter(|field| filesystem.get(field).is_some());
        let at = path.child("filesystems").index(index);
        errors.extend(set.map(|field| FieldError::forbidden(at.child(field), UNSUPPORTED)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(spec: &Value) -> Vec<String> {
        let mut errors = Vec::new();
        validate(spec, &FieldPath::new("spec"), &mut errors);
        errors.iter().map(|error| error.field.to_string()).collect()
    }

    #[test]
    fn fields_that_ignition_does_not_support_are_refused() {
        let mut spec = json!({
            "users": [{"name": "a", "inactive": true}], "files": [{"path": "/a", "encoding": "gzip"}],
            "bootCommands": ["x"], "diskSetup": {
                "partitions": [{"device": "d", "tableType": "mbr"}, {"device": "e", "tableType": "gpt"}],
                "filesystems": [{"device": "d", "replaceFS": "x", "partition": "auto"}]}});
        assert_eq!(found(&spec), Vec::<String>::new());
        spec["ignition"] = json!({"containerLinuxConfig": {"strict": true}});
        assert_eq!(found(&spec), ["spec.format"]);
        spec["format"] = json!("ignition");
        assert_eq!(
            found(&spec),
            [
                "spec.users[0].inactive",
                "spec.files[0].encoding",
                "spec.bootCommands",
                "spec.diskSetup.partitions[0].tableType",
                "spec.diskSetup.filesystems[0].replaceFS",
                "spec.diskSetup.filesystems[0].partition",
            ]
        );
        assert_eq!(
            found(&json!({"format": "ignition", "ignition": {}, "users": [{"name": "a"}]})),
            Vec::<String>::new()
        );
    }
}
