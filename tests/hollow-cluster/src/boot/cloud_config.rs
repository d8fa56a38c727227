//! Documents for cloud-init.

use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::{BootPlan, commands};
use crate::json::{flag, list, text};

/// Keys of a cloud-config that Cluster API writes. cloud-init ignores an unknown key, but a test should not.
const KEYS: [&str; 12] = [
    "write_files",
    "bootcmd",
    "runcmd",
    "ntp",
    "users",
    "disk_setup",
    "fs_setup",
    "mounts",
    "hostname",
    "packages",
    "growpart",
    "resize_rootfs",
];

/// Keys of one file.
const FILE_KEYS: [&str; 7] = ["path", "content", "encoding", "owner", "permissions", "append", "defer"];

/// Largest file after decompression.
const FILE_LIMIT: u64 = 16 << 20;

/// Reads a rendered document.
pub(super) fn plan(document: &str) -> Result<BootPlan, String> {
    let parsed: Value = serde_saphyr::from_str(document)
        .map_err(|error| format!("Failed loading yaml blob. Invalid format: {error}"))?;
    let fields = parsed.as_object().ok_or("Failed loading yaml blob. Yaml load allows (dict,) root types")?;
    if let Some(unknown) = fields.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(format!(
            "Invalid cloud-config provided: Additional properties are not allowed ({unknown:?} was unexpected)"
        ));
    }
    let mut plan = BootPlan::default();
    for file in list(&parsed, "/write_files") {
        write(&mut plan, file)?;
    }
    for command in list(&parsed, "/runcmd") {
        let line = match command {
            Value::String(line) => line.clone(),
            Value::Array(words) => words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
            other => return Err(format!("Unable to shellify type {other}. Expected list, string, tuple")),
        };
        if plan.kubeadm.is_none() {
            plan.kubeadm = commands::kubeadm(&line);
        }
        plan.commands.push(line);
    }
    Ok(plan)
}

fn write(plan: &mut BootPlan, file: &Value) -> Result<(), String> {
    let unknown = file.as_object().into_iter().flatten().find(|(key, _)| !FILE_KEYS.contains(&key.as_str()));
    if let Some((key, _)) = unknown {
        return Err(format!("Invalid cloud-config provided: write_files: {key:?} was unexpected"));
    }
    let path = text(file, "/path");
    if !path.starts_with('/') {
        return Err(format!("write_files: the path {path:?} is not absolute"));
    }
    if file.get("permissions").is_some_and(|permissions| !permissions.is_string()) {
        return Err(format!("write_files: the permissions of {path} are not a text"));
    }
    let content = decode(text(file, "/content"), text(file, "/encoding"))
        .map_err(|error| format!("write_files: {path}: {error}"))?;
    let held = plan.files.entry(path.to_owned()).or_default();
    if !flag(file, "/append") {
        held.clear();
    }
    held.extend(content);
    Ok(())
}

fn decode(content: &str, encoding: &str) -> Result<Vec<u8>, String> {
    let unpack = |bytes: &[u8]| {
        let mut plain = Vec::new();
        let decoder = flate2::read::MultiGzDecoder::new(bytes);
        decoder.take(FILE_LIMIT).read_to_end(&mut plain).map_err(|error| error.to_string())?;
        Ok(plain)
    };
    // The encoder may have broken the lines.
    let compact = || content.split_whitespace().collect::<String>();
    let base64 = || STANDARD.decode(compact()).map_err(|error| error.to_string());
    match encoding {
        "" | "text/plain" => Ok(content.as_bytes().to_vec()),
        "b64" | "base64" => base64(),
        "gz+b64" | "gz+base64" | "gzip+b64" | "gzip+base64" => unpack(&base64()?),
        "gz" | "gzip" => unpack(content.as_bytes()),
        other => Err(format!("unknown encoding {other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_decoded_and_kubeadm_is_found() {
        let document = "#cloud-config\nwrite_files:\n- path: /a\n  encoding: base64\n  content: aGVsbG8=\n- path: /a\n  \
            append: true\n  content: ' x'\n- path: /b\n  encoding: gzip+base64\n  permissions: '0640'\n  content: \
            H4sIAAAAAAACA8tIzcnJBwCGphA2BQAAAA==\nruncmd:\n- [echo, a]\n- \"kubeadm join --config /b\"\n";
        let plan = plan(document).unwrap();
        assert_eq!(plan.files["/a"], b"hello x");
        assert_eq!(plan.files["/b"], b"hello");
        assert_eq!(plan.commands, ["echo a", "kubeadm join --config /b"]);
        assert_eq!(plan.kubeadm.unwrap().config, "/b");
    }

    #[test]
    fn broken_documents_are_errors() {
        for document in
            ["a", "runcmd: [", "x: 1", "write_files: [{path: b}]", "write_files: [{path: /b, mode: 1}]"]
        {
            assert!(plan(document).is_err(), "{document}");
        }
    }
}
