//! Guards that do not hold.

use bytes::Bytes;

use super::{World, cases};
use crate::{Revision, StoreError};

cases! {
    "creating what exists fails and tells its revision" => create_exists,
    "updating from an old revision fails and tells the new one" => update_conflicts,
    "updating what does not exist is a conflict with none" => update_absent,
    "deleting from an old revision fails and removes nothing" => delete_conflicts,
    "deleting what does not exist is a conflict with none" => delete_absent,
    "an old revision does not fit a key created again" => recreated_conflicts,
}

async fn create_exists(world: World) {
    let revision = world.put("a", "1").await;
    match world.store().create(&world.key("a"), Bytes::from("2")).await {
        Err(StoreError::Exists { key, found }) => assert_eq!((key, found), (world.key("a"), revision)),
        other => panic!("{other:?}"),
    }
    assert_eq!(world.store().get(&world.key("a")).await.unwrap().unwrap().value, "1");
}

async fn update_conflicts(world: World) {
    let first = world.put("a", "1").await;
    let second = world.store().update(&world.key("a"), first, Bytes::from("2")).await.unwrap();
    match world.store().update(&world.key("a"), first, Bytes::from("3")).await {
        Err(StoreError::Conflict { expected, found, .. }) => assert_eq!((expected, found), (first, second)),
        other => panic!("{other:?}"),
    }
    assert_eq!(world.store().get(&world.key("a")).await.unwrap().unwrap().value, "2");
}

async fn update_absent(world: World) {
    match world.store().update(&world.key("a"), Revision::new(7), Bytes::new()).await {
        Err(StoreError::Conflict { found, .. }) => assert_eq!(found, Revision::NONE),
        other => panic!("{other:?}"),
    }
    assert_eq!(world.store().get(&world.key("a")).await.unwrap(), None);
}

async fn delete_conflicts(world: World) {
    let first = world.put("a", "1").await;
    let second = world.store().update(&world.key("a"), first, Bytes::from("2")).await.unwrap();
    match world.store().delete(&world.key("a"), first).await {
        Err(StoreError::Conflict { found, .. }) => assert_eq!(found, second),
        other => panic!("{other:?}"),
    }
    assert!(world.store().get(&world.key("a")).await.unwrap().is_some());
}

async fn delete_absent(world: World) {
    match world.store().delete(&world.key("a"), Revision::new(7)).await {
        Err(StoreError::Conflict { found, .. }) => assert_eq!(found, Revision::NONE),
        other => panic!("{other:?}"),
    }
}

async fn recreated_conflicts(world: World) {
    let first = world.put("a", "1").await;
    world.store().delete(&world.key("a"), first).await.unwrap();
    let second = world.put("a", "2").await;
    match world.store().update(&world.key("a"), first, Bytes::new()).await {
        Err(StoreError::Conflict { found, .. }) => assert_eq!(found, second),
        other => panic!("{other:?}"),
    }
}
