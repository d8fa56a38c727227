//! Hashes of documents, for `ETag`s.

use aws_lc_rs::digest::{SHA512, digest};

/// Returns the SHA-512 in upper-case hex, which upstream uses to tag its documents.
pub fn sha512_hex(bytes: &[u8]) -> String {
    digest(&SHA512, bytes).as_ref().iter().map(|byte| format!("{byte:02X}")).collect()
}
