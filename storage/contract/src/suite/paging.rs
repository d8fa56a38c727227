//! Suite cases about lists and their pages.

#![allow(
    clippy::disallowed_methods,
    reason = "a program for tests and measurements awaits its tasks, or ends with them"
)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;

use super::{World, cases, events};
use crate::{Entry, KeyRange, ListOptions, Revision, StoreError};

cases! {
    "a list returns all keys of the range in order" => ordered,
    "a prefix does not match a longer name" => prefix_is_exact,
    "a page respects the limit and counts the remaining entries" => limited,
    "pages at one revision have every key once during concurrent writes" => pages_at_one_revision,
    "pages count the remaining entries exactly during concurrent writes" => exact_counts_under_load,
    "a page at an old revision counts the remaining entries of that revision" => old_page,
    "a range resumed after its last key, or past its end, is empty" => after_the_last,
    "a list at an old revision returns the entries of that revision" => old_revision,
    "a list at each old revision returns exactly the state of that revision" => every_revision,
    "a list at an old revision returns entries that were deleted later" => old_deleted,
    "a list at a future revision is rejected" => future,
    "a list of an empty range has no entries and the current revision" => empty,
    "keys sort bytewise" => bytewise,
    "keys in any script are stored, found and paged" => any_script,
    "the revision of a list is that of the store, not of the newest entry" => revision_of_store,
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

async fn pages_at_one_revision(world: World) {
    for index in 0..30 {
        world.put(&format!("k{index:02}"), "old").await;
    }
    let (mut range, mut revision, mut seen) = (world.range(), None, Vec::new());
    for round in 0..100 {
        let page = world.store().list(&range, &ListOptions { limit: 7, revision }).await.unwrap();
        revision = Some(page.revision);
        assert!(page.entries.iter().all(|entry| entry.value == "old"));
        seen.extend(names(&world, &page.entries));
        // Another client adds entries before and after the page, changes some and removes some.
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

async fn exact_counts_under_load(world: World) {
    const TOTAL: usize = 60;
    for index in 0..TOTAL {
        world.put(&format!("k{index:02}"), "old").await;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let (world, stop) = (world.clone(), Arc::clone(&stop));
            tokio::spawn(async move {
                for index in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let name = format!("k{:02}-{writer}-{index}", index % TOTAL);
                    let revision = world.put(&name, "new").await;
                    world.remove(&name, revision).await;
                }
            })
        })
        .collect();
    for _ in 0..5 {
        let pin = world.list(None).await;
        let expected = names(&world, &pin.entries);
        let (mut range, mut seen) = (world.range(), Vec::new());
        loop {
            let options = ListOptions { limit: 7, revision: Some(pin.revision) };
            let page = world.store().list(&range, &options).await.unwrap();
            seen.extend(names(&world, &page.entries));
            assert_eq!(u64::try_from(expected.len() - seen.len()).unwrap(), page.remaining);
            match page.entries.last() {
                Some(last) if page.remaining > 0 => range = range.after(last.key.as_bytes()),
                _ => break,
            }
        }
        assert_eq!(seen, expected);
    }
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.unwrap();
    }
}

async fn old_page(world: World) {
    let mut last = Revision::NONE;
    for name in ["a", "b", "c", "d", "e"] {
        last = world.put(name, name).await;
    }
    let entry = world.store().get(&world.key("d")).await.unwrap().unwrap();
    world.remove("d", entry.modified).await;
    world.put("c-", "late").await;
    let options = ListOptions { limit: 2, revision: Some(last) };
    let page = world.store().list(&world.range(), &options).await.unwrap();
    assert_eq!((names(&world, &page.entries), page.remaining), (vec!["a".to_owned(), "b".to_owned()], 3));
    let rest = world.range().after(world.key("b").as_bytes());
    let page = world.store().list(&rest, &options).await.unwrap();
    assert_eq!((names(&world, &page.entries), page.remaining), (vec!["c".to_owned(), "d".to_owned()], 1));
}

async fn after_the_last(world: World) {
    world.put("a", "1").await;
    let rest = world.range().after(world.key("a").as_bytes());
    let page = world.store().list(&rest, &ListOptions::default()).await.unwrap();
    assert_eq!((page.entries, page.remaining), (Vec::new(), 0));
    // A token of some other list may point past the end.
    let beyond = world.range().after(b"/zzz");
    let page = world.store().list(&beyond, &ListOptions { limit: 5, revision: None }).await.unwrap();
    assert_eq!((page.entries, page.remaining), (Vec::new(), 0));
}

async fn every_revision(world: World) {
    let mut shown = BTreeMap::new();
    let mut moments = Vec::new();
    let mut random = 7_u64;
    for step in 0..60 {
        // A fixed pseudo-random sequence: the case must fail always or never.
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let name = format!("k{}", (random >> 33) % 6);
        let value = step.to_string();
        let revision = match shown.get(&name).cloned() {
            None => world.put(&name, &value).await,
            Some((revision, _)) if random >> 40 & 3 == 0 => {
                shown.remove(&name);
                moments.push((world.remove(&name, revision).await, shown.clone()));
                continue;
            }
            Some((revision, _)) => world.replace(&name, revision, &value).await,
        };
        shown.insert(name, (revision, value));
        moments.push((revision, shown.clone()));
    }
    for (revision, expected) in moments {
        let page = world.list(Some(revision)).await;
        let then = names(&world, &page.entries)
            .into_iter()
            .zip(&page.entries)
            .map(|(name, entry)| (name, (entry.modified, String::from_utf8(entry.value.to_vec()).unwrap())));
        assert_eq!(then.collect::<BTreeMap<_, _>>(), expected, "at {revision}");
    }
}

async fn any_script(world: World) {
    let mut all = ["Zürich", "москва", "東京", "🚀/💾", "a b", "~", "שלום", "\u{10ffff}"].map(str::to_owned);
    let start = world.next_revision().await;
    for name in &all {
        world.put(name, name).await;
    }
    all.sort_unstable();
    let (mut range, mut seen) = (world.range(), Vec::new());
    loop {
        let page = world.store().list(&range, &ListOptions { limit: 3, revision: None }).await.unwrap();
        seen.extend(names(&world, &page.entries));
        match page.entries.last() {
            Some(last) if page.remaining > 0 => range = range.after(last.key.as_bytes()),
            _ => break,
        }
    }
    assert_eq!(seen, all);
    for name in &all {
        let entry = world.store().get(&world.key(name)).await.unwrap().unwrap();
        assert_eq!(entry.value, name.as_bytes());
    }
    let events_read = events(&mut world.watch(start).await, all.len()).await;
    assert!(all.iter().all(|name| events_read.iter().any(|event| event.key == world.key(name))));
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
        Err(StoreError::Future { requested: reported, .. }) => assert_eq!(reported, requested),
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
