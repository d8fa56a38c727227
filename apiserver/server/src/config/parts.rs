//! Parts of the configuration: files in a directory that are merged over the configuration file.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::Value;

use super::ServerConfiguration;

/// Ending of the names of the parts, as the kubelet has it. A directory can also have other files.
const ENDING: &str = "conf";

/// Reads a configuration file, and merges the parts in a directory over it, in the order of their names. Fields of a mapping
/// are merged one by one. All other values, lists included, replace earlier ones.
///
/// # Errors
/// A file that cannot be read, or that is no mapping; a field that is unknown or has a wrong type after the merge.
pub(super) fn read(path: &Path, directory: &Path) -> anyhow::Result<ServerConfiguration> {
    let parts = parts(directory)?;
    if parts.is_empty() {
        return ServerConfiguration::read(path);
    }
    let mut merged = mapping(path)?;
    for part in &parts {
        merge(&mut merged, mapping(part)?);
    }
    let named = || {
        let parts: Vec<String> = parts.iter().map(|part| part.display().to_string()).collect();
        format!("{} with {}", path.display(), parts.join(", "))
    };
    // The reader of YAML shows the field, and that of JSON values does not.
    let text = serde_saphyr::to_string(&merged).with_context(named)?;
    let configuration: ServerConfiguration =
        serde_saphyr::from_str(&text).map_err(|error| anyhow::anyhow!("{}, merged: {error}", named()))?;
    configuration.check_head(path)?;
    Ok(configuration)
}

/// Returns the parts, sorted by name.
fn parts(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let unreadable = || format!("--config-dir: {} cannot be read", directory.display());
    let mut parts = Vec::new();
    for entry in std::fs::read_dir(directory).with_context(unreadable)? {
        let path = entry.with_context(unreadable)?.path();
        if path.extension().is_some_and(|ending| ending == ENDING) {
            parts.push(path);
        }
    }
    parts.sort();
    Ok(parts)
}

/// Reads a file with a mapping. A file without content is an empty one.
fn mapping(path: &Path) -> anyhow::Result<Value> {
    let text = crate::pki::read(path)?;
    let value: Value =
        serde_saphyr::from_str(&text).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
    match value {
        Value::Object(_) => Ok(value),
        Value::Null => Ok(Value::Object(serde_json::Map::new())),
        _ => bail!("{}: is no mapping of fields", path.display()),
    }
}

/// Merges a value over another one.
fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (name, value) in over {
                merge(base.entry(name).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a configuration with these parts.
    fn read_with(base: &str, files: &[(&str, &str)]) -> anyhow::Result<ServerConfiguration> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.yaml");
        std::fs::write(&path, format!("apiVersion: capstan.dev/v1alpha1\nkind: ServerConfiguration\n{base}"))
            .unwrap();
        for (name, text) in files {
            std::fs::write(directory.path().join(name), text).unwrap();
        }
        read(&path, directory.path())
    }

    #[test]
    fn parts_are_merged_in_the_order_of_their_names_and_other_files_are_not_read() {
        let found = read_with(
            "host: {kubeconfig: a}\nserverNames: [a, b]\n",
            &[
                ("b.conf", "serverNames: [c]\nlimits: {readsAtOnce: 7}\n"),
                ("a.conf", "serverNames: [d]\nhost: {trustMasters: true}\n"),
                ("empty.conf", "# nothing\n"),
                ("other.yaml", "unknown: 1\n"),
            ],
        )
        .unwrap();
        assert_eq!(found.server_names, ["c"]);
        assert_eq!(found.limits.reads_at_once, 7);
        let host = found.host.unwrap();
        assert_eq!(host.kubeconfig, Path::new("a"));
        assert!(host.trust_masters);
    }

    #[test]
    fn an_error_names_the_field_and_the_files() {
        let error = |text: &str| format!("{:#}", read_with("", &[("a.conf", text)]).unwrap_err());
        for (text, expected) in [
            ("unknown: 1\n", "unknown"),
            ("listen: [1]\n", "a.conf"),
            ("listen: [1]\n", "listen"),
            ("limits: {readsAtOnce: many}\n", "readsAtOnce: many"),
            ("- a\n", "is no mapping"),
            ("kind: Other\n", "ServerConfiguration"),
        ] {
            assert!(error(text).contains(expected), "{text}: {}", error(text));
        }
    }
}
