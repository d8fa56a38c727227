//! Lists and their pages.

use bytes::Bytes;

use super::{World, cases};
use crate::{Entry, KeyRange, ListOptions, Revision, StoreError};

cases! {
    "a list has all keys of the range in order" => ordered,
    "a prefix does not match a longer name" => prefix_is_exact,
    "a limit is kept and what remains is counted" => limited,
    "pages at one revision have every key once while others write" => pinned,
    "a list at an old revision shows what was then" => old_revision,
    "a list at an old revision shows what was deleted since" => old_deleted,
    "a list of the future is refused" => future,
    "an empty range lists nothing at the current revision" => empty,
    "keys sort bytewise" => bytewise,
    "the list's revision is the store's, not the newest item's" => revision_of_store,
}

fn names(world: &World, entries: &[Entry]) -> Vec<String> {
    entries.iter().map(|entry| entry.key.as_str().strip_prefix(&world.prefix).unwrap().to_owned()).collect()
}

async fn ordered(world: World) {
    for name in ["c", "a", "b"] {
        world.put(name, name).await;
    }
    let page = world.store().list(&world.range(), &ListOptions::default()).await.unwrap();
    assert_eq!(names(&world, &page.entries), ["a", "b", "c"]);
    assert_eq!(page.remaining, 0);
    assert_eq!(page.entries[1].value, "b");
}

async fn prefix_is_exact(world: World) {
    world.put("a/x", "1").await;
    world.put("ab/x", "1").await;
    let range = KeyRange::prefix(&format!("{}a/", world.prefix));
    let page = world.store().list(&range, &ListOptions::default()).await.unwrap();
    assert_eq!(names(&world, &page.entries), ["a/x"]);
}

async fn limited(world: World) {
    for index in 0..5 {
        world.put(&format!("k{index}"), "1").await;
    }
    let page = world.store().list(&world.range(), &ListOptions { limit: 2, revision: None }).await.unwrap();
    assert_eq!(names(&world, &page.entries), ["k0", "k1"]);
    assert_eq!(page.remaining, 3);
}

async fn pinned(world: World) {
    for index in 0..30 {
        world.put(&format!("k{index:02}"), "old").await;
    }
    let (mut range, mut revision, mut seen) = (world.range(), None, Vec::new());
    for round in 0..100 {
        let page = world.store().list(&range, &ListOptions { limit: 7, revision }).await.unwrap();
        revision = Some(page.revision);
        assert!(page.entries.iter().all(|entry| entry.value == "old"));
        seen.extend(names(&world, &page.entries));
        // Somebody adds before and behind us, changes and removes.
        world.put(&format!("k00-{round}"), "new").await;
        world.put(&format!("k29-{round}"), "new").await;
        let victim = world.key(&format!("k{:02}", 29 - round));
        let entry = world.store().get(&victim).await.unwrap().unwrap();
        if round % 2 == 0 {
            world.store().delete(&victim, entry.modified).await.unwrap();
        } else {
            world.store().update(&victim, entry.modified, Bytes::from("new")).await.unwrap();
        }
        match page.entries.last() {
            Some(last) if page.remaining > 0 => range = range.after(last.key.as_bytes()),
            _ => break,
        }
    }
    assert_eq!(seen, (0..30).map(|index| format!("k{index:02}")).collect::<Vec<_>>());
}

async fn old_revision(world: World) {
    let first = world.put("a", "1").await;
    world.store().update(&world.key("a"), first, Bytes::from("2")).await.unwrap();
    world.put("b", "1").await;
    let page =
        world.store().list(&world.range(), &ListOptions { limit: 0, revision: Some(first) }).await.unwrap();
    assert_eq!(page.revision, first);
    assert_eq!(names(&world, &page.entries), ["a"]);
    assert_eq!(page.entries[0].value, "1");
    assert_eq!(page.entries[0].modified, first);
}

async fn old_deleted(world: World) {
    let first = world.put("a", "1").await;
    world.store().delete(&world.key("a"), first).await.unwrap();
    let page =
        world.store().list(&world.range(), &ListOptions { limit: 0, revision: Some(first) }).await.unwrap();
    assert_eq!(names(&world, &page.entries), ["a"]);
}

async fn future(world: World) {
    let current = world.put("a", "1").await;
    let requested = Revision::new(current.number() + 1_000_000);
    let options = ListOptions { limit: 0, revision: Some(requested) };
    match world.store().list(&world.range(), &options).await {
        Err(StoreError::Future { requested: asked, .. }) => assert_eq!(asked, requested),
        other => panic!("{other:?}"),
    }
}

async fn empty(world: World) {
    let current = world.store().current_revision().await.unwrap();
    let page = world.store().list(&world.range(), &ListOptions::default()).await.unwrap();
    assert_eq!((page.entries.len(), page.remaining), (0, 0));
    assert!(page.revision >= current);
}

async fn bytewise(world: World) {
    for name in ["a", "B", "a/b", "a-b", "a.b", "é", "z"] {
        world.put(name, "1").await;
    }
    let page = world.store().list(&world.range(), &ListOptions::default()).await.unwrap();
    assert_eq!(names(&world, &page.entries), ["B", "a", "a-b", "a.b", "a/b", "z", "é"]);
}

async fn revision_of_store(world: World) {
    world.put("a", "1").await;
    let other = crate::Key::new(format!("/suite/elsewhere{}x", world.prefix)).unwrap();
    let later = world.store().create(&other, Bytes::new()).await.unwrap();
    let page = world.store().list(&world.range(), &ListOptions::default()).await.unwrap();
    assert!(page.revision >= later);
}
