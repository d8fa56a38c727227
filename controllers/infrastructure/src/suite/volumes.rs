//! Suite cases about volumes.

use super::{UNKNOWN_ID, World, eventually, refused};
use crate::{ErrorClass, NewVolume, Volume};

impl World {
    /// Creates a volume, and waits until it is usable.
    pub(super) async fn volume(&self, new: &NewVolume) -> Volume {
        let made = self.cloud.create_volume(new).await.unwrap();
        let id = made.id.as_str();
        let look = || async move {
            let volume = self.cloud.volume(id).await.unwrap();
            assert!(!volume.status.starts_with("error"), "{volume:?}");
            (volume.status == "available").then_some(volume)
        };
        eventually("the volume is available", look).await
    }

    /// Waits until a volume is absent.
    pub(super) async fn volume_gone(&self, id: &str) {
        let look = || async move { self.cloud.volume(id).await.err() };
        let error = eventually("the volume is gone", look).await;
        assert!(error.is_not_found(), "{error}");
    }
}

pub(super) async fn volumes(world: World) {
    let cloud = &world.cloud;
    let new = NewVolume {
        name: world.name("volume"),
        description: "made by the suite".into(),
        size_gib: 1,
        metadata: [("owner".into(), "suite".into())].into(),
        ..NewVolume::default()
    };
    let volume = world.volume(&new).await;
    assert_eq!((&volume.name, volume.size_gib, &volume.metadata), (&new.name, 1, &new.metadata));
    assert_eq!(cloud.volumes_named(&new.name).await.unwrap(), std::slice::from_ref(&volume));
    assert_eq!(cloud.volumes_named(&world.prefix).await.unwrap(), [], "names must match completely");
    assert!(cloud.volumes().await.unwrap().contains(&volume));
    let snapshots = cloud.snapshots().await.unwrap();
    assert!(!snapshots.iter().any(|snapshot| snapshot.volume_id == volume.id), "{snapshots:?}");
    refused(cloud.delete_snapshot(UNKNOWN_ID).await, ErrorClass::NotFound);
    let metadata = [("owner".into(), "another".into())].into();
    cloud.set_volume_metadata(&volume.id, &metadata).await.unwrap();
    assert_eq!(cloud.volume(&volume.id).await.unwrap().metadata, metadata);
    cloud.delete_volume(&volume.id).await.unwrap();
    world.volume_gone(&volume.id).await;
    refused(cloud.delete_volume(&volume.id).await, ErrorClass::NotFound);

    let sizeless = NewVolume { name: world.name("sizeless"), size_gib: 0, ..NewVolume::default() };
    refused(cloud.create_volume(&sizeless).await, ErrorClass::Invalid);
}
