//! Forgetting history.

use bytes::Bytes;
use futures::StreamExt;

use super::{World, cases, event};
use crate::{ListOptions, Revision, StoreError};

cases! {
    "after compaction what is current is still there" => current_stays,
    "after compaction a list from before it is refused" => old_list,
    "after compaction a watch from before it is refused" => old_watch,
    "the compacted revision itself can be read" => at_the_edge,
    "compacting twice is no error" => twice,
    "compacting the future is refused" => future,
    "a watch that is up to date lives on through compaction" => watch_lives,
}

/// A key written three times; the revisions.
async fn history(world: &World) -> [Revision; 3] {
    let first = world.put("a", "1").await;
    let second = world.store().update(&world.key("a"), first, Bytes::from("2")).await.unwrap();
    let third = world.store().update(&world.key("a"), second, Bytes::from("3")).await.unwrap();
    [first, second, third]
}

async fn current_stays(world: World) {
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

async fn at_the_edge(world: World) {
    let [_, second, _] = history(&world).await;
    world.store().compact(second).await.unwrap();
    let options = ListOptions { limit: 0, revision: Some(second) };
    let page = world.store().list(&world.range(), &options).await.unwrap();
    assert_eq!(page.entries[0].value, "2");
}

async fn twice(world: World) {
    let [_, second, third] = history(&world).await;
    world.store().compact(third).await.unwrap();
    world.store().compact(third).await.unwrap();
    world.store().compact(second).await.unwrap();
}

async fn future(world: World) {
    let [_, _, third] = history(&world).await;
    let error = world.store().compact(Revision::new(third.number() + 1_000_000)).await.unwrap_err();
    assert!(matches!(error, StoreError::Future { .. }), "{error:?}");
}

async fn watch_lives(world: World) {
    let [_, _, third] = history(&world).await;
    let mut watch = world.store().watch(&world.range(), third).await.unwrap();
    assert_eq!(event(&mut watch).await.revision, third);
    world.store().compact(third).await.unwrap();
    let next = world.put("b", "1").await;
    assert_eq!(event(&mut watch).await.revision, next);
}
