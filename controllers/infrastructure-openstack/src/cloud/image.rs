//! Calls of the image service.

use async_trait::async_trait;
use controllers_infrastructure::*;

use super::OpenStackCloud;
use crate::image;

#[async_trait]
impl ImageService for OpenStackCloud {
    async fn images(&self, query: &ImageQuery) -> CloudResult<Vec<Image>> {
        Box::pin(self.1.images(query, image::images(&self.0, query))).await
    }

    async fn image_import_methods(&self) -> CloudResult<Vec<String>> {
        image::import_methods(&self.0).await
    }

    async fn create_image(&self, new: &NewImage) -> CloudResult<Image> {
        image::create_image(&self.0, new).await
    }

    async fn import_image(&self, id: &str, url: &str) -> CloudResult<()> {
        image::import_image(&self.0, id, url).await
    }

    async fn delete_image(&self, id: &str) -> CloudResult<()> {
        image::delete_image(&self.0, id).await
    }
}
