//! Glance images.

use std::collections::BTreeMap;

use super::plain;

plain! {
    /// Query of images.
    ImageQuery {
        /// Exactly this one.
        id: Option<String>,
        /// With this name.
        name: Option<String>,
        /// With all of these tags.
        tags: Vec<String>,
    }

    /// Glance image.
    Image {
        /// Id.
        id: String,
        /// Name.
        name: String,
        /// Glance's word; `active` is usable.
        status: String,
        /// Tags.
        tags: Vec<String>,
        /// Visibility, e.g. `public`.
        visibility: String,
        /// Time of creation.
        created_at: String,
        /// Smallest disk, GiB.
        min_disk_gib: u64,
        /// Property `os_type`, e.g. `linux`.
        os_type: Option<String>,
        /// Glance fetches its content.
        importing: bool,
        /// Glance could not fetch its content.
        import_failed: bool,
    }

    /// Glance image to create. It has no content yet.
    NewImage {
        /// Name.
        name: String,
        /// Format of the container, e.g. `bare`.
        container_format: String,
        /// Format of the disk, e.g. `qcow2`.
        disk_format: String,
        /// Visibility; `None` for that of the cloud.
        visibility: Option<String>,
        /// Tags.
        tags: Vec<String>,
        /// Protection from deletion.
        protected: bool,
        /// Smallest disk, GiB.
        min_disk_gib: Option<i32>,
        /// Smallest memory, MiB.
        min_ram_mib: Option<i32>,
        /// Properties, which Nova reads.
        properties: BTreeMap<String, String>,
    }
}
