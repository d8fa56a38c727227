//! Suite cases about the creation of servers.

use super::{World, eventually, ids};
use crate::{BlockDevice, NewServer, NewVolume, PortQuery};

pub(super) async fn boot(world: World) {
    let cloud = &world.cloud;
    let site = world.site("boot", 7).await;
    let port = world.port(&site, "boot", 70).await;
    let new = NewServer {
        metadata: [("owner".into(), "suite".into())].into(),
        tags: vec!["red".into(), "round".into()],
        user_data: Some(b"#cloud-config\n".to_vec()),
        config_drive: Some(true),
        availability_zone: Some(world.expected.zone.clone()),
        ..world.server("boot", vec![port.id.clone()]).await
    };
    let id = cloud.create_server(&new).await.unwrap();
    assert_eq!(ids!(cloud.servers_named(&new.name).await.unwrap()), [id.as_str()], "listed at once");
    let server = world.active(&id).await;
    assert_eq!((&server.id, &server.name), (&id, &new.name));
    assert_eq!((&server.image_id, &server.metadata), (&new.image_id, &new.metadata));
    assert_eq!(server.availability_zone.as_ref(), Some(&world.expected.zone));
    let mut tags = server.tags.clone();
    tags.sort();
    assert_eq!(tags, new.tags);
    assert!(server.created_at.ends_with('Z') && server.fault.is_none(), "{server:?}");

    let look = || async { cloud.server(&id).await.unwrap().addresses.into_iter().next() };
    let address = eventually("the server has its address", look).await;
    assert_eq!((address.address.as_str(), address.floating), ("10.77.7.70", false));
    assert_eq!(address.network, site.network.name);
    let attached = PortQuery { device_id: Some(id.clone()), ..PortQuery::default() };
    assert_eq!(ids!(cloud.ports(&attached).await.unwrap()), [port.id.as_str()]);
    assert!(ids!(cloud.servers().await.unwrap()).contains(&id.as_str()));
    let half = new.name.strip_suffix("oot").unwrap();
    assert_eq!(cloud.servers_named(half).await.unwrap(), [], "names must match completely");
    let dotted = new.name.replace('-', ".");
    assert_eq!(cloud.servers_named(&dotted).await.unwrap(), [], "names must not be patterns");
    let actions = cloud.actions(&id).await.unwrap();
    assert!(actions.iter().any(|action| action.action == "create"), "{actions:?}");

    world.remove_server(&id).await;
    let query = PortQuery { id: Some(port.id.clone()), ..PortQuery::default() };
    let look =
        || async { cloud.ports(&query).await.unwrap().into_iter().find(|port| port.device_id.is_empty()) };
    eventually("the port is detached from the deleted server", look).await;
    cloud.delete_port(&port.id).await.unwrap();
    world.clear(site).await;
}

pub(super) async fn boot_from_volume(world: World) {
    let cloud = &world.cloud;
    let root = NewVolume {
        name: world.name("root"),
        size_gib: 2,
        image_id: Some(world.image(&world.expected.image).await.id),
        ..NewVolume::default()
    };
    let root = world.volume(&root).await;
    let data =
        world.volume(&NewVolume { name: world.name("data"), size_gib: 1, ..NewVolume::default() }).await;
    let device = |volume: &str, boot_index, delete_on_termination| BlockDevice {
        volume_id: Some(volume.to_owned()),
        boot_index,
        delete_on_termination,
        ..BlockDevice::default()
    };
    let new = NewServer {
        image_id: None,
        block_devices: vec![device(&root.id, 0, true), device(&data.id, -1, false)],
        ..world.server("volume", Vec::new()).await
    };
    let id = cloud.create_server(&new).await.unwrap();
    let server = world.active(&id).await;
    assert_eq!(server.image_id, None);
    assert!(server.volumes.contains(&root.id) && server.volumes.contains(&data.id), "{server:?}");
    assert_eq!(cloud.volume(&root.id).await.unwrap().status, "in-use");
    world.remove_server(&id).await;
    world.volume_gone(&root.id).await;
    let data = data.id.as_str();
    let look = || async move { (cloud.volume(data).await.unwrap().status == "available").then_some(()) };
    eventually("the data volume is detached from the deleted server", look).await;
    cloud.delete_volume(data).await.unwrap();
    world.volume_gone(data).await;
}

pub(super) async fn unschedulable(world: World) {
    let cloud = &world.cloud;
    let flavor_id = world.flavor(&world.expected.impossible_flavor).await;
    let new = NewServer { flavor_id, ..world.server("no-room", Vec::new()).await };
    let id = cloud.create_server(&new).await.unwrap();
    let failed =
        || async { Some(cloud.server(&id).await.unwrap()).filter(|server| server.status == "ERROR") };
    let server = eventually("the server is in ERROR", failed).await;
    let fault = server.fault.unwrap();
    assert!(fault.contains("No valid host"), "{fault}");
    world.remove_server(&id).await;
}
