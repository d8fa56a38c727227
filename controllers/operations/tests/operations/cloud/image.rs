//! Calls of the image service.

use async_trait::async_trait;
use controllers_infrastructure::*;

use super::{FakeCloud, unused};

#[async_trait]
impl ImageService for FakeCloud {
    async fn images(&self, query: &ImageQuery) -> CloudResult<Vec<Image>> {
        self.look(|nova| {
            let wanted = |image: &&Image| {
                query.id.as_ref().is_none_or(|id| *id == image.id)
                    && query.name.as_ref().is_none_or(|name| *name == image.name)
            };
            Ok(nova.images.iter().filter(wanted).cloned().collect())
        })
    }

    async fn image_import_methods(&self) -> CloudResult<Vec<String>> {
        unused("image_import_methods")
    }

    async fn create_image(&self, _: &NewImage) -> CloudResult<Image> {
        unused("create_image")
    }

    async fn import_image(&self, _: &str, _: &str) -> CloudResult<()> {
        unused("import_image")
    }

    async fn delete_image(&self, _: &str) -> CloudResult<()> {
        unused("delete_image")
    }
}
