//! Glance images.

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
    }
}
