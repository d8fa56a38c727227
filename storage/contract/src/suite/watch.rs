//! Suite cases about watches over one connection.

#![allow(
    clippy::disallowed_methods,
    reason = "a program for tests and measurements awaits its tasks, or ends with them"
)]

use bytes::Bytes;
use futures::StreamExt;

use super::{PATIENCE, World, cases, event, events, progress_to};
use crate::{Event, EventKind, KeyRange, Revision, WatchItem};

cases! {
    "a watch reports creations, updates and deletions in order" => kinds_in_order,
    "an update's event has the value before and after" => previous_value,
    "a deletion's event has the last value and its own revision" => deletion,
    "a watch from an old revision reports past events first" => from_an_old_revision,
    "a watch from a future revision waits for it" => from_a_future_revision,
    "a watch reports only its range" => range_only,
    "two watches report the same events" => two_watches,
    "a watch reports each event exactly once under load" => under_load,
    "an idle watch reports progress" => progress,
    "progress never overtakes an event" => progress_in_order,
    "progress advances with writes outside the range" => progress_elsewhere,
    "the previous entry of an event is the entry of the event before it" => previous_entries_match,
    "follow reports the same events as watch, except for previous entries" => followed,
    "a watch of one key reports no other key" => one_key,
    "a watch that is not read for long misses no event" => slow_reader,
    "a dropped watch does not block writers" => dropped_watch,
}

async fn now(world: &World) -> Revision {
    world.store().current_revision().await.unwrap().next()
}

async fn kinds_in_order(world: World) {
    let mut watch = world.store().watch(&world.range(), now(&world).await).await.unwrap();
    let created = world.put("a", "1").await;
    let updated = world.store().update(&world.key("a"), created, Bytes::from("2")).await.unwrap();
    let deleted = world.store().delete(&world.key("a"), updated).await.unwrap();
    let seen: Vec<_> =
        events(&mut watch, 3).await.into_iter().map(|event| (event.kind, event.revision)).collect();
    let expected =
        [(EventKind::Created, created), (EventKind::Updated, updated), (EventKind::Deleted, deleted)];
    assert_eq!(seen, expected);
}

async fn previous_value(world: World) {
    let created = world.put("a", "1").await;
    let mut watch = world.store().watch(&world.range(), created.next()).await.unwrap();
    world.store().update(&world.key("a"), created, Bytes::from("2")).await.unwrap();
    let event = event(&mut watch).await;
    assert_eq!(event.value, Some(Bytes::from("2")));
    let previous = event.previous.unwrap();
    assert_eq!((previous.value, previous.modified, previous.created), (Bytes::from("1"), created, created));
}

async fn deletion(world: World) {
    let created = world.put("a", "1").await;
    let deleted = world.store().delete(&world.key("a"), created).await.unwrap();
    let mut watch = world.store().watch(&world.range(), deleted).await.unwrap();
    let event = event(&mut watch).await;
    assert_eq!((event.kind, event.revision, event.value), (EventKind::Deleted, deleted, None));
    assert_eq!(event.previous.unwrap().value, "1");
}

async fn followed(world: World) {
    let from = now(&world).await;
    let mut watched = world.store().watch(&world.range(), from).await.unwrap();
    let mut followed = world.store().follow(&world.range(), from).await.unwrap();
    let created = world.put("a", "1").await;
    let updated = world.replace("a", created, "2").await;
    world.remove("a", updated).await;
    for (watched, followed) in events(&mut watched, 3).await.into_iter().zip(events(&mut followed, 3).await) {
        let all_but = |event: &Event| (event.kind, event.key.clone(), event.revision, event.value.clone());
        assert_eq!(all_but(&followed), all_but(&watched));
        assert_eq!(watched.created, created);
        assert!(followed.created == created || followed.kind == EventKind::Deleted);
    }
}

async fn from_an_old_revision(world: World) {
    let first = world.put("a", "1").await;
    world.put("b", "1").await;
    let mut watch = world.store().watch(&world.range(), first).await.unwrap();
    world.put("c", "1").await;
    let keys: Vec<_> = events(&mut watch, 3).await.into_iter().map(|event| event.key).collect();
    assert_eq!(keys, [world.key("a"), world.key("b"), world.key("c")]);
}

async fn from_a_future_revision(world: World) {
    let start = world.put("a", "1").await;
    let mut watch = world.store().watch(&world.range(), world.ahead(start, 3)).await.unwrap();
    for name in ["b", "c", "d"] {
        world.put(name, "1").await;
    }
    assert_eq!(event(&mut watch).await.key, world.key("d"));
}

async fn range_only(world: World) {
    let range = KeyRange::prefix(&format!("{}in/", world.prefix));
    let mut watch = world.store().watch(&range, now(&world).await).await.unwrap();
    world.put("in/a", "1").await;
    world.put("in-not/a", "1").await;
    world.put("in/b", "1").await;
    let keys: Vec<_> = events(&mut watch, 2).await.into_iter().map(|event| event.key).collect();
    assert_eq!(keys, [world.key("in/a"), world.key("in/b")]);
}

async fn two_watches(world: World) {
    let start = now(&world).await;
    let mut one = world.store().watch(&world.range(), start).await.unwrap();
    let mut two = world.store().watch(&world.range(), start).await.unwrap();
    for index in 0..10 {
        world.put(&format!("k{index}"), "1").await;
    }
    assert_eq!(events(&mut one, 10).await, events(&mut two, 10).await);
}

async fn under_load(world: World) {
    let mut watch = world.store().watch(&world.range(), now(&world).await).await.unwrap();
    let writers = (0..8).map(|writer| {
        let world = world.clone();
        tokio::spawn(async move {
            let mut written = Vec::new();
            for index in 0..25 {
                written.push(world.put(&format!("w{writer}-{index}"), "1").await);
            }
            written
        })
    });
    let written = futures::future::join_all(writers).await;
    let mut written: Vec<_> = written.into_iter().flat_map(Result::unwrap).collect();
    written.sort_unstable();
    let seen: Vec<_> = events(&mut watch, 200).await.into_iter().map(|event| event.revision).collect();
    assert_eq!(seen, written);
}

async fn progress(world: World) {
    if !world.harness.reports_progress() {
        return;
    }
    let revision = world.put("a", "1").await;
    let mut watch = world.store().watch(&world.range(), revision.next()).await.unwrap();
    progress_to(&mut watch, revision).await;
}

async fn progress_in_order(world: World) {
    let mut watch = world.store().watch(&world.range(), now(&world).await).await.unwrap();
    let writer = {
        let world = world.clone();
        tokio::spawn(async move {
            for index in 0..100 {
                world.put(&format!("k{index}"), "1").await;
            }
        })
    };
    let (mut progress, mut count) = (Revision::NONE, 0);
    let read = async {
        while count < 100 {
            match watch.next().await.unwrap().unwrap() {
                WatchItem::Progress(revision) => progress = progress.max(revision),
                WatchItem::Event(event) => {
                    assert!(event.revision > progress, "{} came after progress {progress}", event.revision);
                    count += 1;
                }
            }
        }
    };
    tokio::time::timeout(PATIENCE, read).await.unwrap();
    writer.await.unwrap();
}

async fn progress_elsewhere(world: World) {
    if !world.harness.reports_progress() {
        return;
    }
    let mut watch = world.watch(world.next_revision().await).await;
    let other = crate::Key::new(format!("/suite/elsewhere{}x", world.prefix)).unwrap();
    let written = world.store().create(&other, Bytes::new()).await.unwrap();
    progress_to(&mut watch, written).await;
}

async fn previous_entries_match(world: World) {
    let created = world.put("a", "0").await;
    let mut watch = world.watch(created).await;
    let writers = (0..4).map(|writer| {
        let world = world.clone();
        tokio::spawn(async move {
            let (store, key) = (world.store(), world.key("a"));
            for index in 0..10 {
                loop {
                    let entry = store.get(&key).await.unwrap().unwrap();
                    let value = Bytes::from(format!("{writer}-{index}"));
                    if store.update(&key, entry.modified, value).await.is_ok() {
                        break;
                    }
                }
            }
        })
    });
    for writer in futures::future::join_all(writers).await {
        writer.unwrap();
    }
    let seen = events(&mut watch, 41).await;
    for pair in seen.windows(2) {
        let previous = pair[1].previous.clone().unwrap();
        assert_eq!((previous.modified, Some(previous.value)), (pair[0].revision, pair[0].value.clone()));
        assert_eq!(previous.created, created);
    }
}

async fn one_key(world: World) {
    let key = world.key("a");
    let range = KeyRange { start: key.as_bytes().to_vec(), end: [key.as_bytes(), &[0]].concat() };
    let mut watch = world.store().watch(&range, world.next_revision().await).await.unwrap();
    for name in ["a/b", "a-b", "ab", "A", "a"] {
        world.put(name, name).await;
    }
    assert_eq!(event(&mut watch).await.key, key);
}

/// Number of events that exceeds every buffer between a store and its reader.
const UNREAD: usize = 2000;

async fn slow_reader(world: World) {
    let mut watch = world.watch(world.next_revision().await).await;
    let value = Bytes::from(vec![b'x'; 2000]);
    let written = futures::stream::iter(0..UNREAD).map(|index| {
        let (store, key, value) = (world.store(), world.key(&format!("k{index}")), value.clone());
        async move { store.create(&key, value).await.unwrap() }
    });
    let mut written: Vec<_> = written.buffer_unordered(64).collect().await;
    written.sort_unstable();
    let seen: Vec<_> = events(&mut watch, UNREAD).await.into_iter().map(|event| event.revision).collect();
    assert_eq!(seen, written);
}

async fn dropped_watch(world: World) {
    let watch = world.store().watch(&world.range(), now(&world).await).await.unwrap();
    drop(watch);
    let unread = world.store().watch(&world.range(), now(&world).await).await.unwrap();
    for index in 0..300 {
        world.put(&format!("k{index}"), "1").await;
    }
    drop(unread);
}
