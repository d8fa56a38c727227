//! Suite cases about compaction.

#![allow(
    clippy::disallowed_methods,
    reason = "a program for tests and measurements awaits its tasks, or ends with them"
)]

use bytes::Bytes;
use futures::StreamExt;

use super::{World, cases, event};
use crate::{EventKind, ListOptions, Revision, StoreError};

cases! {
    "compaction keeps current entries" => current_entries,
    "a list at a revision before the compaction is rejected" => old_list,
    "a watch from a revision before the compaction is rejected" => old_watch,
    "a list at the compacted revision itself succeeds" => list_at_compacted_revision,
    "an unchanged entry from before the compaction is readable at and after it" => unchanged_entry,
    "an entry deleted before the compaction stays deleted" => deleted_entry,
    "a watch from the compacted revision reports its event with the previous entry" => watch_at_compacted_revision,
    "a watch from a compacted deletion reports the deletion" => deletion_at_compacted_revision,
    "a paged list that began before the compaction is rejected after it" => paged_list,
    "concurrent writers and a watch lose nothing during compactions" => under_load,
    "compacting twice is not an error" => repeated_compaction,
    "compacting a future revision is rejected" => future_revision,
    "a watch that is up to date continues after a compaction" => up_to_date_watch,
}

/// A key written three times; the revisions.
async fn history(world: &World) -> [Revision; 3] {
    let first = world.put("a", "1").await;
    let second = world.store().update(&world.key("a"), first, Bytes::from("2")).await.unwrap();
    let third = world.store().update(&world.key("a"), second, Bytes::from("3")).await.unwrap();
    [first, second, third]
}

async fn current_entries(world: World) {
    world.put("untouched", "1").await;
    let [_, _, third] = history(&world).await;
    world.store().compact(third).await.unwrap();
    let page = world.store().list(&world.range(), &ListOptions::default()).await.unwrap();
    let values: Vec<_> = page.entries.iter().map(|entry| entry.value.clone()).collect();
    assert_eq!(values, [Bytes::from("3"), Bytes::from("1")]);
}

async fn old_list(world: World) {
    let [first, _, third] = history(&world).await;
    world.store().compact(third).await.unwrap();
    let options = ListOptions { limit: 0, revision: Some(first) };
    match world.store().list(&world.range(), &options).await {
        Err(StoreError::Compacted { requested, .. }) => assert_eq!(requested, first),
        other => panic!("{other:?}"),
    }
}

async fn old_watch(world: World) {
    let [first, _, third] = history(&world).await;
    world.store().compact(third).await.unwrap();
    let refused = match world.store().watch(&world.range(), first).await {
        Err(error) => error,
        Ok(mut watch) => loop {
            match watch.next().await.unwrap() {
                Ok(crate::WatchItem::Progress(_)) => {}
                Ok(crate::WatchItem::Event(event)) => panic!("{event:?}"),
                Err(error) => break error,
            }
        },
    };
    assert!(matches!(refused, StoreError::Compacted { .. }), "{refused:?}");
}

async fn list_at_compacted_revision(world: World) {
    let [_, second, _] = history(&world).await;
    world.store().compact(second).await.unwrap();
    let options = ListOptions { limit: 0, revision: Some(second) };
    let page = world.store().list(&world.range(), &options).await.unwrap();
    assert_eq!(page.entries[0].value, "2");
}

async fn unchanged_entry(world: World) {
    let old = world.put("old", "kept").await;
    let [_, second, third] = history(&world).await;
    world.store().compact(second).await.unwrap();
    for at in [Some(second), Some(third), None] {
        let page = world.list(at).await;
        let found = page.entries.iter().find(|entry| entry.key == world.key("old")).unwrap();
        assert_eq!((found.value.clone(), found.modified, found.created), (Bytes::from("kept"), old, old));
    }
    let entry = world.store().get(&world.key("old")).await.unwrap().unwrap();
    assert_eq!(entry.value, "kept");
}

async fn deleted_entry(world: World) {
    let first = world.put("gone", "1").await;
    world.remove("gone", first).await;
    let [_, second, third] = history(&world).await;
    world.store().compact(second).await.unwrap();
    for at in [Some(second), Some(third), None] {
        let page = world.list(at).await;
        assert!(page.entries.iter().all(|entry| entry.key == world.key("a")), "{page:?}");
    }
    assert_eq!(world.store().get(&world.key("gone")).await.unwrap(), None);
    world.put("gone", "again").await;
}

async fn watch_at_compacted_revision(world: World) {
    let [first, second, third] = history(&world).await;
    world.store().compact(second).await.unwrap();
    let mut watch = world.watch(second).await;
    let told = event(&mut watch).await;
    assert_eq!((told.revision, told.value), (second, Some(Bytes::from("2"))));
    let previous = told.previous.unwrap();
    assert_eq!((previous.value, previous.modified), (Bytes::from("1"), first));
    assert_eq!(event(&mut watch).await.revision, third);
}

async fn deletion_at_compacted_revision(world: World) {
    let created = world.put("a", "last words").await;
    let deleted = world.remove("a", created).await;
    world.put("b", "1").await;
    world.store().compact(deleted).await.unwrap();
    let told = event(&mut world.watch(deleted).await).await;
    assert_eq!((told.kind, told.revision), (EventKind::Deleted, deleted));
    assert_eq!(told.previous.unwrap().value, "last words");
    assert_eq!(world.list(Some(deleted)).await.entries, []);
}

async fn paged_list(world: World) {
    for name in ["x", "y", "z"] {
        world.put(name, "1").await;
    }
    let page = world.store().list(&world.range(), &ListOptions { limit: 1, revision: None }).await.unwrap();
    let [_, _, third] = history(&world).await;
    world.store().compact(third).await.unwrap();
    let rest = world.range().after(page.entries[0].key.as_bytes());
    let options = ListOptions { limit: 1, revision: Some(page.revision) };
    match world.store().list(&rest, &options).await {
        Err(StoreError::Compacted { requested, .. }) => assert_eq!(requested, page.revision),
        other => panic!("{other:?}"),
    }
}

async fn under_load(world: World) {
    let mut watch = world.watch(world.next_revision().await).await;
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let world = world.clone();
            tokio::spawn(async move {
                let name = format!("w{writer}");
                let mut revision = world.put(&name, "0").await;
                for index in 1..50 {
                    revision = world.replace(&name, revision, &index.to_string()).await;
                }
                revision
            })
        })
        .collect();
    // The watch is read along, as a follower does, so that it is never further behind than the
    // history that is kept.
    let mut count = 0;
    while count < 200 {
        let told = event(&mut watch).await;
        count += 1;
        if count % 20 == 0 {
            world.store().compact(told.revision).await.unwrap();
        }
    }
    let mut last = Vec::new();
    for writer in writers {
        last.push(writer.await.unwrap());
    }
    let page = world.list(None).await;
    assert_eq!(page.entries.iter().map(|entry| entry.modified).collect::<Vec<_>>(), last);
    assert!(page.entries.iter().all(|entry| entry.value == "49"));
}

async fn repeated_compaction(world: World) {
    let [_, second, third] = history(&world).await;
    world.store().compact(third).await.unwrap();
    world.store().compact(third).await.unwrap();
    world.store().compact(second).await.unwrap();
}

async fn future_revision(world: World) {
    let [_, _, third] = history(&world).await;
    let error = world.store().compact(Revision::new(third.number() + 1_000_000)).await.unwrap_err();
    assert!(matches!(error, StoreError::Future { .. }), "{error:?}");
}

async fn up_to_date_watch(world: World) {
    let [_, _, third] = history(&world).await;
    let mut watch = world.store().watch(&world.range(), third).await.unwrap();
    assert_eq!(event(&mut watch).await.revision, third);
    world.store().compact(third).await.unwrap();
    let next = world.put("b", "1").await;
    assert_eq!(event(&mut watch).await.revision, next);
}
