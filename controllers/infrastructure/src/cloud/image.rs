//! Image service of a cloud.

use async_trait::async_trait;

use crate::{CloudResult, Image, ImageQuery, NewImage};

/// Image service (Glance).
#[async_trait]
pub trait ImageService: Send + Sync + std::fmt::Debug + 'static {
    /// Lists images that match; by id at most one.
    async fn images(&self, query: &ImageQuery) -> CloudResult<Vec<Image>>;
    /// Lists the methods by which Glance fetches the content of an image.
    async fn image_import_methods(&self) -> CloudResult<Vec<String>>;
    /// Creates an image without content.
    async fn create_image(&self, new: &NewImage) -> CloudResult<Image>;
    /// Has Glance fetch the content of an image from a URL. Glance responds before it has begun.
    async fn import_image(&self, id: &str, url: &str) -> CloudResult<()>;
    /// Deletes an image. A protected one is an error of class `Forbidden`.
    async fn delete_image(&self, id: &str) -> CloudResult<()>;
}
