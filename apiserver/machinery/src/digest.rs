//! Hashes of documents, for `ETag`s, and of names, for uids.

use aws_lc_rs::digest::{SHA512, digest};

/// Returns the SHA-512 in upper-case hex, which upstream uses to tag its documents.
pub fn sha512_hex(bytes: &[u8]) -> String {
    digest(&SHA512, bytes).as_ref().iter().map(|byte| format!("{byte:02X}")).collect()
}

/// Returns the uid of an object that has the same one on every server: a hash of its key.
pub(crate) fn uid_of(key: &str) -> String {
    let mut bytes = [0; 16];
    for (byte, hashed) in bytes.iter_mut().zip(digest(&SHA512, key.as_bytes()).as_ref()) {
        *byte = *hashed;
    }
    uuid::Builder::from_custom_bytes(bytes).into_uuid().to_string()
}
