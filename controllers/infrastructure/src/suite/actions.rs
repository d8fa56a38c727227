//! Suite cases about actions on servers.

use super::{World, eventually, refused};
use crate::{
    ActionEvent, ActionRecord, BlockDevice, ErrorClass, NewServer, NewVolume, PortQuery, PowerState,
    RebootKind, Rebuild,
};

impl World {
    /// Waits for the end of the action of a call.
    async fn ended(&self, server: &str, request_id: &str) -> ActionRecord {
        let look = || async move {
            let actions = self.cloud.actions(server).await.unwrap();
            assert!(actions.is_sorted_by(|one, next| one.started_at >= next.started_at), "newest first");
            actions.into_iter().find(|action| action.request_id == request_id && action.result.is_some())
        };
        let record = eventually("the action has ended", look).await;
        assert_eq!(record.result.as_deref(), Some("Success"), "{record:?}");
        assert!(record.finished_at.as_ref().unwrap() >= &record.started_at, "{record:?}");
        assert!(record.started_at.ends_with('Z') && record.finished_at.as_ref().unwrap().ends_with('Z'));
        record
    }
}

pub(super) async fn reboot(world: World) {
    let cloud = &world.cloud;
    let id = cloud.create_server(&world.server("reboot", Vec::new()).await).await.unwrap();
    world.active(&id).await;
    let mut requests = Vec::new();
    for kind in [RebootKind::Soft, RebootKind::Hard] {
        let request = cloud.reboot_server(&id, kind).await.unwrap().unwrap();
        let record = world.ended(&id, &request).await;
        assert_eq!(record.action, "reboot");
        world.active(&id).await;
        assert!(!requests.contains(&request), "request ids must be unique");
        requests.push(request);
    }
    let console = cloud.console_log(&id, 1).await.unwrap();
    assert!(console.lines().count() <= 1, "{console}");
    world.remove_server(&id).await;
    refused(cloud.console_log(&id, 1).await, ErrorClass::NotFound);
    refused(cloud.reboot_server(&id, RebootKind::Hard).await, ErrorClass::NotFound);
}

impl World {
    /// Changes the power state of a server, and waits until Nova's log and the server say so.
    async fn power(&self, server: &str, state: PowerState, action: &str, status: &str) {
        let request = self.cloud.set_power_state(server, state).await.unwrap().unwrap();
        assert_eq!(self.ended(server, &request).await.action, action);
        let look = || async {
            let seen = self.cloud.server(server).await.unwrap();
            (seen.status == status && seen.task_state.is_none()).then_some(())
        };
        eventually("the server has the power state", look).await;
        refused(self.cloud.set_power_state(server, state).await, ErrorClass::Conflict);
    }
}

pub(super) async fn power_off(world: World) {
    let cloud = &world.cloud;
    let id = cloud.create_server(&world.server("power-off", Vec::new()).await).await.unwrap();
    world.active(&id).await;
    world.power(&id, PowerState::Off, "stop", "SHUTOFF").await;
    world.remove_server(&id).await;
    refused(cloud.set_power_state(&id, PowerState::Off).await, ErrorClass::NotFound);
}

pub(super) async fn power_on(world: World) {
    let cloud = &world.cloud;
    let id = cloud.create_server(&world.server("power-on", Vec::new()).await).await.unwrap();
    world.active(&id).await;
    world.power(&id, PowerState::Off, "stop", "SHUTOFF").await;
    world.power(&id, PowerState::On, "start", "ACTIVE").await;
    world.remove_server(&id).await;
}

pub(super) async fn detach(world: World) {
    let cloud = &world.cloud;
    let root = NewVolume {
        name: world.name("off-root"),
        size_gib: 2,
        image_id: Some(world.image(&world.expected.image).await.id),
        ..NewVolume::default()
    };
    let root = world.volume(&root).await.id;
    let claim = NewVolume { name: world.name("off-claim"), size_gib: 1, ..NewVolume::default() };
    let claim = world.volume(&claim).await.id;
    let device = |volume: &str, boot_index, delete_on_termination| BlockDevice {
        volume_id: Some(volume.to_owned()),
        boot_index,
        delete_on_termination,
        ..BlockDevice::default()
    };
    let new = NewServer {
        image_id: None,
        block_devices: vec![device(&root, 0, true), device(&claim, -1, false)],
        ..world.server("off", Vec::new()).await
    };
    let id = cloud.create_server(&new).await.unwrap();
    let server = world.active(&id).await;
    assert_eq!(server.power_state, Some(1));
    assert_eq!(server.kept_volumes, [claim.as_str()]);
    world.power(&id, PowerState::Off, "stop", "SHUTOFF").await;
    assert_eq!(cloud.server(&id).await.unwrap().power_state, Some(4));
    let actions = cloud.actions(&id).await.unwrap();
    let stop = actions.iter().find(|action| action.action == "stop").unwrap();
    let is_reported = |event: &ActionEvent| {
        event.name == "compute_stop_instance" && event.result.as_deref() == Some("Success")
    };
    assert!(stop.events.iter().any(is_reported), "{stop:?}");
    assert_eq!(&cloud.action(&id, &stop.request_id).await.unwrap(), stop);

    refused(cloud.detach_volume(&id, &root).await, ErrorClass::Invalid);
    cloud.detach_volume(&id, &claim).await.unwrap();
    let look = || async {
        let server = cloud.server(&id).await.unwrap();
        let volume = cloud.volume(&claim).await.unwrap();
        (server.kept_volumes.is_empty() && volume.status == "available").then_some(())
    };
    eventually("the volume is detached from the stopped server", look).await;
    refused(cloud.detach_volume(&id, &claim).await, ErrorClass::NotFound);
    let newest = cloud.actions(&id).await.unwrap().remove(0);
    assert_eq!(newest.action, "detach_volume");
    world.remove_server(&id).await;
    world.volume_gone(&root).await;
    cloud.delete_volume(&claim).await.unwrap();
    world.volume_gone(&claim).await;
}

pub(super) async fn rebuild(world: World) {
    let cloud = &world.cloud;
    let site = world.site("rebuild", 8).await;
    let port = world.port(&site, "rebuild", 80).await;
    let new = world.server("rebuild", vec![port.id.clone()]).await;
    let id = cloud.create_server(&new).await.unwrap();
    let before = world.active(&id).await;

    let image_id = world.image(&world.expected.other_image).await.id;
    let rebuild = Rebuild {
        image_id: image_id.clone(),
        user_data: Some(b"#cloud-config\n# new\n".to_vec()),
        metadata: Some([("round".into(), "two".into())].into()),
    };
    let request = cloud.rebuild_server(&id, &rebuild).await.unwrap().unwrap();
    assert_eq!(world.ended(&id, &request).await.action, "rebuild");
    let after = world.active(&id).await;
    assert_eq!((&after.id, &after.name, &after.created_at), (&before.id, &before.name, &before.created_at));
    assert_eq!((after.image_id, Some(after.metadata)), (Some(image_id), rebuild.metadata));
    let query = PortQuery { id: Some(port.id.clone()), ..PortQuery::default() };
    let seen = cloud.ports(&query).await.unwrap().remove(0);
    assert_eq!((&seen.device_id, &seen.fixed_ips), (&id, &port.fixed_ips));

    let unknown = Rebuild { image_id: super::UNKNOWN_ID.into(), ..Rebuild::default() };
    refused(cloud.rebuild_server(&id, &unknown).await, ErrorClass::Invalid);
    world.remove_server(&id).await;
    cloud.delete_port(&port.id).await.unwrap();
    world.clear(site).await;
}
