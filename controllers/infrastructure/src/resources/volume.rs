//! Cinder volumes.

use std::collections::BTreeMap;

use super::plain;

plain! {
    /// Cinder volume.
    Volume {
        /// Id.
        id: String,
        /// Name.
        name: String,
        /// `creating`, `available`, `in-use`, `error`, `deleting`, ...
        status: String,
        /// Metadata, with the owner's tag.
        metadata: BTreeMap<String, String>,
        /// Size, GiB.
        size_gib: i32,
        /// Volume type.
        volume_type: Option<String>,
        /// Ids of the servers that it is attached to.
        servers: Vec<String>,
        /// Time of creation.
        created_at: String,
    }

    /// Snapshot of a Cinder volume. The volume cannot be deleted before it.
    Snapshot {
        /// Id.
        id: String,
        /// Name.
        name: String,
        /// Id of the volume.
        volume_id: String,
        /// `available`, `error`, `deleting`, ...
        status: String,
    }

    /// Volume to create.
    NewVolume {
        /// Name.
        name: String,
        /// Description.
        description: String,
        /// Size, GiB.
        size_gib: i32,
        /// Volume type.
        volume_type: Option<String>,
        /// Zone.
        availability_zone: Option<String>,
        /// Image to fill it with.
        image_id: Option<String>,
        /// Metadata.
        metadata: BTreeMap<String, String>,
    }
}
