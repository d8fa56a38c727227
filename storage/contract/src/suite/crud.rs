//! Suite cases about one writer and one key at a time.

use bytes::Bytes;

use super::{World, cases};
use crate::{ListOptions, Revision};

cases! {
    "a created entry can be read" => created_is_read,
    "reading a missing key returns none" => absent_is_none,
    "an update replaces the value and keeps the creation revision" => update_replaces,
    "a deletion removes the key" => delete_removes,
    "revisions increase across all keys" => revisions_increase,
    "the current revision is that of the last write" => current_revision,
    "a deletion has a revision of its own" => delete_has_revision,
    "a failed write uses no revision" => failed_write_uses_no_revision,
}

async fn created_is_read(world: World) {
    let revision = world.put("a", "1").await;
    let entry = world.store().get(&world.key("a")).await.unwrap().unwrap();
    assert_eq!((entry.key, entry.value), (world.key("a"), Bytes::from("1")));
    assert_eq!((entry.modified, entry.created), (revision, revision));
}

async fn absent_is_none(world: World) {
    assert_eq!(world.store().get(&world.key("a")).await.unwrap(), None);
}

async fn update_replaces(world: World) {
    let created = world.put("a", "1").await;
    let modified = world.store().update(&world.key("a"), created, Bytes::from("2")).await.unwrap();
    let entry = world.store().get(&world.key("a")).await.unwrap().unwrap();
    assert_eq!((entry.value, entry.modified, entry.created), (Bytes::from("2"), modified, created));
}

async fn delete_removes(world: World) {
    let revision = world.put("a", "1").await;
    world.store().delete(&world.key("a"), revision).await.unwrap();
    assert_eq!(world.store().get(&world.key("a")).await.unwrap(), None);
    let page = world.store().list(&world.range(), &ListOptions::default()).await.unwrap();
    assert_eq!(page.entries, []);
}

async fn revisions_increase(world: World) {
    let mut last = Revision::NONE;
    for name in ["a", "b", "c", "d"] {
        let revision = world.put(name, "1").await;
        assert!(revision > last, "{revision} after {last}");
        last = revision;
    }
    let updated = world
        .store()
        .update(
            &world.key("a"),
            world.store().get(&world.key("a")).await.unwrap().unwrap().modified,
            Bytes::new(),
        )
        .await
        .unwrap();
    assert!(updated > last);
}

async fn current_revision(world: World) {
    let revision = world.put("a", "1").await;
    assert_eq!(world.store().current_revision().await.unwrap(), revision);
}

async fn delete_has_revision(world: World) {
    let created = world.put("a", "1").await;
    let deleted = world.store().delete(&world.key("a"), created).await.unwrap();
    assert!(deleted > created);
    assert_eq!(world.store().current_revision().await.unwrap(), deleted);
}

async fn failed_write_uses_no_revision(world: World) {
    let revision = world.put("a", "1").await;
    world.store().create(&world.key("a"), Bytes::new()).await.unwrap_err();
    assert_eq!(world.store().current_revision().await.unwrap(), revision);
}
