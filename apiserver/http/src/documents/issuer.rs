//! Documents of the issuer of tokens.

use serde_json::Value;

/// Documents by which other programs verify the tokens that the server issues. They change while the server runs.
pub trait IssuerDocuments: Send + Sync + std::fmt::Debug + 'static {
    /// Returns the content type and the document of a path; `None` if the path is none of theirs.
    fn get(&self, path: &str) -> Option<(&'static str, Value)>;
}
