//! Hashes of documents, for `ETag`s.

use aws_lc_rs::digest::{SHA512, digest};

/// SHA-512 in upper-case hex, as upstream tags its documents.
pub fn sha512_hex(bytes: &[u8]) -> String {
    digest(&SHA512, bytes).as_ref().iter().map(|byte| format!("{byte:02X}")).collect()
}
