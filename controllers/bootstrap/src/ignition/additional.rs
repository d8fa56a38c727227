//! Container Linux Config of the user, which is appended to the generated configuration.
//!
//! The parts of [`LISTS`] are converted. Other parts are refused, because they would be lost silently.

use serde_json::{Map, Value, json};

use super::files::source;
use crate::setup::DocumentError;

/// Lists that are converted: section and list.
const LISTS: [(&str, &str); 9] = [
    ("systemd", "units"),
    ("networkd", "units"),
    ("storage", "files"),
    ("storage", "directories"),
    ("storage", "links"),
    ("storage", "filesystems"),
    ("storage", "raid"),
    ("passwd", "users"),
    ("passwd", "groups"),
];

/// Lists whose entries are in a filesystem, by default that of the root.
const IN_FILESYSTEM: [&str; 3] = ["files", "directories", "links"];

/// Appends a Container Linux Config in YAML to the generated configuration.
pub(super) fn append(document: &mut Value, text: &str) -> Result<(), DocumentError> {
    // A mode such as 0600 is octal in YAML 1.1, in which these configurations are written.
    // Errors become conditions, and do not quote lines, which may have passwords.
    let options = serde_saphyr::options! { legacy_octal_numbers: true, with_snippet: false };
    let config: Value =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| wrong(&error.to_string()))?;
    let sections = match &config {
        Value::Null => return Ok(()),
        Value::Object(sections) => sections,
        _ => return Err(wrong("an object is expected")),
    };
    for (section, lists) in sections {
        for (list, entries) in lists.as_object().into_iter().flatten() {
            if !LISTS.contains(&(section.as_str(), list.as_str())) {
                return Err(wrong(&format!("{section}.{list} is not supported")));
            }
            let entries = entries.as_array().ok_or_else(|| wrong(&format!("{section}.{list} is no list")))?;
            let converted = entries.iter().map(|entry| converted(section, list, entry));
            let converted = converted.collect::<Result<Vec<_>, _>>()?;
            match &mut document[section][list] {
                Value::Array(known) => known.extend(converted),
                other => *other = converted.into(),
            }
        }
    }
    Ok(())
}

fn wrong(message: &str) -> DocumentError {
    DocumentError::Unsupported(format!("ignition.containerLinuxConfig.additionalConfig: {message}"))
}

/// Converts an entry of a list: names are in another style, and content is a data URL.
fn converted(section: &str, list: &str, entry: &Value) -> Result<Value, DocumentError> {
    let Value::Object(mut fields) = renamed(entry) else {
        return Err(wrong(&format!("an entry of {section}.{list} is no object")));
    };
    if IN_FILESYSTEM.contains(&list) {
        fields.entry("filesystem").or_insert_with(|| "root".into());
    }
    if let (Some(enable), "units") = (fields.remove("enable"), list) {
        fields.entry("enabled").or_insert(enable);
    }
    if list == "files" {
        fields.entry("mode").or_insert_with(|| 0o644.into());
        contents(&mut fields)?;
    }
    Ok(Value::Object(fields))
}

/// Converts the content of a file: `inline`, or `remote` with a URL, its compression and its hash.
fn contents(fields: &mut Map<String, Value>) -> Result<(), DocumentError> {
    let Some(contents) = fields.get("contents") else { return Ok(()) };
    let inline = contents.get("inline").and_then(Value::as_str);
    let url = contents.pointer("/remote/url").and_then(Value::as_str);
    let source = match (inline, url) {
        (Some(text), _) => source(text.as_bytes()),
        (None, Some(url)) => url.to_owned(),
        (None, None) => return Err(wrong("the contents of a file are neither inline nor remote")),
    };
    let mut converted = json!({"source": source});
    if let Some(compression) = contents.pointer("/remote/compression").filter(|_| inline.is_none()) {
        converted["compression"] = compression.clone();
    }
    if let Some(verification) = contents.pointer("/remote/verification").filter(|_| inline.is_none()) {
        converted["verification"] = json!({"hash": hash(verification)?});
    }
    fields.insert("contents".to_owned(), converted);
    Ok(())
}

/// Returns the hash of a remote file in Ignition's form: its function, a dash and the sum.
fn hash(verification: &Value) -> Result<String, DocumentError> {
    let text = |name: &str| verification.pointer(&format!("/hash/{name}")).and_then(Value::as_str);
    match (text("function"), text("sum")) {
        (Some(function), Some(sum)) => Ok(format!("{function}-{sum}")),
        _ => Err(wrong("the verification of a remote file needs hash.function and hash.sum")),
    }
}

/// Returns a value with all keys in the style of Ignition, e.g. `sshAuthorizedKeys` for `ssh_authorized_keys`.
fn renamed(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (camel(key), renamed(value))).collect::<Map<_, _>>().into()
        }
        Value::Array(items) => items.iter().map(renamed).collect(),
        other => other.clone(),
    }
}

fn camel(key: &str) -> String {
    let mut words = key.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |key, word| {
        let mut characters = word.chars();
        let initial = characters.next().map(|it| it.to_ascii_uppercase());
        key + &initial.into_iter().chain(characters).collect::<String>()
    })
}
