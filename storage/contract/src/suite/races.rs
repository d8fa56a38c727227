//! Several writers at once.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::{World, cases, event};
use crate::StoreError;

cases! {
    "of two creates one wins" => two_creates,
    "of sixteen updates of one revision exactly one wins, every round" => sixteen_updates,
    "of sixteen creates of one key exactly one wins, every round" => sixteen_creates,
    "the current revision is never behind what anybody has read" => never_behind,
    "an update and a deletion of one revision do not both succeed" => update_or_delete,
    "writers who retry lose no increment" => counter,
    "parallel creates of different keys all succeed with different revisions" => parallel_creates,
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

async fn never_behind(world: World) {
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
