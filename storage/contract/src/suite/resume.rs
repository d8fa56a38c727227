//! Watches across a cut between the store and its backend.

use super::{World, cases, events};

cases! {
    "a watch resumed where it stopped misses nothing and repeats nothing" => resumed,
    "a watch lives on through a cut, each event once, in order" => through_a_cut,
    "writes before and after a cut are all there" => writes_around_a_cut,
}

async fn resumed(world: World) {
    let start = world.store().current_revision().await.unwrap().next();
    for index in 0..10 {
        world.put(&format!("k{index}"), "1").await;
    }
    let mut watch = world.store().watch(&world.range(), start).await.unwrap();
    let mut seen = events(&mut watch, 4).await;
    drop(watch);
    let last = seen.last().unwrap().revision;
    let mut watch = world.store().watch(&world.range(), last.next()).await.unwrap();
    seen.extend(events(&mut watch, 6).await);
    let keys: Vec<_> = seen.iter().map(|event| event.key.clone()).collect();
    assert_eq!(keys, (0..10).map(|index| world.key(&format!("k{index}"))).collect::<Vec<_>>());
}

async fn through_a_cut(world: World) {
    let start = world.store().current_revision().await.unwrap().next();
    let mut watch = world.store().watch(&world.range(), start).await.unwrap();
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

async fn writes_around_a_cut(world: World) {
    let before = world.put("before", "1").await;
    world.harness.disturb().await;
    let after = world.put("after", "1").await;
    assert!(after > before);
    for name in ["before", "after"] {
        assert!(world.store().get(&world.key(name)).await.unwrap().is_some(), "{name}");
    }
}
