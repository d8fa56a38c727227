//! An OCI image layout: blobs by their digest, and an index.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

pub(super) const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
pub(super) const EMPTY: &str = "application/vnd.oci.empty.v1+json";
pub(super) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(super) const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
pub(super) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(super) const CYCLONEDX: &str = "application/vnd.cyclonedx+json";

/// Directory of a layout that is being written.
pub(super) struct Layout(PathBuf);

impl Layout {
    /// Creates an empty layout in place of an earlier one.
    pub(super) fn create(directory: &Path) -> anyhow::Result<Self> {
        if directory.join("oci-layout").exists() {
            std::fs::remove_dir_all(directory).with_context(|| format!("{}", directory.display()))?;
        }
        std::fs::create_dir_all(directory.join("blobs/sha256"))
            .with_context(|| format!("{}", directory.display()))?;
        Ok(Self(directory.to_owned()))
    }

    /// Adds a blob. Returns its descriptor.
    pub(super) fn add(&mut self, media_type: &str, content: &[u8]) -> anyhow::Result<Value> {
        let digest = digest(content);
        let name = digest.trim_start_matches("sha256:");
        std::fs::write(self.0.join("blobs/sha256").join(name), content)?;
        Ok(json!({"mediaType": media_type, "digest": digest, "size": content.len()}))
    }

    /// Writes the index.
    pub(super) fn finish(self, manifests: &[Value]) -> anyhow::Result<()> {
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests});
        std::fs::write(self.0.join("index.json"), index.to_string())?;
        Ok(std::fs::write(self.0.join("oci-layout"), json!({"imageLayoutVersion": "1.0.0"}).to_string())?)
    }
}

/// Returns the digest of a blob, such as `sha256:…`.
pub(super) fn digest(content: &[u8]) -> String {
    format!("sha256:{}", hex(content))
}

/// Returns the SHA-256 of a file in hexadecimal digits.
pub(crate) fn hex(content: &[u8]) -> String {
    Sha256::digest(content).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
