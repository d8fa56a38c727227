//! Suite cases about values.

use bytes::Bytes;

use super::{World, cases, event};
use crate::StoreError;

cases! {
    "an empty value is stored" => empty,
    "a value may contain any byte" => binary,
    "a value of 1 MiB is returned unchanged by reads and watches" => large,
    "a value at the limit is accepted" => at_the_limit,
    "a value over the limit is rejected, and nothing is written" => too_large,
    "an update over the limit is rejected and keeps the old value" => update_too_large,
}

async fn empty(world: World) {
    world.put("a", "").await;
    let entry = world.store().get(&world.key("a")).await.unwrap().unwrap();
    assert_eq!(entry.value, "");
    let mut watch = world.watch(entry.modified).await;
    assert_eq!(event(&mut watch).await.value, Some(Bytes::new()));
    let page = world.list(Some(entry.modified)).await;
    assert_eq!(page.entries, [entry]);
}

async fn binary(world: World) {
    let all: Bytes = (0..=u8::MAX).collect();
    world.store().create(&world.key("a"), all.clone()).await.unwrap();
    assert_eq!(world.store().get(&world.key("a")).await.unwrap().unwrap().value, all);
}

async fn large(world: World) {
    let value = Bytes::from(vec![b'x'; 1 << 20]);
    let start = world.store().current_revision().await.unwrap().next();
    let mut watch = world.store().watch(&world.range(), start).await.unwrap();
    for name in ["a", "b", "c", "d", "e", "f"] {
        world.store().create(&world.key(name), value.clone()).await.unwrap();
    }
    let page = world.store().list(&world.range(), &crate::ListOptions::default()).await.unwrap();
    assert_eq!(page.entries.len(), 6);
    assert!(page.entries.iter().all(|entry| entry.value == value));
    for _ in 0..6 {
        assert_eq!(event(&mut watch).await.value, Some(value.clone()));
    }
}

async fn at_the_limit(world: World) {
    let value = Bytes::from(vec![b'y'; world.harness.largest_value()]);
    let revision = world.store().create(&world.key("a"), value.clone()).await.unwrap();
    assert_eq!(world.store().get(&world.key("a")).await.unwrap().unwrap().value, value);
    world.replace("a", revision, "small").await;
    let mut watch = world.watch(revision).await;
    assert_eq!(event(&mut watch).await.value, Some(value.clone()));
    assert_eq!(event(&mut watch).await.previous.unwrap().value, value);
}

async fn too_large(world: World) {
    let value = Bytes::from(vec![b'x'; world.harness.largest_value() + 1]);
    let error = world.store().create(&world.key("a"), value).await.unwrap_err();
    assert!(matches!(error, StoreError::TooLarge { .. }), "{error:?}");
    assert_eq!(world.store().get(&world.key("a")).await.unwrap(), None);
}

async fn update_too_large(world: World) {
    let revision = world.put("a", "1").await;
    let value = Bytes::from(vec![b'x'; world.harness.largest_value() + 1]);
    let error = world.store().update(&world.key("a"), revision, value).await.unwrap_err();
    assert!(matches!(error, StoreError::TooLarge { .. }), "{error:?}");
    assert_eq!(world.store().get(&world.key("a")).await.unwrap().unwrap().modified, revision);
}
