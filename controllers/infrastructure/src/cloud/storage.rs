//! Storage services of a cloud.

use std::collections::BTreeMap;

use async_trait::async_trait;

use crate::{CloudResult, NewVolume, Share, Snapshot, Volume};

/// Storage services: volumes and snapshots (Cinder), and shares (Manila).
#[async_trait]
pub trait StorageService: Send + Sync + std::fmt::Debug + 'static {
    /// Lists the volumes of the project with exactly this name.
    async fn volumes_named(&self, name: &str) -> CloudResult<Vec<Volume>>;
    /// Reads one volume.
    async fn volume(&self, id: &str) -> CloudResult<Volume>;
    /// Creates a volume.
    async fn create_volume(&self, new: &NewVolume) -> CloudResult<Volume>;
    /// Replaces the metadata of a volume.
    async fn set_volume_metadata(&self, id: &str, metadata: &BTreeMap<String, String>) -> CloudResult<()>;
    /// Lists every volume of the project.
    async fn volumes(&self) -> CloudResult<Vec<Volume>>;
    /// Deletes a volume.
    async fn delete_volume(&self, id: &str) -> CloudResult<()>;
    /// Lists the snapshots of the project's volumes.
    async fn snapshots(&self) -> CloudResult<Vec<Snapshot>>;
    /// Deletes a snapshot. Cinder responds before it is deleted.
    async fn delete_snapshot(&self, id: &str) -> CloudResult<()>;
    /// Lists the shares of the project. A cloud without Manila has none, and a user who may list none sees none.
    async fn shares(&self) -> CloudResult<Vec<Share>>;
}
