//! Suite cases about lists of flavors, images and external networks.

use super::{UNKNOWN_ID, World, ids};
use crate::{ImageQuery, NetworkQuery};

pub(super) async fn compute(world: World) {
    let flavors = world.cloud.flavors().await.unwrap();
    let flavor = flavors.iter().find(|flavor| flavor.name == world.expected.flavor).unwrap();
    assert!(flavor.vcpus > 0 && flavor.ram_mib > 0 && !flavor.id.is_empty(), "{flavor:?}");
    assert!(world.cloud.compute_zones().await.unwrap().contains(&world.expected.zone));
    for group in world.cloud.server_groups().await.unwrap() {
        assert!(!group.id.is_empty() && !group.policy.is_empty(), "{group:?}");
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

pub(super) async fn external_networks(world: World) {
    let external = |external| NetworkQuery { external: Some(external), ..NetworkQuery::default() };
    let outside = world.cloud.networks(&external(true)).await.unwrap();
    assert!(outside.iter().all(|network| network.external));
    assert!(outside.iter().any(|network| network.name == world.expected.external_network));
    let inside = world.cloud.networks(&external(false)).await.unwrap();
    assert!(inside.iter().all(|network| !network.external));
}
