//! Size of user data, which OpenStack limits.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

/// Largest user data. Nova accepts 65,535 characters of base64. Unit: bytes.
pub const LIMIT: usize = 49_149;

/// Format of bootstrap data for cloud-init, and of data without a format. Upstream's name.
const CLOUD_CONFIG: &str = "cloud-config";

/// Files that the error of too large user data names.
const NAMED: usize = 5;

/// Error of user data that the cloud would refuse.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the bootstrap data has {raw} bytes, and {compressed} bytes compressed. OpenStack accepts {LIMIT} bytes. \
     Move content out of the bootstrap data{}", named(.largest)
)]
pub struct TooLarge {
    /// Size of the document. Unit: bytes.
    pub raw: usize,
    /// Size of what would be sent: compressed, if the format allows it. Unit: bytes.
    pub compressed: usize,
    /// Path and size of the largest files, from the largest one on.
    pub largest: Vec<(String, usize)>,
}

fn named(files: &[(String, usize)]) -> String {
    if files.is_empty() {
        return String::new();
    }
    let files: Vec<String> = files.iter().map(|(path, size)| format!("{path} ({size} bytes)")).collect();
    format!(". The largest files are {}", files.join(", "))
}

/// Returns the user data of a document: the document itself, or compressed by gzip if it is too large. cloud-init
/// unpacks it. Ignition unpacks single files only, which [`crate::ignition::render`] has compressed.
///
/// # Errors
/// The user data is too large in both forms.
pub fn user_data(document: &str) -> Result<Vec<u8>, TooLarge> {
    let raw = document.len();
    if raw <= LIMIT {
        return Ok(document.as_bytes().to_vec());
    }
    let ignition = document.trim_start().starts_with('{');
    let compressed = if ignition { None } else { gzip(document.as_bytes()) };
    match compressed {
        Some(data) if data.len() <= LIMIT => Ok(data),
        other => {
            let compressed = other.map_or(raw, |data| data.len());
            Err(TooLarge { raw, compressed, largest: largest(document) })
        }
    }
}

/// Returns the user data of the content of a bootstrap Secret in a format. Only the format `cloud-config` is compressed,
/// by [`user_data`]: no reader of another format is known to unpack it.
///
/// # Errors
/// The user data is too large.
pub fn user_data_of(format: &str, content: Vec<u8>) -> Result<Vec<u8>, TooLarge> {
    let raw = content.len();
    if raw <= LIMIT {
        return Ok(content);
    }
    // Content that is no text is compressed already.
    match std::str::from_utf8(&content) {
        Ok(document) if format == CLOUD_CONFIG => user_data(document),
        document => {
            Err(TooLarge { raw, compressed: raw, largest: document.map(largest).unwrap_or_default() })
        }
    }
}

/// Compresses data. The same data always has the same result, because no time is in the header.
pub(crate) fn gzip(data: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(data).and_then(|()| encoder.finish()).ok()
}

/// Returns the largest files of a document in either format.
fn largest(document: &str) -> Vec<(String, usize)> {
    let tree: Value = serde_saphyr::from_str(document).unwrap_or_default();
    let files = tree.get("write_files").or_else(|| tree.pointer("/storage/files"));
    let size = |file: &Value| {
        let content = file.get("content").or_else(|| file.pointer("/contents/source"))?.as_str()?;
        let decoded = file.get("encoding").and_then(|_| STANDARD.decode(content).ok());
        Some((file.get("path")?.as_str()?.to_owned(), decoded.map_or(content.len(), |data| data.len())))
    };
    let mut sizes: Vec<(String, usize)> =
        files.and_then(Value::as_array).into_iter().flatten().filter_map(size).collect();
    sizes.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    sizes.truncate(NAMED);
    sizes
}
