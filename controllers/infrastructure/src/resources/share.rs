//! Manila shares.

use std::collections::BTreeMap;

use super::plain;

plain! {
    /// Shared file system of Manila.
    Share {
        /// Id.
        id: String,
        /// Name.
        name: String,
        /// `creating`, `available`, `error`, `deleting`, ...
        status: String,
        /// Metadata.
        metadata: BTreeMap<String, String>,
        /// Size, GiB.
        size_gib: i32,
    }
}
