//! Files of an Ignition configuration.

use apiserver_types::{FileEncoding, KubeadmConfigSpec};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use serde_json::{Value, json};

use crate::cloud_config::gzip;
use crate::setup::{DocumentError, File};

/// Characters that are not escaped in a data URL (RFC 2396).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'!')
    .remove(b'~')
    .remove(b'*')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')');

/// Permissions of a file without any. cloud-init has the same default.
const PERMISSIONS: &str = "0644";

/// Form of the contents of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// As upstream has them.
    Plain,
    /// Compressed by gzip where that is shorter. The program Ignition unpacks each file since its version 2.3.0, and thus
    /// Flatcar since release 3185. Ignition 0.35 refuses the document.
    Compressed,
}

/// Returns content as a data URL.
pub(crate) fn source(content: &[u8]) -> String {
    format!("data:,{}", percent_encode(content, RESERVED))
}

/// Returns the contents of a file in Ignition's form.
fn contents(content: &[u8], form: Form) -> Value {
    let plain = source(content);
    let packed = if form == Form::Compressed { gzip(content) } else { None };
    let packed = packed.map(|data| format!("data:;base64,{}", STANDARD.encode(data)));
    match packed.filter(|packed| packed.len() < plain.len()) {
        Some(packed) => json!({"source": packed, "compression": "gzip"}),
        None => json!({"source": plain}),
    }
}

/// Returns the entry of a file.
pub(super) fn file(file: &File, form: Form) -> Result<Value, DocumentError> {
    let path = &file.path;
    let permissions = file.permissions.as_deref().unwrap_or(PERMISSIONS);
    let mode = u32::from_str_radix(permissions, 8).map_err(|_| {
        DocumentError::Unsupported(format!(
            "file {path}: permissions {permissions:?} are not in octal notation"
        ))
    })?;
    let mut entry = json!({
        "filesystem": "root",
        "path": path,
        "mode": mode,
        "contents": contents(&content(file)?, form),
    });
    if let Some(owner) = file.owner.as_deref() {
        let (user, group) = owner.split_once(':').unwrap_or((owner, ""));
        for (key, name) in [("user", user), ("group", group)] {
            if !name.is_empty() {
                entry[key] = json!({"name": name});
            }
        }
    }
    if file.append == Some(true) {
        entry["append"] = true.into();
    }
    Ok(entry)
}

/// Returns the content as it is on the machine.
fn content(file: &File) -> Result<Vec<u8>, DocumentError> {
    let path = file.path.clone();
    match file.encoding {
        None => Ok(file.content.clone()),
        Some(FileEncoding::Base64) => {
            let text: Vec<u8> =
                file.content.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
            STANDARD.decode(text).map_err(|_| DocumentError::Content { path, encoding: "base64" })
        }
        Some(FileEncoding::Gzip | FileEncoding::GzipBase64) => Err(DocumentError::Unsupported(format!(
            "file {path}: an encoding with gzip is not supported with format ignition"
        ))),
    }
}

/// Returns the configuration of the time server daemon.
pub(super) fn time_servers(spec: &KubeadmConfigSpec) -> Option<File> {
    let ntp = spec.ntp.as_ref().filter(|ntp| ntp.enabled == Some(true))?;
    let servers = ntp.servers.as_deref().filter(|servers| !servers.is_empty())?;
    let servers: String = servers.iter().map(|server| format!("server {server}\n")).collect();
    let text = format!(
        "{servers}driftfile /var/lib/ntp/ntp.drift\nrestrict default nomodify nopeer noquery limited kod\nrestrict 127.0.0.1\nrestrict [::1]\n"
    );
    Some(File { owner: None, ..File::of_root("/etc/ntp.conf", "0644", text) })
}
