//! Entries of `write_files`.

use apiserver_types::{BootstrapUser, FileEncoding, KubeadmConfigSpec};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::yaml::{Node, is_printable};
use crate::setup::{DocumentError, File, Setup};

/// Returns the entry of a file. A deferred file is written in the final stage, after mounts and users.
pub(super) fn file(file: &File, deferred: bool) -> Result<Node, DocumentError> {
    let (encoding, content) = content(file)?;
    let mut entries = vec![("path".to_owned(), Node::text(&file.path))];
    let mut add = |key: &str, value: Option<Node>| {
        entries.extend(value.map(|value| (key.to_owned(), value)));
    };
    add("encoding", encoding.map(Node::text));
    add("owner", file.owner.as_deref().map(Node::text));
    add("permissions", file.permissions.as_deref().map(Node::text));
    add("append", file.append.map(Node::Flag));
    add("defer", deferred.then_some(Node::Flag(true)));
    add("content", Some(Node::Text(content)));
    Ok(Node::Map(entries))
}

/// Returns encoding and content. What a literal block cannot hold is encoded in base64.
fn content(file: &File) -> Result<(Option<&'static str>, String), DocumentError> {
    let text = std::str::from_utf8(&file.content).ok();
    let name = match file.encoding {
        None => {
            return Ok(match text.filter(|text| text.chars().all(is_printable)) {
                Some(text) => (None, text.to_owned()),
                None => (Some("base64"), STANDARD.encode(&file.content)),
            });
        }
        // Compressed data is binary, so YAML cannot hold it without base64.
        Some(FileEncoding::Gzip) => return Ok((Some("gzip+base64"), STANDARD.encode(&file.content))),
        Some(FileEncoding::Base64) => "base64",
        Some(FileEncoding::GzipBase64) => "gzip+base64",
    };
    match text.filter(|text| text.chars().all(is_printable)) {
        Some(text) => Ok((Some(name), text.to_owned())),
        None => Err(DocumentError::Content { path: file.path.clone(), encoding: name }),
    }
}

/// Returns true if a file of the user needs an owner, a group or a mount that is there only in the final stage.
pub(super) fn is_deferred(file: &File, setup: &Setup<'_>) -> bool {
    let (owner, group) = match file.owner.as_deref().unwrap_or_default().split_once(':') {
        Some((owner, group)) => (owner, Some(group)),
        None => (file.owner.as_deref().unwrap_or_default(), None),
    };
    // A user comes with a group of the same name, unless another one is set.
    let is_new = |user: &BootstrapUser| {
        let own = user.primary_group.as_deref().unwrap_or(&user.name);
        user.name == owner || Some(own) == group
    };
    setup.users.iter().any(is_new) || deferred_by_mount(file, setup.spec)
}

/// Returns true if a file is under a mount, which would hide a file that was written before.
pub(super) fn deferred_by_mount(file: &File, spec: &KubeadmConfigSpec) -> bool {
    let points = spec.mounts.iter().flatten().filter_map(|mount| mount.get(1));
    points
        .map(|point| point.trim_end_matches('/'))
        .filter(|point| point.starts_with('/'))
        .filter_map(|point| file.path.strip_prefix(point))
        .any(|rest| rest.starts_with('/'))
}
