//! Calls of the storage services.

use std::collections::BTreeMap;

use async_trait::async_trait;
use controllers_infrastructure::*;

use super::OpenStackCloud;
use crate::{share, volume};

#[async_trait]
impl StorageService for OpenStackCloud {
    async fn volumes_named(&self, name: &str) -> CloudResult<Vec<Volume>> {
        volume::volumes_named(&self.0, name).await
    }

    async fn volume(&self, id: &str) -> CloudResult<Volume> {
        volume::volume(&self.0, id).await
    }

    async fn create_volume(&self, new: &NewVolume) -> CloudResult<Volume> {
        volume::create_volume(&self.0, new).await
    }

    async fn volumes(&self) -> CloudResult<Vec<Volume>> {
        volume::volumes(&self.0).await
    }

    async fn snapshots(&self) -> CloudResult<Vec<Snapshot>> {
        volume::snapshots(&self.0).await
    }

    async fn shares(&self) -> CloudResult<Vec<Share>> {
        share::shares(&self.0).await
    }

    async fn delete_snapshot(&self, id: &str) -> CloudResult<()> {
        volume::delete_snapshot(&self.0, id).await
    }

    async fn set_volume_metadata(&self, id: &str, metadata: &BTreeMap<String, String>) -> CloudResult<()> {
        volume::set_volume_metadata(&self.0, id, metadata).await
    }

    async fn delete_volume(&self, id: &str) -> CloudResult<()> {
        volume::delete_volume(&self.0, id).await
    }
}
