//! Suite cases about several concurrent writers.

#![allow(
    clippy::disallowed_methods,
    reason = "a program for tests and measurements awaits its tasks, or ends with them"
)]

use std::collections::BTreeSet;

use bytes::Bytes;

use futures::StreamExt;

use super::{PATIENCE, World, cases, event};
use crate::{EventKind, KeyRange, ListOptions, Revision, StoreError, Unchanged, WatchItem};

cases! {
    "exactly one of two concurrent creates succeeds" => two_creates,
    "exactly one of sixteen concurrent updates of one revision succeeds" => sixteen_updates,
    "exactly one of sixteen concurrent creates of one key succeeds" => sixteen_creates,
    "the current revision is never older than a revision that was read" => current_revision_is_not_stale,
    "a concurrent update and deletion of one revision do not both succeed" => update_or_delete,
    "concurrent writers that retry on conflict lose no increment" => counter,
    "parallel creates of different keys all succeed with different revisions" => parallel_creates,
    "parallel writes fail only if the expected revision does not match" => only_conflicting_writes_fail,
    "parallel writes return the revisions that gets, lists and watches then report" => revisions_agree,
    "a list at the revision of a parallel write has all earlier writes and no later ones" => list_between_writes,
    "a page at the revision of a parallel write is not empty while entries remain" => page_between_writes,
    "a watch of some of several parallel writes reports progress after all of them" => watch_of_some_writes,
    "a watch that resumes after one of several parallel writes reports all later ones" => watch_between_writes,
    "parallel creates with a parent as guard succeed only before the parent changes" => guard_changes,
}

async fn two_creates(world: World) {
    let (store, key) = (world.store(), world.key("a"));
    let (one, two) = tokio::join!(store.create(&key, Bytes::from("1")), store.create(&key, Bytes::from("2")));
    assert_eq!([one.is_ok(), two.is_ok()].iter().filter(|won| **won).count(), 1, "{one:?} {two:?}");
    let expected = if one.is_ok() { "1" } else { "2" };
    assert_eq!(store.get(&key).await.unwrap().unwrap().value, expected);
}

async fn sixteen_updates(world: World) {
    let mut revision = world.put("a", "0").await;
    for _ in 0..10 {
        let attempts = (0..16).map(|writer| {
            let (store, key) = (world.store(), world.key("a"));
            async move { store.update(&key, revision, Bytes::from(format!("{writer}"))).await }
        });
        let results = futures::future::join_all(attempts).await;
        let won: Vec<_> = results.iter().filter_map(|result| result.as_ref().ok()).collect();
        assert_eq!(won.len(), 1, "{results:?}");
        revision = *won[0];
    }
}

async fn sixteen_creates(world: World) {
    let (store, key) = (world.store(), world.key("a"));
    for _ in 0..10 {
        let attempts = (0..16).map(|writer| {
            let (store, key) = (world.store(), world.key("a"));
            async move { store.create(&key, Bytes::from(format!("{writer}"))).await }
        });
        let results = futures::future::join_all(attempts).await;
        let winner = results.iter().position(Result::is_ok).unwrap();
        let revision = *results[winner].as_ref().unwrap();
        for (writer, result) in results.iter().enumerate().filter(|(writer, _)| *writer != winner) {
            match result {
                Err(StoreError::Exists { found, .. }) => assert_eq!(*found, revision),
                other => panic!("writer {writer}: {other:?}"),
            }
        }
        assert_eq!(store.get(&key).await.unwrap().unwrap().value, winner.to_string());
        store.delete(&key, revision).await.unwrap();
    }
}

async fn current_revision_is_not_stale(world: World) {
    let writer = {
        let world = world.clone();
        tokio::spawn(async move {
            for index in 0..300 {
                world.put(&format!("k{index}"), "1").await;
            }
        })
    };
    while !writer.is_finished() {
        let page = world.list(None).await;
        let newest = page.entries.iter().map(|entry| entry.modified).max().unwrap_or_default();
        assert!(newest <= page.revision, "{newest} is in a page of {}", page.revision);
        let current = world.store().current_revision().await.unwrap();
        assert!(current >= page.revision, "current {current} after a page of {}", page.revision);
    }
    writer.await.unwrap();
}

async fn update_or_delete(world: World) {
    for round in 0..10 {
        let key = world.key(&format!("k{round}"));
        let store = world.store();
        let revision = store.create(&key, Bytes::new()).await.unwrap();
        let (updated, deleted) =
            tokio::join!(store.update(&key, revision, Bytes::new()), store.delete(&key, revision));
        assert!(updated.is_ok() != deleted.is_ok(), "{updated:?} {deleted:?}");
        assert_eq!(store.get(&key).await.unwrap().is_some(), updated.is_ok());
    }
}

async fn counter(world: World) {
    world.put("n", "0").await;
    let writers = (0..8).map(|_| {
        let world = world.clone();
        tokio::spawn(async move {
            let (store, key) = (world.store(), world.key("n"));
            for _ in 0..10 {
                loop {
                    let entry = store.get(&key).await.unwrap().unwrap();
                    let number: u32 = std::str::from_utf8(&entry.value).unwrap().parse().unwrap();
                    match store.update(&key, entry.modified, Bytes::from((number + 1).to_string())).await {
                        Ok(_) => break,
                        Err(StoreError::Conflict { .. }) => {}
                        Err(other) => panic!("{other:?}"),
                    }
                }
            }
        })
    });
    for writer in futures::future::join_all(writers).await {
        writer.unwrap();
    }
    assert_eq!(world.store().get(&world.key("n")).await.unwrap().unwrap().value, "80");
}

async fn parallel_creates(world: World) {
    let start = world.store().current_revision().await.unwrap().next();
    let mut watch = world.store().watch(&world.range(), start).await.unwrap();
    let creates = (0..50).map(|index| {
        let world = world.clone();
        async move { world.put(&format!("k{index}"), "1").await }
    });
    let revisions: BTreeSet<_> = futures::future::join_all(creates).await.into_iter().collect();
    assert_eq!(revisions.len(), 50);
    let mut seen = Vec::new();
    for _ in 0..50 {
        seen.push(event(&mut watch).await.revision);
    }
    assert_eq!(seen, revisions.into_iter().collect::<Vec<_>>());
}

/// Creates keys in parallel, and returns their revisions, in the keys' order.
async fn parallel(world: &World, count: usize) -> Vec<Revision> {
    let creates = (0..count).map(|index| {
        let world = world.clone();
        async move { world.put(&format!("k{index:03}"), &index.to_string()).await }
    });
    futures::future::join_all(creates).await
}

async fn only_conflicting_writes_fail(world: World) {
    let old = parallel(&world, 60).await;
    let updates = old.iter().enumerate().map(|(index, revision)| {
        let world = world.clone();
        async move {
            // Every third update expects a revision that never existed.
            let expected = if index % 3 == 0 { Revision::new(revision.number() + 1_000) } else { *revision };
            world.store().update(&world.key(&format!("k{index:03}")), expected, Bytes::from("new")).await
        }
    });
    for (index, result) in futures::future::join_all(updates).await.into_iter().enumerate() {
        let entry = world.store().get(&world.key(&format!("k{index:03}"))).await.unwrap().unwrap();
        match result {
            Ok(revision) if index % 3 != 0 => {
                assert_eq!((entry.value, entry.modified), (Bytes::from("new"), revision));
            }
            Err(StoreError::Conflict { found, .. }) if index % 3 == 0 => {
                assert_eq!((entry.value, entry.modified), (Bytes::from(index.to_string()), old[index]));
                assert_eq!(found, old[index]);
            }
            other => panic!("{index}: {other:?}"),
        }
    }
}

async fn revisions_agree(world: World) {
    let start = world.next_revision().await;
    let mut watch = world.watch(start).await;
    let created = parallel(&world, 60).await;
    let updates = created.iter().enumerate().map(|(index, revision)| {
        let world = world.clone();
        async move { world.replace(&format!("k{index:03}"), *revision, &format!("{index} again")).await }
    });
    let updated = futures::future::join_all(updates).await;
    let page = world.list(None).await;
    for (index, entry) in page.entries.iter().enumerate() {
        assert_eq!(entry.value, format!("{index} again"));
        assert_eq!(entry.modified, updated[index]);
        assert_eq!(world.store().get(&entry.key).await.unwrap().as_ref(), Some(entry));
    }
    assert!(page.revision >= *updated.iter().max().unwrap());
    let mut expected_events: Vec<_> =
        created.into_iter().zip(0..).map(|(revision, index)| (revision, index, false)).collect();
    expected_events.extend(updated.into_iter().zip(0..).map(|(revision, index)| (revision, index, true)));
    expected_events.sort_unstable();
    for (revision, index, is_update) in expected_events {
        let event = event(&mut watch).await;
        assert_eq!((event.revision, event.key), (revision, world.key(&format!("k{index:03}"))));
        assert_eq!(event.kind, if is_update { EventKind::Updated } else { EventKind::Created });
        let value = if is_update { format!("{index} again") } else { index.to_string() };
        assert_eq!(event.value.unwrap(), value);
    }
}

async fn list_between_writes(world: World) {
    let created = parallel(&world, 40).await;
    let updates = created.iter().enumerate().map(|(index, revision)| {
        let world = world.clone();
        async move { world.replace(&format!("k{index:03}"), *revision, "again").await }
    });
    let updated = futures::future::join_all(updates).await;
    for at in created.iter().chain(&updated) {
        let page = world.list(Some(*at)).await;
        let expected: Vec<_> = (0..created.len())
            .filter(|index| created[*index] <= *at)
            .map(|index| if updated[index] <= *at { updated[index] } else { created[index] })
            .collect();
        let found: Vec<_> = page.entries.iter().map(|entry| entry.modified).collect();
        assert_eq!(found, expected, "as of {at}");
        assert_eq!(page.revision, *at);
    }
}

async fn page_between_writes(world: World) {
    // The last keys first: what sorts before them is created later.
    let creates = (0..40).rev().map(|index| {
        let world = world.clone();
        async move { world.put(&format!("k{index:03}"), "1").await }
    });
    let mut created = futures::future::join_all(creates).await;
    created.reverse();
    for at in &created {
        // A client that reads page by page continues after the last entry, so a page has one while more entries
        // follow.
        let options = ListOptions { limit: 1, revision: Some(*at) };
        let page = world.store().list(&world.range(), &options).await.unwrap();
        let found: Vec<_> = page.entries.iter().map(|entry| entry.modified).collect();
        assert_eq!(found, [*created.iter().find(|created| *created <= at).unwrap()]);
    }
}

async fn watch_between_writes(world: World) {
    let mut created = parallel(&world, 40).await;
    created.sort_unstable();
    for (index, seen) in created.iter().enumerate().step_by(5) {
        let mut watch = world.watch(seen.next()).await;
        for expected in &created[index + 1..] {
            assert_eq!(event(&mut watch).await.revision, *expected);
        }
    }
}

async fn guard_changes(world: World) {
    let parent = world.put("parent", "alive").await;
    let unchanged = Unchanged { key: world.key("parent"), modified: parent };
    // The change comes among the children: those before and after it may be written at the same moment.
    let writes = (0..51).map(|index| {
        let (world, unchanged) = (world.clone(), unchanged.clone());
        async move {
            match index {
                25 => world.store().update(&unchanged.key, parent, Bytes::from("dying")).await,
                _ => {
                    let key = world.key(&format!("child{index}"));
                    world.store().create_while(&key, Bytes::new(), Some(&unchanged)).await
                }
            }
        }
    });
    let mut results = futures::future::join_all(writes).await;
    let changed = results.remove(25).unwrap();
    for result in results {
        match result {
            Ok(revision) => assert!(revision < changed, "{revision} is after {changed}"),
            Err(StoreError::Conflict { key, found, .. }) => {
                assert_eq!((key, found), (unchanged.key.clone(), changed));
            }
            Err(other) => panic!("{other:?}"),
        }
    }
}

/// The last of the writes in one transaction may fail, or lie outside the range: a watch that has reported the others
/// must report that it is complete.
async fn watch_of_some_writes(world: World) {
    let taken = world.put("taken", "1").await;
    let start = world.next_revision().await;
    let mut watch =
        world.store().watch(&KeyRange::prefix(&world.key("in").to_string()), start).await.unwrap();
    let creates = (0..20).map(|index| {
        let world = world.clone();
        async move {
            match index {
                17 => world.store().create(&world.key("elsewhere"), Bytes::new()).await,
                18 => world.store().create(&world.key("taken"), Bytes::new()).await,
                19 => world.store().update(&world.key("gone"), taken, Bytes::new()).await,
                _ => world.store().create(&world.key(&format!("in{index}")), Bytes::new()).await,
            }
        }
    });
    let results = futures::future::join_all(creates).await;
    assert!(results[18].is_err() && results[19].is_err(), "{results:?}");
    let newest = results.into_iter().flatten().max().unwrap();
    let complete = async {
        let mut events = 0;
        loop {
            match watch.next().await.unwrap().unwrap() {
                WatchItem::Event(_) => events += 1,
                WatchItem::Progress(found) if found >= newest => return events,
                WatchItem::Progress(_) => {}
            }
        }
    };
    assert_eq!(tokio::time::timeout(PATIENCE, complete).await.unwrap(), 17);
}
