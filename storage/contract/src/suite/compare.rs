//! Suite cases about writes whose guards do not hold.

use bytes::Bytes;

use super::{World, cases, events};
use crate::{Revision, StoreError, Unchanged};

cases! {
    "creating an existing key fails and returns its revision" => create_exists,
    "updating from an old revision fails and returns the current one" => update_conflicts,
    "updating a missing key is a conflict with revision NONE" => update_absent,
    "deleting from an old revision fails and deletes nothing" => delete_conflicts,
    "deleting a missing key is a conflict with revision NONE" => delete_absent,
    "an update that expects revision NONE creates nothing" => update_expects_none,
    "a deletion that expects revision NONE deletes nothing" => delete_expects_none,
    "expecting a future revision is a conflict" => future_conflicts,
    "expecting the revision of another key is a conflict" => other_keys_revision,
    "watches do not report failed writes" => failed_writes_are_not_reported,
    "a creation with a guard succeeds if the guarded key is unchanged" => create_while_unchanged,
    "a creation with a guard fails and names the guarded key if it was updated or deleted" => create_while_changed,
    "creating an existing key with a guard reports that the key exists" => create_while_exists,
}

async fn create_exists(world: World) {
    let revision = world.put("a", "1").await;
    match world.store().create(&world.key("a"), Bytes::from("2")).await {
        Err(StoreError::Exists { key, found }) => assert_eq!((key, found), (world.key("a"), revision)),
        other => panic!("{other:?}"),
    }
    assert_eq!(world.store().get(&world.key("a")).await.unwrap().unwrap().value, "1");
}

async fn create_while_unchanged(world: World) {
    let unchanged = Unchanged { key: world.key("parent"), modified: world.put("parent", "1").await };
    let key = world.key("a");
    let created = world.store().create_while(&key, Bytes::from("1"), Some(&unchanged)).await.unwrap();
    assert_eq!(world.store().get(&key).await.unwrap().unwrap().modified, created);
}

async fn create_while_changed(world: World) {
    let parent = world.key("parent");
    let first = world.put("parent", "1").await;
    let unchanged = Unchanged { key: parent.clone(), modified: first };
    let second = world.replace("parent", first, "2").await;
    let attempt = async |found: Revision| match world
        .store()
        .create_while(&world.key("a"), Bytes::from("1"), Some(&unchanged))
        .await
    {
        Err(StoreError::Conflict { key, expected, found: told }) => {
            assert_eq!((key, expected, told), (parent.clone(), first, found));
        }
        other => panic!("{other:?}"),
    };
    attempt(second).await;
    world.remove("parent", second).await;
    attempt(Revision::NONE).await;
    assert_eq!(world.store().get(&world.key("a")).await.unwrap(), None);
}

async fn create_while_exists(world: World) {
    let first = world.put("a", "1").await;
    let unchanged = Unchanged { key: world.key("parent"), modified: Revision::new(1) };
    match world.store().create_while(&world.key("a"), Bytes::from("2"), Some(&unchanged)).await {
        Err(StoreError::Exists { key, found }) => assert_eq!((key, found), (world.key("a"), first)),
        other => panic!("{other:?}"),
    }
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

async fn update_expects_none(world: World) {
    match world.store().update(&world.key("a"), Revision::NONE, Bytes::from("1")).await {
        Err(StoreError::Conflict { found, .. }) => assert_eq!(found, Revision::NONE),
        other => panic!("{other:?}"),
    }
    assert_eq!(world.store().get(&world.key("a")).await.unwrap(), None);
    let revision = world.put("a", "1").await;
    match world.store().update(&world.key("a"), Revision::NONE, Bytes::from("2")).await {
        Err(StoreError::Conflict { found, .. }) => assert_eq!(found, revision),
        other => panic!("{other:?}"),
    }
}

async fn delete_expects_none(world: World) {
    match world.store().delete(&world.key("a"), Revision::NONE).await {
        Err(StoreError::Conflict { found, .. }) => assert_eq!(found, Revision::NONE),
        other => panic!("{other:?}"),
    }
    let revision = world.put("a", "1").await;
    match world.store().delete(&world.key("a"), Revision::NONE).await {
        Err(StoreError::Conflict { found, .. }) => assert_eq!(found, revision),
        other => panic!("{other:?}"),
    }
    assert!(world.store().get(&world.key("a")).await.unwrap().is_some());
}

async fn future_conflicts(world: World) {
    let revision = world.put("a", "1").await;
    let future = Revision::new(revision.number() + 1_000_000);
    match world.store().update(&world.key("a"), future, Bytes::new()).await {
        Err(StoreError::Conflict { expected, found, .. }) => {
            assert_eq!((expected, found), (future, revision))
        }
        other => panic!("{other:?}"),
    }
}

async fn other_keys_revision(world: World) {
    let one = world.put("a", "1").await;
    let two = world.put("b", "1").await;
    match world.store().delete(&world.key("a"), two).await {
        Err(StoreError::Conflict { found, .. }) => assert_eq!(found, one),
        other => panic!("{other:?}"),
    }
}

async fn failed_writes_are_not_reported(world: World) {
    let mut watch = world.watch(world.next_revision().await).await;
    let first = world.put("a", "1").await;
    let second = world.replace("a", first, "2").await;
    let (store, key) = (world.store(), world.key("a"));
    store.create(&key, Bytes::from("no")).await.unwrap_err();
    store.update(&key, first, Bytes::from("no")).await.unwrap_err();
    store.delete(&key, first).await.unwrap_err();
    let third = world.remove("a", second).await;
    let seen: Vec<_> = events(&mut watch, 3).await.into_iter().map(|event| event.revision).collect();
    assert_eq!(seen, [first, second, third]);
}
