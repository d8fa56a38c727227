//! Suite cases about watches that resume where another stopped, and across an interruption of the backend's connection.

#![allow(
    clippy::disallowed_methods,
    reason = "a program for tests and measurements awaits its tasks, or ends with them"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;

use super::{PATIENCE, World, cases, event, events, progress_to};
use crate::{Revision, StoreError, WatchItem};

cases! {
    "a watch resumed where it stopped misses and repeats no event" => resumed,
    "a watch from each revision reports exactly the events since that revision" => from_each_revision,
    "a watch resumed after progress misses no event" => after_progress,
    "a watch continues after an interruption, with each event once and in order" => across_an_interruption,
    "writes before and after an interruption are all stored" => writes_around_an_interruption,
    "a watch reports exactly the writes that succeed during interruptions" => writers_across_an_interruption,
    "an idle watch also reports progress after an interruption" => progress_after_an_interruption,
    "a watch from a future revision still waits for it after an interruption" => future_revision_across_an_interruption,
}

async fn resumed(world: World) {
    let start = world.next_revision().await;
    for index in 0..10 {
        world.put(&format!("k{index}"), "1").await;
    }
    let mut watch = world.watch(start).await;
    let mut seen = events(&mut watch, 4).await;
    drop(watch);
    let last = seen.last().unwrap().revision;
    let mut watch = world.watch(last.next()).await;
    seen.extend(events(&mut watch, 6).await);
    let keys: Vec<_> = seen.iter().map(|event| event.key.clone()).collect();
    assert_eq!(keys, (0..10).map(|index| world.key(&format!("k{index}"))).collect::<Vec<_>>());
}

async fn from_each_revision(world: World) {
    let mut written = Vec::new();
    for index in 0..12 {
        written.push(world.put(&format!("k{index}"), "1").await);
    }
    for (index, from) in written.iter().enumerate() {
        let left = &written[index..];
        let seen = events(&mut world.watch(*from).await, left.len()).await;
        assert_eq!(seen.iter().map(|event| event.revision).collect::<Vec<_>>(), left);
    }
}

async fn after_progress(world: World) {
    if !world.harness.reports_progress() {
        return;
    }
    let first = world.put("a", "1").await;
    let mut watch = world.watch(first.next()).await;
    let told = match tokio::time::timeout(PATIENCE, watch.next()).await.unwrap().unwrap().unwrap() {
        WatchItem::Progress(told) => told,
        WatchItem::Event(event) => panic!("{event:?}"),
    };
    drop(watch);
    let second = world.put("b", "1").await;
    assert!(told < second);
    assert_eq!(event(&mut world.watch(told.next()).await).await.revision, second);
}

async fn across_an_interruption(world: World) {
    let mut watch = world.watch(world.next_revision().await).await;
    let mut written = Vec::new();
    for round in 0..3 {
        for index in 0..5 {
            written.push(world.put(&format!("r{round}-{index}"), "1").await);
        }
        world.harness.disturb().await;
    }
    written.push(world.put("last", "1").await);
    let seen: Vec<_> =
        events(&mut watch, written.len()).await.into_iter().map(|event| event.revision).collect();
    assert_eq!(seen, written);
}

async fn writes_around_an_interruption(world: World) {
    let before = world.put("before", "1").await;
    world.harness.disturb().await;
    let after = world.put("after", "1").await;
    assert!(after > before);
    for name in ["before", "after"] {
        assert!(world.store().get(&world.key(name)).await.unwrap().is_some(), "{name}");
    }
}

/// Creates `name` as a careful client does: an outcome that is unknown is answered by reading.
async fn create_with_retries(world: &World, name: &str) -> Revision {
    let (store, key, value) = (world.store(), world.key(name), Bytes::from(name.to_owned()));
    loop {
        match store.create(&key, value.clone()).await {
            Ok(revision) => return revision,
            // Only we write this key, so that what exists is what an earlier attempt left.
            Err(StoreError::Exists { found, .. }) => return found,
            Err(StoreError::Unknown { .. } | StoreError::Unavailable { .. }) => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(other) => panic!("{other:?}"),
        }
    }
}

async fn writers_across_an_interruption(world: World) {
    let mut watch = world.watch(world.next_revision().await).await;
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let (world, stop) = (world.clone(), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut written = Vec::new();
                for index in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    written.push(create_with_retries(&world, &format!("w{writer}-{index}")).await);
                }
                written
            })
        })
        .collect();
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        world.harness.disturb().await;
    }
    stop.store(true, Ordering::Relaxed);
    let mut written = Vec::new();
    for writer in writers {
        written.extend(writer.await.unwrap());
    }
    written.sort_unstable();
    let seen: Vec<_> =
        events(&mut watch, written.len()).await.into_iter().map(|event| event.revision).collect();
    assert_eq!(seen, written);
    // What is there is what was written: nothing acknowledged is lost, nothing was written twice.
    let mut listed: Vec<_> = world.list(None).await.entries.iter().map(|entry| entry.modified).collect();
    listed.sort_unstable();
    assert_eq!(listed, written);
}

async fn progress_after_an_interruption(world: World) {
    if !world.harness.reports_progress() {
        return;
    }
    let mut watch = world.watch(world.next_revision().await).await;
    world.harness.disturb().await;
    let other = crate::Key::new(format!("/suite/elsewhere{}x", world.prefix)).unwrap();
    let written = world.store().create(&other, Bytes::new()).await.unwrap();
    progress_to(&mut watch, written).await;
    let next = world.put("a", "1").await;
    assert_eq!(event(&mut watch).await.revision, next);
}

async fn future_revision_across_an_interruption(world: World) {
    let start = world.put("a", "1").await;
    let mut watch = world.watch(world.ahead(start, 3)).await;
    world.put("b", "1").await;
    world.harness.disturb().await;
    world.put("c", "1").await;
    world.put("d", "1").await;
    assert_eq!(event(&mut watch).await.key, world.key("d"));
}
