//! Suite cases about lists of flavors, images and external networks.

use super::{UNKNOWN_ID, World, ids, refused};
use crate::{ErrorClass, ImageQuery, NetworkQuery, NewImage};

pub(super) async fn compute(world: World) {
    let flavors = world.cloud.flavors().await.unwrap();
    let flavor = flavors.iter().find(|flavor| flavor.name == world.expected.flavor).unwrap();
    assert!(flavor.vcpus > 0 && flavor.ram_mib > 0 && !flavor.id.is_empty(), "{flavor:?}");
    assert!(world.cloud.compute_zones().await.unwrap().contains(&world.expected.zone));
    for group in world.cloud.server_groups().await.unwrap() {
        assert!(!group.id.is_empty() && !group.policy.is_empty(), "{group:?}");
    }
}

/// Most clouds have no Manila, which is no error.
pub(super) async fn shares(world: World) {
    for share in world.cloud.shares().await.unwrap() {
        assert!(!share.id.is_empty() && !share.status.is_empty() && share.size_gib > 0, "{share:?}");
    }
}

pub(super) async fn images(world: World) {
    let image = world.image(&world.expected.image).await;
    assert_eq!(image.status, "active");
    assert!(image.created_at.ends_with('Z'), "{}", image.created_at);
    let all = world.cloud.images(&ImageQuery::default()).await.unwrap();
    assert!(ids!(all).contains(&image.id.as_str()) && all.len() > 1);

    let by_id = ImageQuery { id: Some(image.id.clone()), ..ImageQuery::default() };
    assert_eq!(world.cloud.images(&by_id).await.unwrap(), std::slice::from_ref(&image));
    let none = [
        ImageQuery { id: Some(UNKNOWN_ID.into()), ..ImageQuery::default() },
        ImageQuery { name: Some("nobody".into()), ..ImageQuery::default() },
        ImageQuery { tags: vec!["nobody".into()], ..ImageQuery::default() },
        ImageQuery { name: Some("nobody".into()), ..by_id },
    ];
    for query in none {
        assert_eq!(world.cloud.images(&query).await.unwrap(), [], "{query:?}");
    }
    if !image.tags.is_empty() {
        let by_tags = ImageQuery { tags: image.tags.clone(), ..ImageQuery::default() };
        let found = world.cloud.images(&by_tags).await.unwrap();
        assert!(ids!(found).contains(&image.id.as_str()));
    }
}

pub(super) async fn created_images(world: World) {
    let new = NewImage {
        name: world.name("image"),
        container_format: "bare".into(),
        disk_format: "raw".into(),
        tags: vec![world.name("image-tag")],
        min_disk_gib: Some(2),
        properties: [("os_distro".into(), "ubuntu".into())].into(),
        ..NewImage::default()
    };
    let made = world.cloud.create_image(&new).await.unwrap();
    assert_eq!((&made.name, made.status.as_str(), made.min_disk_gib), (&new.name, "queued", 2));
    assert!(!made.importing && !made.import_failed, "{made:?}");
    let by_tag = ImageQuery { tags: new.tags.clone(), ..ImageQuery::default() };
    let found = world.cloud.images(&by_tag).await.unwrap();
    assert_eq!(ids!(found), [made.id.as_str()]);
    world.cloud.delete_image(&made.id).await.unwrap();
    assert_eq!(world.cloud.images(&by_tag).await.unwrap(), []);
    refused(world.cloud.delete_image(&made.id).await, ErrorClass::NotFound);
}

pub(super) async fn external_networks(world: World) {
    let external = |external| NetworkQuery { external: Some(external), ..NetworkQuery::default() };
    let outside = world.cloud.networks(&external(true)).await.unwrap();
    assert!(outside.iter().all(|network| network.external));
    assert!(outside.iter().any(|network| network.name == world.expected.external_network));
    let inside = world.cloud.networks(&external(false)).await.unwrap();
    assert!(inside.iter().all(|network| !network.external));
}
