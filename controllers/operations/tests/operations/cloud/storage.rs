//! Calls of the storage services.

use std::collections::BTreeMap;

use async_trait::async_trait;
use controllers_infrastructure::*;

use super::{FakeCloud, unused};
use crate::nova::error;

#[async_trait]
impl StorageService for FakeCloud {
    async fn volumes_named(&self, name: &str) -> CloudResult<Vec<Volume>> {
        self.look(|nova| {
            let all = nova.volumes.values().map(|(volume, _)| volume.clone());
            Ok(all.filter(|volume| volume.name == name).collect())
        })
    }

    async fn volumes(&self) -> CloudResult<Vec<Volume>> {
        unused("volumes")
    }

    async fn snapshots(&self) -> CloudResult<Vec<Snapshot>> {
        unused("snapshots")
    }

    async fn shares(&self) -> CloudResult<Vec<Share>> {
        unused("shares")
    }

    async fn delete_snapshot(&self, _: &str) -> CloudResult<()> {
        unused("delete_snapshot")
    }

    async fn volume(&self, _: &str) -> CloudResult<Volume> {
        unused("volume")
    }

    async fn create_volume(&self, new: &NewVolume) -> CloudResult<Volume> {
        let new = new.clone();
        self.effect(move |nova| nova.create_volume(&new))
    }

    async fn set_volume_metadata(&self, _: &str, _: &BTreeMap<String, String>) -> CloudResult<()> {
        unused("set_volume_metadata")
    }

    async fn delete_volume(&self, id: &str) -> CloudResult<()> {
        let id = id.to_owned();
        self.effect(move |nova| {
            nova.volumes.remove(&id).map(|_| ()).ok_or_else(|| error(ErrorClass::NotFound, "delete volume"))
        })
    }
}
